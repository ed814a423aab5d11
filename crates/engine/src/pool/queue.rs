//! Whose turn it is, and what goes into one batch. No threads and no clock here: what happens follows from the calls.
//!
//! The request with the least left to compute has a slice computed first: a short one waits for the slices that are being
//! computed, however many long ones are in line. Every fourth batch goes to the request that has waited longest since its last
//! slice, so that short ones never keep a long one from its end.
//!
//! A slice that is being computed is not interrupted. A request that is far shorter does not wait for it: the express thread
//! computes it beside the others, and the operating system shares out the processors.

use std::collections::VecDeque;
use std::time::Instant;

use super::job::{Job, Slice};
use super::{PoolError, PoolLimits};

/// Batches in a row that may pass over the request that has waited longest.
const PASSES: usize = 3;

/// The express thread takes a request where every other thread computes a batch of at least this many times its cost.
const EXPRESS: usize = 4;

/// Requests that wait, and the count of what is admitted.
pub(super) struct Queue {
    limits: PoolLimits,
    /// Cost of a slice at most.
    turn: usize,
    /// The longest since its last slice first.
    waiting: VecDeque<Job>,
    /// Batches in a row that passed over the first of `waiting`.
    passed: usize,
    /// Cost admitted and not yet encoded, whether it waits or is being computed.
    pending: usize,
    /// Threads that wait for work.
    pub(super) idle: usize,
    /// What each thread computes.
    computing: Vec<Option<Computing>>,
    closed: bool,
}

/// A batch that a thread computes.
#[derive(Clone, Copy)]
struct Computing {
    begun: Instant,
    cost: usize,
}

/// What one thread computes in one go.
pub(super) struct Batch {
    pub(super) parts: Vec<(Job, Slice)>,
    /// Threads that compute now, this one included.
    pub(super) busy: usize,
}

impl Queue {
    /// `turn` is the cost of a slice at most.
    pub(super) fn new(limits: PoolLimits, turn: usize) -> Self {
        Self {
            limits,
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

    /// Ends when nothing waits any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Closed, and nothing waits.
    pub(super) fn ended(&self) -> bool {
        self.closed && self.waiting.is_empty()
    }

    /// By how much a request of `cost` would exceed the limit. `None` where it is admitted: where there is room, where nothing
    /// else waits, or where it is one slice, so that a long request shuts no short one out.
    pub(super) fn excess(&self, cost: usize) -> Option<usize> {
        let sum = self.pending.saturating_add(cost);
        let most = self.limits.queue_tokens;
        let admitted = self.pending == 0 || sum <= most || cost <= self.turn.min(most);
        (!admitted).then(|| (sum - most).min(self.pending))
    }

    /// Cost that will have been computed when a new request of `cost` is: its own, all of those that have less left, and every
    /// fourth batch of the others. More of those that come later.
    pub(super) fn until_done(&self, cost: usize) -> usize {
        let left = || self.waiting.iter().map(Job::cost_left);
        let waiting: usize = left().sum();
        let less: usize = left().filter(|left| *left <= cost).sum();
        let computing = self.pending.saturating_sub(waiting);
        // Of a request that has more left only the slice that is being computed.
        let computing = computing.min(cost.max(self.turn).saturating_mul(self.busy().max(1)));
        let first = cost.saturating_add(less).saturating_add(computing);
        let passes = first.div_ceil(self.turn).div_ceil(PASSES);
        first.saturating_add((waiting - less).min(passes.saturating_mul(self.turn)))
    }

    /// Counts a request and puts it at the end of the line.
    pub(super) fn push(&mut self, job: Job) {
        self.pending += job.cost_left();
        self.waiting.push_back(job);
    }

    /// The next batch of a thread: never empty; `None` when nothing waits. Requests that nobody wants any more are
    /// dropped, and those past their deadline answered.
    pub(super) fn next_batch(&mut self, now: Instant) -> Option<Batch> {
        self.drop_overdue(now);
        // Idle threads should find work, so this one leaves them their share of the requests.
        let share = self.waiting.len().div_ceil(self.idle + 1);
        let first = self.take_first()?;
        Some(self.fill(first, share))
    }

    /// As [`next_batch`](Self::next_batch), for the express thread: requests that are far shorter than what every other thread
    /// computes.
    pub(super) fn next_express(&mut self, now: Instant) -> Option<Batch> {
        self.drop_overdue(now);
        let place = self.express()?;
        let first = self.waiting.remove(place)?;
        Some(self.fill(first, 1))
    }

    /// Place of a request for the express thread.
    pub(super) fn express(&self) -> Option<usize> {
        let place = self.least().filter(|_| self.idle == 0)?;
        let computed = self.computing.iter().flatten().map(|batch| batch.cost);
        let short = self.waiting[place].cost_left().saturating_mul(EXPRESS);
        computed
            .min()
            .filter(|least| short <= *least)
            .map(|_| place)
    }

    /// A batch of `first` and of what fits beside it, up to `share` requests.
    fn fill(&mut self, first: Job, share: usize) -> Batch {
        let slice = first.next(self.limits.slice_tokens);
        let mut tokens = slice.tokens;
        let mut parts = vec![(first, slice)];
        while tokens < self.limits.fill_tokens && parts.len() < share {
            let room = self.limits.slice_tokens.saturating_sub(tokens);
            let Some(place) = self.least() else { break };
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

    /// Takes the request whose turn it is.
    fn take_first(&mut self) -> Option<Job> {
        let least = self.least()?;
        if least == 0 || self.passed == PASSES {
            self.passed = 0;
            self.waiting.pop_front()
        } else {
            self.passed += 1;
            self.waiting.remove(least)
        }
    }

    /// Place of the request with the least left; of equal ones the one that has waited longest.
    fn least(&self) -> Option<usize> {
        let places = self.waiting.iter().enumerate();
        let least = places.min_by_key(|(_, job)| job.cost_left());
        least.map(|(place, _)| place)
    }

    /// Counts `slice` as encoded, and puts what is left of `job` at the end of the line.
    pub(super) fn advance(&mut self, job: Job, slice: &Slice) {
        self.settle(slice.cost);
        self.waiting.push_back(job);
    }

    /// Counts `cost` as no longer on its way.
    pub(super) fn settle(&mut self, cost: usize) {
        debug_assert!(self.pending >= cost, "{cost} of {} settled", self.pending);
        self.pending = self.pending.saturating_sub(cost);
    }

    /// Drops every waiting request whose caller went away.
    pub(super) fn drop_withdrawn(&mut self) {
        let pending = &mut self.pending;
        self.waiting.retain(|job| {
            let withdrawn = job.withdrawn();
            if withdrawn {
                *pending -= job.cost_left();
            }
            !withdrawn
        });
    }

    /// `thread` began `batch` at `now`.
    pub(super) fn begin(&mut self, thread: usize, batch: &Batch, now: Instant) {
        if self.computing.len() <= thread {
            self.computing.resize(thread + 1, None);
        }
        self.computing[thread] = Some(Computing {
            begun: now,
            cost: batch.cost(),
        });
    }

    /// `thread` ended its batch.
    pub(super) fn end(&mut self, thread: usize) {
        if let Some(computing) = self.computing.get_mut(thread) {
            *computing = None;
        }
    }

    /// When the batch began that is being computed for the longest time.
    pub(super) fn oldest(&self) -> Option<Instant> {
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
                self.settle(job.cost_left());
                job.fail(PoolError::Deadline);
            }
        }
    }
}

impl Batch {
    /// Of all its parts.
    pub(super) fn cost(&self) -> usize {
        self.parts.iter().map(|(_, slice)| slice.cost).sum()
    }
}
