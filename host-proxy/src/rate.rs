//! How many bytes a second one source can send, on all its connections together.
//!
//! Each source has a clock. Every byte that is read moves it by the time that the byte is worth. A clock that is more than a
//! burst ahead of now stops the source's connections: their next read waits, and TCP slows the sender down. No byte is lost.

use crate::source::Source;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How far a source's clock can be ahead: what it sends at once after a rest.
const BURST: Duration = Duration::from_millis(250);
/// Clocks that are kept before those of the past are looked for.
const FEW: usize = 256;

/// The rate, and the clocks of the sources that send.
#[derive(Clone)]
pub(crate) struct Rates(Arc<Inner>);

struct Inner {
    bytes_per_second: u64,
    clocks: Mutex<Clocks>,
}

struct Clocks {
    paid_until: HashMap<Source, Instant>,
    /// Number of clocks at which the old ones are removed.
    sweep_at: usize,
}

impl Rates {
    /// At most `bytes_per_second` of each source.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self(Arc::new(Inner {
            bytes_per_second: bytes_per_second.max(1),
            clocks: Mutex::new(Clocks {
                paid_until: HashMap::new(),
                sweep_at: FEW,
            }),
        }))
    }

    /// Counts what a source sent. Returns when its next byte may be read, if that is later than now.
    pub(crate) fn count(&self, source: Source, bytes: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut clocks = self.0.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = clocks.paid_until.entry(source).or_insert(now);
        *clock = (*clock).max(now) + self.worth(bytes);
        let resume = clock.checked_sub(BURST).filter(|resume| *resume > now);
        // An attacker's addresses leave nothing behind, and the search is paid for by as many insertions.
        if clocks.paid_until.len() >= clocks.sweep_at {
            clocks.paid_until.retain(|_, until| *until > now);
            clocks.sweep_at = (2 * clocks.paid_until.len()).max(FEW);
        }
        resume
    }

    fn worth(&self, bytes: usize) -> Duration {
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.0.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn source(number: u32) -> Source {
        IpAddr::V4(Ipv4Addr::from_bits(number)).into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_waits_for_what_it_sent_beyond_its_burst_and_no_other_does() {
        let rates = Rates::new(1 << 20);
        let now = Instant::now();
        assert_eq!(rates.count(source(1), 256 << 10), None, "a burst");
        let resume = rates.count(source(1), 1 << 20);
        assert_eq!(resume, Some(now + Duration::from_secs(1)));
        // A second connection of the source waits behind the first.
        let resume = rates.count(source(1), 1 << 20);
        assert_eq!(resume, Some(now + Duration::from_secs(2)));
        assert_eq!(rates.count(source(2), 1), None);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(rates.count(source(1), 0), None);
        // Rest earns one burst, and no more.
        tokio::time::advance(Duration::from_secs(3600)).await;
        let now = Instant::now();
        let resume = rates.count(source(1), 1 << 20);
        assert_eq!(resume, Some(now + Duration::from_millis(750)));
    }

    #[tokio::test(start_paused = true)]
    async fn sources_that_rest_are_forgotten() {
        let rates = Rates::new(1 << 20);
        for number in 0..100_000 {
            rates.count(source(number), 1 << 10);
            if number % 8 == 0 {
                tokio::time::advance(Duration::from_millis(8)).await;
            }
        }
        let clocks = rates.0.clocks.lock().unwrap();
        assert!(clocks.paid_until.len() <= FEW);
    }
}
