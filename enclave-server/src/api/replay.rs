//! Remembers which requests were opened already, in bounded memory.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

/// The encapsulated keys of requests whose date is still accepted.
///
/// An honest client makes a fresh key for each request, so a repeat is a replay. Each date is remembered or refused: the
/// floor rises as time passes, every date at or below it is refused for good, and only what lies below it is forgotten. So
/// no clock that goes back, and no shortage of memory, lets a request in twice.
///
/// The more is remembered, the fewer dates are accepted: those of five minutes as a rule, those close to now in a flood. A client
/// that dates its requests by the enclave's clock is served all the same.
pub struct ReplayWindow {
    capacity: usize,
    // A key of this process: a colliding `enc` can be found by trying against the service only, and is refused.
    tags: RandomState,
    seen: Mutex<Seen>,
}

/// Why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Seen before.
    Repeated,
    /// Its date is further from now than is accepted at present, in seconds.
    Narrow(u64),
    /// As many requests as can be remembered came within the narrowest window.
    Full,
}

impl ReplayWindow {
    /// Remembers at most `capacity` requests at a time, in 10 to 21 bytes each.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            tags: RandomState::new(),
            seen: Mutex::new(Seen::default()),
        }
    }

    /// Lets a request in once.
    ///
    /// `enc` is its encapsulated key, which is always sealed with the same `date`. Both times are in seconds of one clock that
    /// does not depend on the wall clock.
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

    /// How far a date may be from now, with so many remembered.
    ///
    /// Dates far ahead are remembered longest. They fill no more than half, those of the second step no more than three
    /// quarters, and the rest is there for dates close to now.
    fn width(&self, count: usize) -> u64 {
        let quarter = self.capacity / 4;
        match count {
            count if count < 2 * quarter => WIDTHS[0],
            count if count < 3 * quarter => WIDTHS[1],
            _ => WIDTHS[2],
        }
    }

    /// Forgets what cannot be asked for any more; also when no request comes.
    pub fn remove_expired(&self, now: i64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove_before(now.saturating_sub_unsigned(WIDTHS[0]));
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

/// The protocol's date window, and what it shrinks to while the window fills.
const WIDTHS: [u64; 3] = [protocol::terms::DATE_WINDOW_SECONDS, 60, 30];

/// Entries are forgotten together: some sixty sets, and no timer an entry.
const SLOT_SECONDS: i64 = 10;

struct Seen {
    slots: BTreeMap<i64, HashSet<u64, BuildHasherDefault<AsIs>>>,
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
        // A slot that the floor lies in still holds dates that are accepted.
        let keep = self.slots.split_off(&self.floor.div_euclid(SLOT_SECONDS));
        let gone = std::mem::replace(&mut self.slots, keep);
        self.count -= gone.values().map(HashSet::len).sum::<usize>();
    }
}

/// Tags are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
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
    fn a_repeat_is_refused_as_long_as_its_date_is_good() {
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
    fn what_ran_out_is_forgotten_and_refused_for_good() {
        let window = ReplayWindow::new(100);
        assert_eq!(window.admit(b"a", 1000, 1000), Ok(()));
        window.remove_expired(1400);
        assert_eq!(window.len(), 0);
        // The clock goes back to when the date was good.
        for enc in [b"a", b"b"] {
            assert_eq!(window.admit(enc, 1000, 1000), Err(Replay::Narrow(300)));
        }
    }

    #[test]
    fn a_flood_narrows_the_window_and_shuts_nobody_out_who_is_on_time() {
        let window = ReplayWindow::new(400);
        // Dated as far ahead as is taken, so that each is remembered for ten minutes.
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
        // What was dated close to now is over a minute later.
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
