//! The memory of a forward pass, and how many sequences it takes at once.

use super::bands::{Bands, ThreadIndex};
use super::buffer::Buffer;
use super::kernels::{AttentionScratch, Widened};
use super::narrow::NarrowMemory;
use super::panels::{PANEL, stride};
use super::weights::{Weights, has_branches};
use crate::Shape;
use crate::architecture::NormPlace;

/// Most tokens of a group: enough for a matrix product to run at full speed, and few enough for activations to stay in the
/// second-level cache. With groups of twice the size, each token takes a quarter more time.
pub(super) const GROUP: usize = 256;

/// Memory of one thread of a team.
pub(super) struct ThreadMemory {
    pub(super) thread: ThreadIndex,
    pub(super) attention: AttentionScratch,
    pub(super) widened: Widened,
}

impl ThreadMemory {
    pub(super) fn new(thread: ThreadIndex, weights: &Weights) -> Self {
        let shape = weights.shape();
        Self {
            thread,
            attention: AttentionScratch::new(GROUP.min(shape.max_tokens), shape.head),
            widened: Widened::new(weights.precision(), weights.isa()),
        }
    }
}

/// All memory that a forward pass writes, for groups of up to `rows` tokens.
pub(super) struct Memory {
    rows: usize,
    /// The residual stream: one row of `hidden` floats per token.
    pub(super) states: Buffer,
    /// The stream, normalised for a branch; empty where the stream itself is.
    pub(super) normed: Buffer,
    /// The result of a branch that is normalised before it is added; empty where it is added at once.
    pub(super) branch: Buffer,
    /// Queries, keys, values and context during attention; the wide layer during the feed-forward network. Neither needs the
    /// other's values.
    pub(super) wide: Buffer,
    pub(super) narrow: NarrowMemory,
    /// Token and position of each row.
    pub(super) tokens: Vec<(u32, u32)>,
    /// First row and length of each sequence.
    pub(super) sequences: Vec<(usize, usize)>,
    /// A pooled row, where further steps follow.
    pub(super) pooled: Vec<f32>,
}

/// Widths of the buffers, in floats for each token.
struct Widths {
    normed: usize,
    branch: usize,
    wide: usize,
    /// The widest input of a product.
    input: usize,
}

impl Widths {
    fn new(shape: &Shape) -> Self {
        let block = shape.block();
        let attention = 2 * (shape.queries() + shape.keys());
        let projections = 1 + usize::from(block.gated);
        Self {
            normed: if block.place == NormPlace::After {
                0
            } else {
                shape.hidden
            },
            branch: if has_branches(shape) { shape.hidden } else { 0 },
            wide: attention.max(projections * shape.feed_forward),
            input: shape.feed_forward.max(shape.hidden).max(shape.queries()),
        }
    }
}

impl Memory {
    /// For a team of `threads`, and sequences of up to `longest` tokens.
    pub(super) fn new(weights: &Weights, threads: usize, longest: usize) -> Self {
        let shape = weights.shape();
        let widths = Widths::new(shape);
        let rows = GROUP.max(longest);
        let all_rows = rows + Bands::spare_rows(threads);
        let floats = |features: usize| features / PANEL * stride(all_rows);
        Self {
            rows,
            states: Buffer::poisoned(floats(shape.hidden)),
            normed: Buffer::poisoned(floats(widths.normed)),
            branch: Buffer::poisoned(floats(widths.branch)),
            wide: Buffer::poisoned(floats(widths.wide)),
            narrow: NarrowMemory::new(
                weights.precision(),
                weights.isa(),
                floats(widths.input),
                rows,
            ),
            tokens: Vec::with_capacity(rows),
            sequences: Vec::with_capacity(rows),
            pooled: match weights.head().only_normalised() {
                Some(_) => Vec::new(),
                None => vec![f32::NAN; weights.head().width()],
            },
        }
    }

    /// Most tokens of a sequence.
    pub(super) fn longest(&self) -> usize {
        self.rows
    }

    /// Returns how many of `sequences`, from the first on, form the next group: groups of equal size instead of full groups and a
    /// small last one. A sequence above [`GROUP`] tokens is a group by itself. Never zero.
    pub(super) fn next_group_len(sequences: &[&[u32]]) -> usize {
        let total: usize = sequences.iter().map(|sequence| sequence.len()).sum();
        let aim = total.div_ceil(total.div_ceil(GROUP).max(1));
        let mut rows = 0;
        let next_group_len = sequences.iter().take_while(|sequence| {
            let fits = rows < aim && rows + sequence.len() <= GROUP;
            rows += sequence.len();
            fits
        });
        next_group_len.count().max(1)
    }
}
