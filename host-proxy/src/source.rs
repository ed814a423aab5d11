//! Identifies clients by their addresses.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// A client, as far as an address identifies one: an IPv4 address, or the /64 network of one IPv6 subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
            address => address,
        })
    }
}

/// The other end of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) source: Source,
    /// Permits that this connection was given by [`FairQueue`](crate::admission::FairQueue).
    permits: Arc<AtomicU64>,
    /// Requests of this connection that are not answered to the end.
    in_flight: watch::Sender<usize>,
}

/// Counts a request in flight until it is dropped.
pub(crate) struct InFlight(watch::Sender<usize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Peer {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self {
            source: address.into(),
            permits: Arc::default(),
            in_flight: watch::Sender::default(),
        }
    }

    /// Returns the sender of a request, which the server has put into its extensions.
    pub(crate) fn of<B>(request: &http::Request<B>) -> Self {
        let peer = request.extensions().get::<Self>().cloned();
        peer.unwrap_or_else(|| Self::new(Ipv4Addr::UNSPECIFIED.into()))
    }

    /// Counts a request that begins.
    pub(crate) fn begin_request(&self) -> InFlight {
        self.in_flight.send_modify(|count| *count += 1);
        InFlight(self.in_flight.clone())
    }

    /// Waits until no request of the connection is in flight.
    pub(crate) async fn finish_requests(&self) {
        let mut in_flight = self.in_flight.subscribe();
        // An error means that the connection has ended.
        in_flight.wait_for(|count| *count == 0).await.map(drop).ok();
    }

    /// Waits until a request of the connection is in flight.
    pub(crate) async fn await_request(&self) {
        let mut in_flight = self.in_flight.subscribe();
        in_flight.wait_for(|count| *count > 0).await.map(drop).ok();
    }

    pub(crate) fn permits(&self) -> u64 {
        self.permits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_permit(&self) {
        self.permits.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn source(last: u8) -> Source {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)).into()
    }

    #[test]
    fn addresses_of_one_subscriber_are_one_source() {
        let v6 = |last: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 2, 3, 4, last));
        assert_eq!(Source::from(v6(1)), Source::from(v6(2)));
        let other = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 2, 3, 4, 1));
        assert_ne!(Source::from(v6(1)), Source::from(other));
        let mapped = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped());
        assert_eq!(Source::from(mapped), source(7));
        assert_ne!(source(7), source(8));
    }
}
