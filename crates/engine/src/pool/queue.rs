//! Decides which request is next and which requests form a batch. Uses neither threads nor a clock, so its behaviour depends only
//! on the calls.
//!
//! The request with the least remaining work is next: a short one waits only for the slices being computed, however many long
//! ones are queued. Every fourth batch goes to the request that has waited longest since its last slice, so that short requests
//! cannot starve a long one.
//!
//! A slice is not interrupted. A far shorter request does not wait for it: the express thread computes it concurrently, and the
//! operating system schedules the threads.

use std::collections::VecDeque;
use std::time::Instant;

use super::job::{Job, Slice};
use super::{PoolError, PoolLimits};

/// Consecutive batches that may bypass the request that has waited longest.
const PASSES: usize = 3;

/// The express thread takes a request if every other thread computes a batch of at least this many times its cost.
const EXPRESS: usize = 4;

/// Waiting requests, and the admitted cost.
pub(super) struct Queue {
    limits: PoolLimits,
    /// Largest cost of a slice.
    turn: usize,
    /// Ordered by time since the last slice, the longest first.
    waiting: VecDeque<Job>,
    /// Consecutive batches that bypassed the first of `waiting`.
    passed: usize,
    /// Cost admitted and not yet encoded, waiting or being computed.
    pending: usize,
    /// Threads that wait for work.
    pub(super) idle: usize,
    /// The batch of each thread.
    computing: Vec<Option<Computing>>,
    closed: bool,
}

/// A batch that a thread is computing.
#[derive(Clone, Copy)]
struct Computing {
    begun: Instant,
    cost: usize,
}

/// The work of one thread until it returns to the queue.
pub(super) struct Batch {
    pub(super) parts: Vec<(Job, Slice)>,
    /// Threads that are computing, including this one.
    pub(super) busy: usize,
}

impl Queue {
    /// `turn` is the largest cost of a slice.
    pub(super) fn new(limits: PoolLimits, turn: usize) -> Self {
        Self {
            // A limit below the model's longest text would admit that text only while nothing else waits.
            limits: PoolLimits {
                queue_tokens: limits.queue_tokens.max(turn),
                ..limits
            },
            turn: turn.max(1),
            waiting: VecDeque::new(),
            passed: 0,
            pending: 0,
            idle: 0,
            computing: Vec::new(),
            closed: false,
        }
    }

    /// Cost admitted and not yet encoded.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Lets the threads end once nothing waits.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether a request waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the queue is closed and empty.
    pub(super) fn is_finished(&self) -> bool {
        self.closed && self.waiting.is_empty()
    }

    /// Returns by how much a request of `cost` would exceed the limit, or `None` if it is admitted: if there is room, if nothing
    /// else waits, or if it is one slice, so that a long request does not block short ones.
    pub(super) fn excess(&self, cost: usize) -> Option<usize> {
        let sum = self.pending.saturating_add(cost);
        let most = self.limits.queue_tokens;
        let admitted = self.pending == 0 || sum <= most || cost <= self.turn;
        (!admitted).then(|| (sum - most).min(self.pending))
    }

    /// Estimates the cost computed until a new request of `cost` is done: its own, that of all requests with less remaining, and
    /// every fourth batch of the others. Later requests may add to it.
    pub(super) fn until_done(&self, cost: usize) -> usize {
        let left = || self.waiting.iter().map(Job::cost_left);
        let waiting: usize = left().sum();
        let less: usize = left().filter(|left| *left <= cost).sum();
        let computing = self.pending.saturating_sub(waiting);
        // A request with more remaining work counts only with the slice being computed.
        let computing = computing.min(cost.max(self.turn).saturating_mul(self.busy().max(1)));
        let first = cost.saturating_add(less).saturating_add(computing);
        let passes = first.div_ceil(self.turn).div_ceil(PASSES);
        first.saturating_add((waiting - less).min(passes.saturating_mul(self.turn)))
    }

    /// Counts a request and appends it to the queue.
    pub(super) fn push(&mut self, job: Job) {
        self.pending += job.cost_left();
        self.waiting.push_back(job);
    }

    /// Returns the next batch for a thread, never empty; `None` if nothing waits. Drops requests whose callers are gone, and
    /// answers those past their deadline.
    pub(super) fn next_batch(&mut self, now: Instant) -> Option<Batch> {
        self.drop_overdue(now);
        // Leave idle threads their share of the requests.
        let share = self.waiting.len().div_ceil(self.idle + 1);
        let first = self.take_first()?;
        Some(self.fill(first, share))
    }

    /// Like [`next_batch`](Self::next_batch), for the express thread: takes requests far shorter than the batches of all other
    /// threads.
    pub(super) fn next_express(&mut self, now: Instant) -> Option<Batch> {
        self.drop_overdue(now);
        let place = self.find_express()?;
        let first = self.waiting.remove(place)?;
        Some(self.fill(first, 1))
    }

    /// Index of a request for the express thread.
    pub(super) fn find_express(&self) -> Option<usize> {
        let place = self.find_least().filter(|_| self.idle == 0)?;
        let computed = self.computing.iter().flatten().map(|batch| batch.cost);
        let short = self.waiting[place].cost_left().saturating_mul(EXPRESS);
        computed
            .min()
            .filter(|least| short <= *least)
            .map(|_| place)
    }

    /// Builds a batch from `first` and other requests that fit, up to `share` requests.
    fn fill(&mut self, first: Job, share: usize) -> Batch {
        let slice = first.next(self.limits.slice_tokens);
        let mut tokens = slice.tokens;
        let mut parts = vec![(first, slice)];
        while tokens < self.limits.fill_tokens && parts.len() < share {
            let room = self.limits.slice_tokens.saturating_sub(tokens);
            let Some(place) = self.find_least() else {
                break;
            };
            let slice = self.waiting[place].next_within(room);
            if slice.tokens == 0 {
                break;
            }
            tokens += slice.tokens;
            parts.extend(self.waiting.remove(place).map(|job| (job, slice)));
        }
        Batch {
            parts,
            busy: self.busy() + 1,
        }
    }

    /// Removes the next request from the queue.
    fn take_first(&mut self) -> Option<Job> {
        let least = self.find_least()?;
        if least == 0 || self.passed == PASSES {
            self.passed = 0;
            self.waiting.pop_front()
        } else {
            self.passed += 1;
            self.waiting.remove(least)
        }
    }

    /// Index of the request with the least remaining work; among equals, the one that has waited longest.
    fn find_least(&self) -> Option<usize> {
        let places = self.waiting.iter().enumerate();
        let least = places.min_by_key(|(_, job)| job.cost_left());
        least.map(|(place, _)| place)
    }

    /// Counts `slice` as encoded, and appends the rest of `job` to the queue.
    pub(super) fn advance(&mut self, job: Job, slice: &Slice) {
        self.release(slice.cost);
        self.waiting.push_back(job);
    }

    /// Subtracts `cost` from the pending cost.
    pub(super) fn release(&mut self, cost: usize) {
        debug_assert!(self.pending >= cost, "{cost} of {} settled", self.pending);
        self.pending = self.pending.saturating_sub(cost);
    }

    /// Drops waiting requests whose callers are gone.
    pub(super) fn drop_withdrawn(&mut self) {
        let pending = &mut self.pending;
        self.waiting.retain(|job| {
            let withdrawn = job.is_withdrawn();
            if withdrawn {
                *pending -= job.cost_left();
            }
            !withdrawn
        });
    }

    /// Records that `thread` started `batch` at `now`.
    pub(super) fn begin(&mut self, thread: usize, batch: &Batch, now: Instant) {
        if self.computing.len() <= thread {
            self.computing.resize(thread + 1, None);
        }
        self.computing[thread] = Some(Computing {
            begun: now,
            cost: batch.cost(),
        });
    }

    /// Records that `thread` finished its batch.
    pub(super) fn end(&mut self, thread: usize) {
        if let Some(computing) = self.computing.get_mut(thread) {
            *computing = None;
        }
    }

    /// Start time of the batch that has been computed for the longest time.
    pub(super) fn oldest_start(&self) -> Option<Instant> {
        let computing = self.computing.iter().flatten();
        computing.map(|batch| batch.begun).min()
    }

    fn busy(&self) -> usize {
        self.computing.iter().flatten().count()
    }

    fn drop_overdue(&mut self, now: Instant) {
        self.drop_withdrawn();
        if self.waiting.iter().all(|job| now < job.deadline) {
            return;
        }
        for job in std::mem::take(&mut self.waiting) {
            if now < job.deadline {
                self.waiting.push_back(job);
            } else {
                self.release(job.cost_left());
                job.fail(PoolError::Deadline);
            }
        }
    }
}

impl Batch {
    /// Total of all its slices.
    pub(super) fn cost(&self) -> usize {
        self.parts.iter().map(|(_, slice)| slice.cost).sum()
    }
}
