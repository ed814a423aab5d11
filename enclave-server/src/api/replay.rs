//! Recognises replays of sealed requests, in bounded memory.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

/// The encapsulated keys of requests whose date is still accepted.
///
/// An honest client makes a fresh key for each request, so a repeated key is a replay. Each date is either remembered or refused:
/// the floor rises as time passes, every date below it is refused forever, and only entries below it are removed. So neither a
/// clock that goes back nor a shortage of memory lets a request in twice.
///
/// The more entries there are, the fewer dates are accepted: usually those within five minutes, in a flood only those close to
/// now. A client that dates its requests by the enclave's clock is served even then.
pub struct ReplayWindow {
    capacity: usize,
    // Keyed for this process: a colliding `enc` can be found only by trying against the service, and is refused.
    tags: RandomState,
    seen: Mutex<Seen>,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The request is a replay.
    Repeated,
    /// The date differs from now by more than this many seconds, the present limit.
    Narrow(u64),
    /// The narrowest window already has as many requests as can be remembered.
    Full,
}

impl ReplayWindow {
    /// A window of at most `capacity` requests, of 10 to 21 bytes each.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            tags: RandomState::new(),
            seen: Mutex::new(Seen::default()),
        }
    }

    /// Admits a request once.
    ///
    /// `enc` is the encapsulated key, which is always sealed with the same `date`. Both times are in seconds of one clock that does
    /// not depend on the wall clock.
    ///
    /// # Errors
    /// [`Replay`].
    pub fn admit(&self, enc: &[u8], date: i64, now: i64) -> Result<(), Replay> {
        let tag = self.tags.hash_one(enc);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let width = self.width(seen.count);
        seen.remove_before(now.saturating_sub_unsigned(width));
        let slot = date.div_euclid(SLOT_SECONDS);
        if seen
            .slots
            .get(&slot)
            .is_some_and(|tags| tags.contains(&tag))
        {
            return Err(Replay::Repeated);
        }
        if date < seen.floor || date.abs_diff(now) > width {
            return Err(Replay::Narrow(width));
        }
        if seen.count >= self.capacity {
            return Err(Replay::Full);
        }
        seen.count += 1;
        seen.slots.entry(slot).or_default().insert(tag);
        Ok(())
    }

    /// Greatest accepted difference between a date and now, with `count` entries.
    ///
    /// Dates far ahead are remembered longest. They fill at most half of the window, those of the second width at most three
    /// quarters, and the rest is reserved for dates close to now.
    fn width(&self, count: usize) -> u64 {
        let quarter = self.capacity / 4;
        match count {
            count if count < 2 * quarter => WIDTHS[0],
            count if count < 3 * quarter => WIDTHS[1],
            _ => WIDTHS[2],
        }
    }

    /// Removes entries whose dates are refused; to be called even when no request comes.
    pub fn remove_expired(&self, now: i64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove_before(now.saturating_sub_unsigned(WIDTHS[0]));
    }

    /// Number of remembered requests.
    pub fn len(&self) -> usize {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count
    }

    /// Whether no request is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The protocol's date window, and the narrower ones that apply as the window fills.
const WIDTHS: [u64; 3] = [protocol::terms::DATE_WINDOW_SECONDS, 60, 30];

/// Entries of a slot are removed together: about sixty sets, and no timer for each entry.
const SLOT_SECONDS: i64 = 10;

struct Seen {
    slots: BTreeMap<i64, HashSet<u64, BuildHasherDefault<IdentityHasher>>>,
    count: usize,
    /// Dates below this are refused; never goes back.
    floor: i64,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            count: 0,
            floor: i64::MIN,
        }
    }
}

impl Seen {
    fn remove_before(&mut self, floor: i64) {
        self.floor = self.floor.max(floor);
        // The slot that contains the floor may still hold accepted dates.
        let keep = self.slots.split_off(&self.floor.div_euclid(SLOT_SECONDS));
        let removed = std::mem::replace(&mut self.slots, keep);
        self.count -= removed.values().map(HashSet::len).sum::<usize>();
    }
}

/// Does not hash again, because tags are hashes.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_replay_is_refused_as_long_as_its_date_is_accepted() {
        let window = ReplayWindow::new(100);
        assert_eq!(window.admit(b"a", 1000, 1000), Ok(()));
        for now in [700, 1000, 1299, 1300] {
            assert_eq!(
                window.admit(b"a", 1000, now),
                Err(Replay::Repeated),
                "{now}"
            );
        }
        assert_eq!(window.admit(b"b", 1000, 1300), Ok(()));
    }

    #[test]
    fn an_expired_date_is_removed_and_refused_forever() {
        let window = ReplayWindow::new(100);
        assert_eq!(window.admit(b"a", 1000, 1000), Ok(()));
        window.remove_expired(1400);
        assert_eq!(window.len(), 0);
        // The clock goes back to when the date was accepted.
        for enc in [b"a", b"b"] {
            assert_eq!(window.admit(enc, 1000, 1000), Err(Replay::Narrow(300)));
        }
    }

    #[test]
    fn a_flood_narrows_the_window_and_admits_requests_on_time() {
        let window = ReplayWindow::new(400);
        // Dated as far ahead as is accepted, so that each is remembered for ten minutes.
        let mut flood = 0_u32;
        let mut flooded = |ahead: i64| {
            let mut admitted = 0;
            while window
                .admit(&flood.to_be_bytes(), 1000 + ahead, 1000)
                .is_ok()
            {
                flood += 1;
                admitted += 1;
            }
            admitted
        };
        assert_eq!([flooded(300), flooded(60)], [200, 100]);
        assert_eq!(window.admit(b"on time", 1000, 1000), Ok(()));
        assert_eq!(
            window.admit(b"a minute late", 940, 1000),
            Err(Replay::Narrow(30))
        );
        assert_eq!(flooded(30), 99);
        assert_eq!(window.admit(b"none left", 1000, 1000), Err(Replay::Full));
        // A date close to now has expired a minute later.
        assert_eq!(window.admit(b"later", 1061, 1061), Ok(()));
        assert_eq!(
            window.admit(b"on time", 1000, 1061),
            Err(Replay::Narrow(30))
        );
    }

    proptest! {
        #[test]
        fn never_admits_twice_and_never_exceeds_its_capacity(
            events in prop::collection::vec((0u8..20, -400_i64..400, -350_i64..350), 1..300),
        ) {
            let window = ReplayWindow::new(8);
            let mut now = 10_000;
            // A key is sealed with one date.
            let mut dates = std::collections::HashMap::new();
            let mut admitted = HashSet::new();
            for (enc, step, offset) in events {
                now += step;
                let date = *dates.entry(enc).or_insert(now + offset);
                if window.admit(&[enc], date, now).is_ok() {
                    prop_assert!(admitted.insert(enc), "replay of {} admitted", enc);
                }
                prop_assert!(window.len() <= 8);
            }
        }
    }
}
