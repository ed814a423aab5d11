//! A request on its way through the queue.

use std::ops::Range;
use std::time::Instant;

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::PoolError;

/// Delivers the result to the caller.
pub(super) type Reply = oneshot::Sender<Result<Rows, PoolError>>;

/// Concatenated embeddings; zeroized when dropped.
pub(super) type Rows = Zeroizing<Vec<f32>>;

/// A request: its sequences, its progress, and the channel for its answer.
pub(super) struct Job {
    pub(super) created: Instant,
    pub(super) deadline: Instant,
    sequences: Zeroizing<Vec<Vec<u32>>>,
    /// Positions sorted by length: sequences of a slice then need little padding, if the encoder pads.
    order: Vec<usize>,
    /// How many of `order` are encoded.
    done: usize,
    /// Cost of each sequence, in `order`.
    costs: Vec<usize>,
    cost_left: usize,
    rows: Rows,
    reply: Reply,
}

/// The next part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Range of the job's `order`.
    pub(super) places: Range<usize>,
    pub(super) tokens: usize,
    pub(super) cost: usize,
}

impl Job {
    pub(super) fn new(
        sequences: Vec<Vec<u32>>,
        cost: impl Fn(usize) -> usize,
        deadline: Instant,
        reply: Reply,
    ) -> Self {
        let mut order: Vec<_> = (0..sequences.len()).collect();
        order.sort_by_key(|index| sequences[*index].len());
        let costs: Vec<_> = order
            .iter()
            .map(|index| cost(sequences[*index].len()))
            .collect();
        Self {
            created: Instant::now(),
            deadline,
            cost_left: costs.iter().sum(),
            costs,
            sequences: Zeroizing::new(sequences),
            order,
            done: 0,
            rows: Rows::default(),
            reply,
        }
    }

    /// Cost of the sequences that are not encoded yet.
    pub(super) fn cost_left(&self) -> usize {
        self.cost_left
    }

    /// Whether the caller no longer waits for the answer.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    /// Returns the next sequences of at most `budget` tokens in total; possibly none.
    pub(super) fn next_within(&self, budget: usize) -> Slice {
        let mut tokens = 0;
        let count = self.order[self.done..]
            .iter()
            .map(|index| self.sequences[*index].len())
            .take_while(|length| {
                let fits = tokens + length <= budget;
                tokens += if fits { *length } else { 0 };
                fits
            })
            .count();
        self.slice(count, tokens)
    }

    /// Returns the next sequences, at least one.
    pub(super) fn next(&self, budget: usize) -> Slice {
        let slice = self.next_within(budget);
        if slice.places.is_empty() {
            let length = self.sequences[self.order[self.done]].len();
            self.slice(1, length)
        } else {
            slice
        }
    }

    fn slice(&self, count: usize, tokens: usize) -> Slice {
        let places = self.done..self.done + count;
        Slice {
            cost: self.costs[places.clone()].iter().sum(),
            places,
            tokens,
        }
    }

    pub(super) fn sequences(&self, slice: &Slice) -> impl Iterator<Item = &[u32]> {
        self.order[slice.places.clone()]
            .iter()
            .map(|index| self.sequences[*index].as_slice())
    }

    /// Stores the rows of a slice in the order of the request; returns whether the job is complete.
    pub(super) fn store(&mut self, slice: &Slice, rows: &[f32], dimension: usize) -> bool {
        // Allocated once, so that growing the vector leaves no copy of a row in freed memory.
        self.rows.resize(self.sequences.len() * dimension, 0.0);
        let order = &self.order[slice.places.clone()];
        for (index, row) in order.iter().zip(rows.chunks_exact(dimension)) {
            self.rows[index * dimension..][..dimension].copy_from_slice(row);
        }
        self.done = slice.places.end;
        self.cost_left -= slice.cost;
        self.done == self.order.len()
    }

    /// Answers with the rows.
    pub(super) fn finish(self) {
        // The receiver may be gone; the result is then not needed.
        self.reply.send(Ok(self.rows)).ok();
    }

    /// Answers with an error.
    pub(super) fn fail(self, error: PoolError) {
        self.reply.send(Err(error)).ok();
    }
}
