//! Limits the bytes a second that one source sends on all its connections together.
//!
//! Each source has a virtual clock. Every byte that is read advances it by the byte's time at the full rate. While the clock is
//! more than a burst ahead of now, the next read of the source's connections waits, and TCP slows the sender down. No byte is
//! lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::source::Source;

/// How far a source's clock may be ahead: the bytes that it may send at once after a pause.
const BURST: Duration = Duration::from_millis(250);
/// Smallest number of clocks at which those in the past are removed.
const MIN_SWEEP: usize = 256;

/// The rate, and the clocks of the sources that send. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Rates(Arc<Inner>);

struct Inner {
    bytes_per_second: u64,
    clocks: Mutex<Clocks>,
}

struct Clocks {
    by_source: HashMap<Source, Instant>,
    /// Number of clocks at which those in the past are removed.
    sweep_at: usize,
}

impl Rates {
    /// Limits each source to `bytes_per_second`.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self(Arc::new(Inner {
            bytes_per_second: bytes_per_second.max(1),
            clocks: Mutex::new(Clocks {
                by_source: HashMap::new(),
                sweep_at: MIN_SWEEP,
            }),
        }))
    }

    /// Counts bytes of a source. Returns when its next byte may be read, where that is later than now.
    pub(crate) fn count(&self, source: Source, bytes: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut clocks = self.0.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = clocks.by_source.entry(source).or_insert(now);
        *clock = (*clock).max(now) + self.time_for(bytes);
        let resume = clock.checked_sub(BURST).filter(|resume| *resume > now);
        // An attacker's addresses use no memory later. As many insertions as there are clocks precede each sweep.
        if clocks.by_source.len() >= clocks.sweep_at {
            clocks.by_source.retain(|_, until| *until > now);
            clocks.sweep_at = (2 * clocks.by_source.len()).max(MIN_SWEEP);
        }
        resume
    }

    fn time_for(&self, bytes: usize) -> Duration {
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.0.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u32) -> Source {
        IpAddr::V4(Ipv4Addr::from_bits(number)).into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_waits_for_its_bytes_beyond_the_burst_and_no_other_does() {
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
        // A long pause allows one burst, and no more.
        tokio::time::advance(Duration::from_secs(3600)).await;
        let now = Instant::now();
        let resume = rates.count(source(1), 1 << 20);
        assert_eq!(resume, Some(now + Duration::from_millis(750)));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_sources_are_forgotten() {
        let rates = Rates::new(1 << 20);
        for number in 0..100_000 {
            rates.count(source(number), 1 << 10);
            if number % 8 == 0 {
                tokio::time::advance(Duration::from_millis(8)).await;
            }
        }
        let clocks = rates.0.clocks.lock().unwrap();
        assert!(clocks.by_source.len() <= MIN_SWEEP);
    }
}
