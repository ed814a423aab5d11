//! The inference threads, and their measured speed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use zeroize::{Zeroize as _, Zeroizing};

use super::super::Encoder;
use super::job::{Job, Slice};
use super::queue::{Batch, Queue};
use super::turns::{Member, Turn};
use super::{Observer, PoisonError, PoolError, PoolLimits};

/// State shared by threads and callers.
pub(super) struct Shared {
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) limits: PoolLimits,
    /// Turns with other models, if there are any.
    turns: Option<Member>,
    pub(super) observer: OnceLock<Arc<dyn Observer>>,
    queue: Mutex<Queue>,
    pub(super) work: Condvar,
    /// Wakes the express thread.
    pub(super) express: Condvar,
    /// Moving average of [`nanos_per_cost`].
    nanos_per_cost: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        encoder: Arc<dyn Encoder>,
        limits: PoolLimits,
        turns: Option<Member>,
    ) -> Self {
        // A slice holds at least one text of any length.
        let turn = encoder.cost(limits.slice_tokens.max(encoder.max_tokens()));
        Self {
            encoder,
            limits,
            turns,
            observer: OnceLock::new(),
            queue: Mutex::new(Queue::new(limits, turn)),
            work: Condvar::new(),
            express: Condvar::new(),
            nanos_per_cost: AtomicU64::new(100_000),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        // No panic under the lock can leave the queue inconsistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `job`, or refuses it if it exceeds the limit or would probably miss its deadline.
    pub(super) fn admit(&self, job: Job) -> Result<(), PoolError> {
        let busy = |cost| PoolError::Busy {
            retry_after: whole_seconds(self.time_for(cost)),
        };
        let cost = job.cost_left();
        let mut queue = self.lock();
        if let Some(excess) = queue.excess(cost) {
            return Err(busy(excess));
        }
        let most = self.cost_in(job.deadline.saturating_duration_since(Instant::now()));
        let pending = queue.pending();
        // A single request is tried whatever the estimate: only computing updates the estimate.
        if pending > 0 && queue.until_done(cost) > most {
            let excess = pending.saturating_add(cost).saturating_sub(most);
            return Err(busy(excess.min(pending)));
        }
        queue.push(job);
        let express = queue.find_express().is_some();
        drop(queue);
        self.work.notify_one();
        if express {
            self.express.notify_one();
        }
        Ok(())
    }

    /// Start time of the batch that has been computed for the longest time.
    pub(super) fn oldest_start(&self) -> Option<Instant> {
        self.lock().oldest_start()
    }

    fn time_for(&self, cost: usize) -> Duration {
        let nanos = self.nanos_per_cost.load(Ordering::Relaxed);
        estimate_time(nanos, cost, self.count_models())
    }

    /// Number of models that share the processors now.
    fn count_models(&self) -> u32 {
        let active = self.turns.as_ref().map_or(1, Member::count_active);
        u32::try_from(active).unwrap_or(u32::MAX)
    }

    /// Number of threads of all models that compute, where `busy` of them are this model's.
    pub(super) fn count_threads(&self, busy: usize) -> usize {
        busy + self.turns.as_ref().map_or(0, Member::count_elsewhere)
    }

    /// Estimated cost that can be computed in `time`.
    fn cost_in(&self, time: Duration) -> usize {
        let nanos = self.nanos_per_cost.load(Ordering::Relaxed);
        estimate_cost(nanos, time, self.count_models())
    }

    /// Runs thread `number` until the pool is dropped.
    pub(super) fn run(&self, number: usize) {
        let mut rows = Zeroizing::default();
        while let Some((batch, turn)) = self.next(number) {
            self.compute(number, batch, &mut rows);
            drop(turn);
        }
    }

    /// Runs the express thread, which also has a `number`, until the pool is dropped.
    pub(super) fn run_express(&self, number: usize) {
        let mut rows = Zeroizing::default();
        while let Some(batch) = self.next_express(number) {
            self.compute(number, batch, &mut rows);
        }
    }

    fn compute(&self, number: usize, batch: Batch, rows: &mut Vec<f32>) {
        self.run_batch(batch, rows);
        rows.zeroize();
        self.lock().end(number);
    }

    fn next(&self, number: usize) -> Option<(Batch, Option<Turn<'_>>)> {
        let mut queue = self.lock();
        loop {
            // The batch is chosen when its turn comes, so that it is the best one then.
            let mut turn = None;
            if let Some(member) = self.turns.as_ref().filter(|_| queue.has_waiting()) {
                drop(queue);
                turn = Some(member.take_turn());
                queue = self.lock();
            }
            let now = Instant::now();
            if let Some(batch) = queue.next_batch(now) {
                queue.begin(number, &batch, now);
                // Requests that arrived while a thread was waking up may remain.
                if queue.find_express().is_some() {
                    self.express.notify_one();
                }
                return Some((batch, turn));
            }
            drop(turn);
            if queue.is_finished() {
                return None;
            }
            queue.idle += 1;
            queue = self
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    fn next_express(&self, number: usize) -> Option<Batch> {
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            if let Some(batch) = queue.next_express(now) {
                queue.begin(number, &batch, now);
                return Some(batch);
            }
            if queue.is_finished() {
                return None;
            }
            queue = self
                .express
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run_batch(&self, batch: Batch, rows: &mut Vec<f32>) {
        let cost = batch.cost();
        let threads = self.count_threads(batch.busy);
        let started = Instant::now();
        for (job, slice) in &batch.parts {
            if slice.places.start == 0 {
                let waited = started.saturating_duration_since(job.created);
                if let Some(observer) = self.observer.get() {
                    observer.queued(waited);
                }
            }
        }
        if self.encode(&batch.parts, rows) {
            let elapsed = started.elapsed();
            if let Some(observer) = self.observer.get() {
                observer.computed(elapsed);
            }
            self.observe(nanos_per_cost(elapsed, cost, threads));
            let mut rest = rows.as_slice();
            for (job, slice) in batch.parts {
                let (own, others) = rest.split_at(slice.places.len() * self.encoder.dimension());
                rest = others;
                self.store_slice(job, &slice, own);
            }
            return;
        }
        // One of several requests caused the failure: run each separately.
        let alone = batch.parts.len() == 1;
        for part in batch.parts {
            let part = [part];
            let encoded = !alone && self.encode(&part, rows);
            let [(job, slice)] = part;
            if encoded {
                self.store_slice(job, &slice, rows);
            } else {
                self.lock().release(job.cost_left());
                job.fail(PoolError::Failed);
            }
        }
    }

    /// Encodes `parts` into `rows`; returns whether it succeeded. A panic must fail a request, not the thread.
    fn encode(&self, parts: &[(Job, Slice)], rows: &mut Vec<f32>) -> bool {
        let views: Vec<&[u32]> = parts
            .iter()
            .flat_map(|(job, slice)| job.sequences(slice))
            .collect();
        rows.resize(views.len() * self.encoder.dimension(), 0.0);
        match catch_unwind(AssertUnwindSafe(|| self.encoder.encode_into(&views, rows))) {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::error!(code = "ENGINE_FAILED", %error, "a batch was not encoded");
                false
            }
            Err(_) => {
                tracing::error!(code = "ENGINE_PANICKED", "the encoder panicked");
                false
            }
        }
    }

    /// Stores a slice's rows, then answers the request or appends it to the queue.
    fn store_slice(&self, mut job: Job, slice: &Slice, rows: &[f32]) {
        if job.store(slice, rows, self.encoder.dimension()) {
            // Before the answer, so that the caller finds the space free.
            self.lock().release(slice.cost);
            job.finish();
        } else {
            self.lock().advance(job, slice);
            self.work.notify_one();
        }
    }

    fn observe(&self, sample: u64) {
        let before = self.nanos_per_cost.load(Ordering::Relaxed);
        // A lost update between threads only delays the average.
        self.nanos_per_cost
            .store((before * 7 + sample) / 8, Ordering::Relaxed);
    }
}

/// Wall-clock time of one unit of cost if this model alone had the machine: a batch of `cost` took `elapsed` on one of `threads`
/// threads that computed. Those of other models count, because estimates multiply by the number of models.
fn nanos_per_cost(elapsed: Duration, cost: usize, threads: usize) -> u64 {
    let work = cost.saturating_mul(threads).max(1) as u64;
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / work
}

/// Estimates how long `cost` takes where as many `models` share the machine.
fn estimate_time(nanos_per_cost: u64, cost: usize, models: u32) -> Duration {
    let alone = Duration::from_nanos(nanos_per_cost.saturating_mul(cost as u64));
    alone.saturating_mul(models)
}

/// Estimates the cost that can be computed in `time`: the inverse of [`estimate_time`].
fn estimate_cost(nanos_per_cost: u64, time: Duration, models: u32) -> usize {
    let nanos = u128::from(nanos_per_cost.max(1)) * u128::from(models.max(1));
    usize::try_from(time.as_nanos() / nanos).unwrap_or(usize::MAX)
}

/// Rounds for `retry-after`.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().saturating_add(1).min(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On each thread, 50 units of cost take a millisecond.
    const BATCH: (Duration, usize) = (Duration::from_millis(1), 50);

    #[test]
    fn models_that_share_several_threads_are_counted_once() {
        let (elapsed, cost) = BATCH;
        for (threads, models) in [(1, 1), (4, 1), (4, 2), (4, 4)] {
            let nanos = nanos_per_cost(elapsed, cost, threads);
            // Each of the model's threads computes twice.
            let left = 2 * (threads / models) * cost;
            let count = u32::try_from(models).unwrap();
            assert_eq!(estimate_time(nanos, left, count), 2 * elapsed);
            assert_eq!(estimate_cost(nanos, 2 * elapsed, count), left);
        }
    }

    #[test]
    fn models_that_share_one_thread_wait_for_each_other() {
        let (elapsed, cost) = BATCH;
        let nanos = nanos_per_cost(elapsed, cost, 1);
        assert_eq!(estimate_time(nanos, cost, 3), 3 * elapsed);
    }
}
