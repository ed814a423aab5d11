//! Shares the processors between the models of one process. Each model has a queue and threads; a thread computes a batch only in
//! its turn. The next turn belongs to the model that has computed for the shortest time among those that wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Turns of several pools: at most as many batches at once as there are processors.
pub struct Turns {
    schedule: Mutex<Schedule>,
    changed: Condvar,
}

impl Turns {
    /// At most `most` batches at once, at least one.
    pub fn new(most: usize) -> Self {
        Self {
            schedule: Mutex::new(Schedule::new(most.max(1))),
            changed: Condvar::new(),
        }
    }

    /// Adds a model.
    pub(super) fn join(self: Arc<Self>) -> Member {
        let model = self.lock().join();
        Member { turns: self, model }
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        // No panic under the lock can leave the schedule inconsistent.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A model that takes turns with others.
pub(super) struct Member {
    turns: Arc<Turns>,
    model: usize,
}

impl Member {
    /// Waits for a turn.
    pub(super) fn take_turn(&self) -> Turn<'_> {
        let mut schedule = self.turns.lock();
        schedule.ask(self.model);
        while !schedule.begin(self.model) {
            schedule = self
                .turns
                .changed
                .wait(schedule)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(schedule);
        // There may be room for another model.
        self.turns.changed.notify_all();
        Turn {
            member: self,
            begun: Instant::now(),
        }
    }

    /// Number of models that wait or compute, this one included.
    pub(super) fn count_active(&self) -> usize {
        self.turns.lock().count_active(self.model)
    }

    /// Number of batches of other models that are being computed.
    pub(super) fn count_elsewhere(&self) -> usize {
        self.turns.lock().count_elsewhere(self.model)
    }
}

/// The right to compute a batch, until it is dropped.
pub(super) struct Turn<'a> {
    member: &'a Member,
    begun: Instant,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        self.member.turns.lock().end(self.member.model, took);
        self.member.turns.changed.notify_all();
    }
}

/// Decides whose turn is next. Uses neither threads nor a clock.
struct Schedule {
    free: usize,
    models: Vec<Share>,
    /// Virtual time: the highest minimum of `used` over the active models so far. A model that becomes active starts no lower,
    /// even if all models rested before.
    floor: Duration,
}

#[derive(Default)]
struct Share {
    /// Time of its turns, raised to the schedule's `floor` when it became active: a pause earns no credit.
    used: Duration,
    waiting: usize,
    computing: usize,
}

impl Share {
    fn is_active(&self) -> bool {
        self.waiting + self.computing > 0
    }
}

impl Schedule {
    fn new(free: usize) -> Self {
        Self {
            free,
            models: Vec::new(),
            floor: Duration::ZERO,
        }
    }

    fn join(&mut self) -> usize {
        self.models.push(Share::default());
        self.models.len() - 1
    }

    fn ask(&mut self, model: usize) {
        self.raise_floor();
        if let Some(share) = self.models.get_mut(model) {
            if !share.is_active() {
                share.used = share.used.max(self.floor);
            }
            share.waiting += 1;
        }
    }

    /// Begins a turn of `model` if it is the next one.
    fn begin(&mut self, model: usize) -> bool {
        if self.free == 0 || self.next() != Some(model) {
            return false;
        }
        self.free -= 1;
        if let Some(share) = self.models.get_mut(model) {
            share.waiting -= 1;
            share.computing += 1;
        }
        true
    }

    fn end(&mut self, model: usize, took: Duration) {
        self.free += 1;
        if let Some(share) = self.models.get_mut(model) {
            share.used += took;
        }
        // The model still counts as active.
        self.raise_floor();
        if let Some(share) = self.models.get_mut(model) {
            share.computing -= 1;
        }
    }

    fn raise_floor(&mut self) {
        let active = self.models.iter().filter(|share| share.is_active());
        let least = active.map(|share| share.used).min();
        self.floor = self.floor.max(least.unwrap_or_default());
    }

    /// The waiting model with the least time; among equals, the one with fewer turns at present, then the first.
    fn next(&self) -> Option<usize> {
        let models = self.models.iter().enumerate();
        let waiting = models.filter(|(_, share)| share.waiting > 0);
        let least = waiting.min_by_key(|(_, share)| (share.used, share.computing));
        least.map(|(model, _)| model)
    }

    fn count_active(&self, model: usize) -> usize {
        let models = self.models.iter().enumerate();
        models
            .filter(|(place, share)| *place == model || share.is_active())
            .count()
    }

    fn count_elsewhere(&self, model: usize) -> usize {
        let models = self.models.iter().enumerate();
        let others = models.filter(|(place, _)| *place != model);
        others.map(|(_, share)| share.computing).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(30);
    const SHORT: Duration = Duration::from_millis(10);

    /// Returns the order of turns where every model always waits and a turn of each takes its time.
    fn order(took: &[Duration], turns: usize) -> Vec<usize> {
        let mut schedule = Schedule::new(1);
        for _ in took {
            let model = schedule.join();
            schedule.ask(model);
        }
        let mut order = Vec::new();
        while order.len() < turns {
            let model = schedule.next().unwrap();
            assert!(schedule.begin(model));
            schedule.ask(model);
            schedule.end(model, took[model]);
            order.push(model);
        }
        order
    }

    #[test]
    fn models_get_the_same_time_however_long_their_batches_are() {
        assert_eq!(order(&[SHORT, SHORT], 6), [0, 1, 0, 1, 0, 1]);
        let order = order(&[LONG, SHORT], 16);
        let long = order.iter().filter(|model| **model == 0).count();
        assert_eq!(long, 4, "{order:?}");
    }

    #[test]
    fn a_model_that_rested_does_not_displace_the_others() {
        let mut schedule = Schedule::new(1);
        let (busy, rested) = (schedule.join(), schedule.join());
        for _ in 0..100 {
            schedule.ask(busy);
            assert!(schedule.begin(busy));
            schedule.end(busy, LONG);
        }
        schedule.ask(busy);
        schedule.ask(rested);
        schedule.ask(rested);
        assert!(schedule.begin(busy));
        schedule.end(busy, LONG);
        schedule.ask(busy);
        assert!(schedule.begin(rested));
        schedule.end(rested, LONG);
        assert!(schedule.begin(busy), "the turns alternate from now on");
    }

    #[test]
    fn a_pause_of_all_models_earns_no_credit() {
        let mut schedule = Schedule::new(1);
        let (first, second) = (schedule.join(), schedule.join());
        for _ in 0..100 {
            schedule.ask(first);
            assert!(schedule.begin(first));
            schedule.end(first, LONG);
        }
        schedule.ask(second);
        schedule.ask(first);
        let mut order = Vec::new();
        while order.len() < 6 {
            let model = schedule.next().unwrap();
            assert!(schedule.begin(model));
            schedule.ask(model);
            schedule.end(model, LONG);
            order.push(model);
        }
        assert_eq!(order, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn turns_of_other_models_are_counted() {
        let mut schedule = Schedule::new(4);
        let (first, second) = (schedule.join(), schedule.join());
        for model in [first, first, second] {
            schedule.ask(model);
            assert!(schedule.begin(model));
        }
        let elsewhere = [first, second].map(|model| schedule.count_elsewhere(model));
        assert_eq!(elsewhere, [1, 2]);
        schedule.end(first, SHORT);
        assert_eq!(schedule.count_elsewhere(second), 1);
    }

    #[test]
    fn a_turn_waits_until_another_one_ends() {
        let mut schedule = Schedule::new(2);
        let (first, second) = (schedule.join(), schedule.join());
        for _ in 0..3 {
            schedule.ask(first);
        }
        assert_eq!(schedule.count_active(second), 2);
        assert!(schedule.begin(first));
        assert!(schedule.begin(first));
        assert!(!schedule.begin(first));
        schedule.ask(second);
        assert!(!schedule.begin(second));
        schedule.end(first, SHORT);
        assert!(!schedule.begin(first), "the other model is next");
        assert!(schedule.begin(second));
    }
}
