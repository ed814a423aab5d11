//! Who asks, and how much of something scarce one of them can hold.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// A client, as far as an address tells: an IPv4 address, or the /64 that one IPv6 subscriber has to himself.
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
    /// Turns that this connection was given.
    turns: Arc<AtomicU64>,
}

impl Peer {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self {
            source: address.into(),
            turns: Arc::default(),
        }
    }

    /// Who sent a request; the server puts it there.
    pub(crate) fn of<B>(request: &http::Request<B>) -> Self {
        let peer = request.extensions().get::<Self>().cloned();
        peer.unwrap_or_else(|| Self::new(Ipv4Addr::UNSPECIFIED.into()))
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub(crate) fn count_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

/// What there is none left of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The part that one source can hold.
    Source,
    /// All of it.
    All,
}

/// Something of which there is a bounded amount, and of which one source can hold a part only.
#[derive(Clone, Debug)]
pub(crate) struct Supply(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: usize,
    each: usize,
    held: Mutex<Held>,
    returned: Notify,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_source: HashMap<Source, usize>,
}

impl Supply {
    /// `total` in all, of which a source can hold `percent`, and one in any case.
    pub(crate) fn new(total: usize, percent: u8) -> Self {
        let each = (total as u128 * u128::from(percent) / 100).max(1);
        Self(Arc::new(Inner {
            total,
            each: usize::try_from(each).unwrap_or(total),
            held: Mutex::default(),
            returned: Notify::new(),
        }))
    }

    /// Takes `amount` at once, or nothing.
    pub(crate) fn take(&self, source: Source, amount: usize) -> Result<Hold, Full> {
        let mut hold = Hold {
            supply: self.clone(),
            source,
            amount: 0,
        };
        hold.grow(amount)?;
        Ok(hold)
    }

    /// Waits until there is enough. More than a source's part counts as that part: it could never be had.
    pub(crate) async fn wait(&self, source: Source, amount: usize) -> Hold {
        let amount = amount.min(self.0.each);
        loop {
            let mut returned = std::pin::pin!(self.0.returned.notified());
            // Registered before the look, so that nothing that is returned in between goes unnoticed.
            returned.as_mut().enable();
            if let Ok(hold) = self.take(source, amount) {
                return hold;
            }
            returned.await;
        }
    }
}

/// A part of a [`Supply`], returned when dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    supply: Supply,
    source: Source,
    amount: usize,
}

impl Hold {
    /// Takes more, or nothing.
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), Full> {
        if amount == 0 {
            return Ok(());
        }
        let Inner {
            total, each, held, ..
        } = &*self.supply.0;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.by_source.get(&self.source).copied().unwrap_or(0);
        if amount > total - held.all.min(*total) {
            return Err(Full::All);
        }
        if amount > each - own.min(*each) {
            return Err(Full::Source);
        }
        held.all += amount;
        held.by_source.insert(self.source, own + amount);
        self.amount += amount;
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut held = self
            .supply
            .0
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        held.all = held.all.saturating_sub(self.amount);
        if let Some(own) = held.by_source.get_mut(&self.source) {
            *own = own.saturating_sub(self.amount);
            // As many entries as there are sources that hold something: an attacker's addresses leave nothing behind.
            if *own == 0 {
                held.by_source.remove(&self.source);
            }
        }
        drop(held);
        self.supply.0.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

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

    #[test]
    fn one_source_leaves_room_for_another() {
        let supply = Supply::new(10, 50);
        let mut first = supply.take(source(1), 4).unwrap();
        assert_eq!(first.grow(2).unwrap_err(), Full::Source);
        first.grow(1).unwrap();
        assert_eq!(supply.take(source(1), 1).unwrap_err(), Full::Source);
        let second = supply.take(source(2), 5).unwrap();
        assert_eq!(supply.take(source(3), 1).unwrap_err(), Full::All);
        drop(second);
        assert!(supply.take(source(3), 5).is_ok());
        drop(first);
        let held = supply.0.held.lock().unwrap();
        assert_eq!((held.all, held.by_source.len()), (0, 0));
    }

    #[tokio::test]
    async fn what_is_returned_wakes_who_waits() {
        let supply = Supply::new(4, 100);
        let hold = supply.take(source(1), 3).unwrap();
        let waiting = tokio::spawn({
            let supply = supply.clone();
            // Clamped: nobody can ever hold nine of four.
            async move { supply.wait(source(2), 9).await.amount }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(hold);
        assert_eq!(waiting.await.unwrap(), 4);
    }
}
