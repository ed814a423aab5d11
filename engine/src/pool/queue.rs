//! Whose turn it is, and what goes into one batch. No threads and no clock here: what happens follows from the calls.
//!
//! Clients take turns by deficit round robin: each turn is worth one slice, which a client may spend on several short
//! requests or on a part of a long one. The requests of one client take turns as well.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::job::{Job, Slice};
use super::{Client, PoolError, PoolLimits};

/// Requests that wait, and the count of what is on its way.
pub(super) struct Queue {
    limits: PoolLimits,
    /// Cost of a turn: no slice costs more.
    turn: usize,
    lines: BTreeMap<Client, Line>,
    /// Every client with a line, whose turn it is first.
    turns: VecDeque<Client>,
    /// Requests in all lines.
    waiting: usize,
    /// Cost admitted and not yet encoded, whether it waits or is being computed; never zero.
    pending: BTreeMap<Client, usize>,
    /// Threads that wait for work, and threads that compute.
    pub(super) idle: usize,
    pub(super) busy: usize,
    closed: bool,
}

/// The requests of one client, at least one.
struct Line {
    jobs: VecDeque<Job>,
    /// Cost it may still have computed in this turn.
    credit: usize,
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
            lines: BTreeMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
            pending: BTreeMap::new(),
            idle: 0,
            busy: 0,
            closed: false,
        }
    }

    /// Cost admitted and not yet encoded.
    pub(super) fn pending(&self) -> usize {
        self.pending.values().sum()
    }

    /// Ends when nothing waits any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Closed, and nothing waits.
    pub(super) fn ended(&self) -> bool {
        self.closed && self.waiting == 0
    }

    /// How much `cost` more of `client` would be too much: it may wait where there is room for it; and where there is none, as
    /// long as all that the client has there makes one slice, so that whoever filled the queue shuts nobody out; and where
    /// nothing else waits.
    pub(super) fn excess(&self, client: Client, cost: usize) -> Option<usize> {
        let pending = self.pending();
        let sum = pending.saturating_add(cost);
        let own = self.of(client).saturating_add(cost);
        let most = self.limits.queue_tokens;
        let slice = self.turn.min(most);
        let fits = sum <= most || own <= slice;
        // What must be gone before it fits: of the whole queue, or of its own alone. A request larger than the bound waits for
        // an empty queue.
        (pending > 0 && !fits).then(|| {
            let own = if cost <= slice { own - slice } else { pending };
            (sum - most).min(pending).min(own)
        })
    }

    /// Cost that will have been computed when `cost` more of `client` is: its own, and of every other client as much as it has
    /// as many turns for.
    pub(super) fn until_done(&self, client: Client, cost: usize) -> usize {
        let own = self.of(client).saturating_add(cost);
        let each = own.div_ceil(self.turn).saturating_mul(self.turn);
        let others = self.pending.iter().filter(|(other, _)| **other != client);
        others.fold(own, |sum, (_, cost)| sum.saturating_add(each.min(*cost)))
    }

    fn of(&self, client: Client) -> usize {
        self.pending.get(&client).copied().unwrap_or(0)
    }

    /// Counts a request and puts it at the end of its client's line.
    pub(super) fn push(&mut self, job: Job) {
        *self.pending.entry(job.client).or_default() += job.cost_left();
        self.enqueue(job);
    }

    /// The next batch: never empty; `None` when nothing waits. Requests that nobody wants any more are dropped, and
    /// those past their deadline answered.
    pub(super) fn next_batch(&mut self, now: Instant) -> Option<Batch> {
        // Idle threads should find work, so this one leaves them their share of the requests.
        let share = self.waiting.div_ceil(self.idle + 1);
        let (job, slice) = self.pop(now, |job, limits| Some(job.next(limits.slice_tokens)))?;
        let mut tokens = slice.tokens;
        let mut parts = vec![(job, slice)];
        while tokens < self.limits.fill_tokens && parts.len() < share {
            let room = self.limits.slice_tokens.saturating_sub(tokens);
            let next = self.pop(now, |job, _| {
                Some(job.next_within(room)).filter(|slice| slice.tokens > 0)
            });
            let Some((job, slice)) = next else { break };
            tokens += slice.tokens;
            parts.push((job, slice));
        }
        Some(Batch {
            parts,
            busy: self.busy + 1,
        })
    }

    /// Counts `slice` as encoded, and puts what is left of `job` back in line.
    pub(super) fn advance(&mut self, job: Job, slice: &Slice) {
        self.settle(job.client, slice.cost);
        self.enqueue(job);
    }

    /// Counts `cost` of `client` as no longer on its way.
    pub(super) fn settle(&mut self, client: Client, cost: usize) {
        settle(&mut self.pending, client, cost);
    }

    /// Drops every waiting request whose caller went away.
    pub(super) fn drop_withdrawn(&mut self) {
        for line in self.lines.values_mut() {
            line.jobs.retain(|job| {
                let withdrawn = job.withdrawn();
                if withdrawn {
                    settle(&mut self.pending, job.client, job.cost_left());
                    self.waiting -= 1;
                }
                !withdrawn
            });
        }
        self.lines.retain(|_, line| !line.jobs.is_empty());
        self.turns.retain(|client| self.lines.contains_key(client));
    }

    fn enqueue(&mut self, job: Job) {
        self.waiting += 1;
        match self.lines.entry(job.client) {
            Entry::Occupied(line) => line.into_mut().jobs.push_back(job),
            Entry::Vacant(place) => {
                self.turns.push_back(job.client);
                place.insert(Line {
                    jobs: VecDeque::from([job]),
                    credit: self.turn,
                });
            }
        }
    }

    /// The request whose turn it is, with the slice that `choose` makes of it; stays in line where that is `None`.
    fn pop(
        &mut self,
        now: Instant,
        choose: impl Fn(&Job, &PoolLimits) -> Option<Slice>,
    ) -> Option<(Job, Slice)> {
        loop {
            let client = *self.turns.front()?;
            let line = self.lines.get_mut(&client)?;
            let front = line.jobs.front()?;
            let slice = if front.withdrawn() || now >= front.deadline {
                None
            } else {
                let slice = choose(front, &self.limits)?;
                if slice.cost > line.credit {
                    line.credit += self.turn;
                    self.turns.rotate_left(1);
                    continue;
                }
                line.credit -= slice.cost;
                Some(slice)
            };
            let job = line.jobs.pop_front()?;
            self.waiting -= 1;
            if line.jobs.is_empty() {
                self.lines.remove(&client);
                self.turns.pop_front();
            }
            match slice {
                Some(slice) => return Some((job, slice)),
                None => {
                    self.settle(client, job.cost_left());
                    job.fail(PoolError::Deadline);
                }
            }
        }
    }
}

fn settle(pending: &mut BTreeMap<Client, usize>, client: Client, cost: usize) {
    let left = pending.get(&client).copied().unwrap_or(0);
    debug_assert!(left >= cost, "{cost} of {left} settled");
    match left.saturating_sub(cost) {
        0 => pending.remove(&client),
        left => pending.insert(client, left),
    };
}
