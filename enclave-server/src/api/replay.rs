//! Remembers which requests were opened already, in bounded memory.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// The encapsulated keys of requests whose date is still acceptable.
///
/// An honest client makes a fresh one a request, so a repeat is a replay. Once the date of a request has run out the
/// date alone refuses it, and its entry is forgotten.
pub struct ReplayWindow {
    capacity: usize,
    seen: Mutex<Seen>,
}

/// Why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Seen before.
    Repeated,
    /// As many requests as can be remembered came within the window. Forgetting one early would let it be replayed.
    Full,
}

impl ReplayWindow {
    /// Remembers at most `capacity` requests at a time, some 20 to 40 bytes each.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            seen: Mutex::new(Seen::default()),
        }
    }

    /// Lets a request in once.
    ///
    /// `enc` is its encapsulated key; its date is acceptable until `expires`; both times are Unix seconds.
    ///
    /// # Errors
    /// [`Replay`].
    pub fn admit(&self, enc: &[u8], expires: u64, now: u64) -> Result<(), Replay> {
        // Half of the digest leaves no one a collision to find, and keys of X-Wing are 1,120 bytes.
        let digest = Sha256::digest(enc);
        let Some(tag) = digest.first_chunk::<16>() else {
            return Err(Replay::Repeated);
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.forget(now);
        if seen.slots.values().any(|slot| slot.contains(tag)) {
            return Err(Replay::Repeated);
        }
        if seen.count >= self.capacity {
            return Err(Replay::Full);
        }
        seen.count += 1;
        seen.slots
            .entry(expires / SLOT_SECONDS)
            .or_default()
            .insert(*tag);
        Ok(())
    }

    /// How many requests are remembered.
    pub fn len(&self) -> usize {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Entries are forgotten together, a minute's worth at a time: a dozen sets, and no timer an entry.
const SLOT_SECONDS: u64 = 60;

#[derive(Default)]
struct Seen {
    slots: BTreeMap<u64, HashSet<[u8; 16]>>,
    count: usize,
}

impl Seen {
    fn forget(&mut self, now: u64) {
        // A slot is over when its last second is: `expires` itself is still acceptable.
        let keep = self.slots.split_off(&(now / SLOT_SECONDS));
        let gone = std::mem::replace(&mut self.slots, keep);
        self.count -= gone.values().map(HashSet::len).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repeat_is_refused_as_long_as_its_date_is_good() {
        let window = ReplayWindow::new(10);
        assert_eq!(window.admit(b"a", 1300, 1000), Ok(()));
        for now in [1000, 1299, 1300] {
            assert_eq!(
                window.admit(b"a", 1300, now),
                Err(Replay::Repeated),
                "{now}"
            );
        }
        assert_eq!(window.admit(b"b", 1300, 1000), Ok(()));
    }

    #[test]
    fn what_ran_out_is_forgotten() {
        let window = ReplayWindow::new(10);
        assert_eq!(window.admit(b"a", 1300, 1000), Ok(()));
        assert_eq!(window.admit(b"b", 2000, 1400), Ok(()));
        assert_eq!(window.len(), 1);
    }

    #[test]
    fn a_full_window_refuses_and_forgets_nothing_early() {
        let window = ReplayWindow::new(2);
        assert_eq!(window.admit(b"a", 1300, 1000), Ok(()));
        assert_eq!(window.admit(b"b", 1300, 1000), Ok(()));
        assert_eq!(window.admit(b"c", 1300, 1000), Err(Replay::Full));
        assert_eq!(window.admit(b"a", 1300, 1000), Err(Replay::Repeated));
        assert_eq!(window.admit(b"c", 1700, 1400), Ok(()));
    }

    proptest! {
        #[test]
        fn never_admits_twice_and_never_exceeds_its_capacity(
            events in prop::collection::vec((0u8..20, 0u64..120, 0u64..600), 1..200),
        ) {
            let window = ReplayWindow::new(8);
            let mut now = 10_000;
            let mut admitted: Vec<(u8, u64)> = Vec::new();
            for (enc, step, validity) in events {
                now += step;
                let expires = now + validity;
                let outcome = window.admit(&[enc], expires, now);
                let live = admitted.iter().any(|(known, until)| *known == enc && *until >= now);
                prop_assert!(!(live && outcome.is_ok()), "replay of {} admitted", enc);
                if outcome.is_ok() {
                    admitted.push((enc, expires));
                }
                prop_assert!(window.len() <= 8);
            }
        }
    }
}
