//! Scaled dot-product attention of one head, sequence by sequence, without padding.

use std::ops::Range;

use super::super::bands::{Banded, MAX_BANDS};
use super::super::isa::{Kernel, MAX_ROWS, Simd};
use super::super::panels::{PANEL, Panels};
use super::super::positions::Distances;
use super::elementary::exp;
use super::tile::{End, Floating, Start, Tile, tiles};

/// Weights to prefetch: none, because keys and values have just been packed.
const NOTHING: &[f32] = &[];

/// Scratch memory of one thread.
pub(in super::super) struct AttentionScratch {
    /// The keys of one sequence as weights: [keys / `WIDTH`][head][`WIDTH`].
    keys: Vec<f32>,
    /// Its values as weights: [head / `WIDTH`][keys][`WIDTH`].
    values: Vec<f32>,
    /// Scores of one tile in panels: [keys / `PANEL`][tile][`PANEL`].
    scores: Vec<f32>,
}

impl AttentionScratch {
    /// For sequences of up to `longest` tokens and heads of `head` features.
    pub(in super::super) fn new(longest: usize, head: usize) -> Self {
        let padded = longest.next_multiple_of(PANEL);
        Self {
            keys: vec![f32::NAN; padded * head],
            values: vec![f32::NAN; padded * head],
            scores: vec![f32::NAN; padded * MAX_ROWS],
        }
    }

    /// Makes room for sequences of up to `longest` tokens, if there is less.
    pub(in super::super) fn grow(&mut self, longest: usize, head: usize) {
        if self.scores.len() < longest.next_multiple_of(PANEL) * MAX_ROWS {
            *self = Self::new(longest, head);
        }
    }
}

/// Keys that a query attends to, and what is added to their scores.
#[derive(Clone, Copy)]
pub(in super::super) struct Mask<'a> {
    /// None after the query.
    pub(in super::super) causal: bool,
    /// Largest distance of a key; `None` for any.
    pub(in super::super) reach: Option<usize>,
    /// Biases of all heads, and this head's number.
    pub(in super::super) distances: Option<(&'a Distances, usize)>,
}

impl Mask<'_> {
    /// The keys, of `length`, that the query at `position` attends to.
    #[inline(always)]
    fn keys(self, position: usize, length: usize) -> Range<usize> {
        let reach = self.reach.unwrap_or(length);
        let end = if self.causal { position + 1 } else { length };
        position.saturating_sub(reach)..end.min(position.saturating_add(reach).saturating_add(1))
    }
}

/// softmax(Q Kᵀ) V of one head, for every sequence of a batch; Q is already scaled by 1/√head.
pub(in super::super) struct AttentionHead<'a> {
    /// The head's panels of queries, keys and values.
    pub(in super::super) queries: Banded<'a>,
    pub(in super::super) keys: Banded<'a>,
    pub(in super::super) values: Banded<'a>,
    /// Features of the head; a multiple of [`PANEL`].
    pub(in super::super) head: usize,
    /// First row and length of each sequence.
    pub(in super::super) sequences: &'a [(usize, usize)],
    pub(in super::super) mask: Mask<'a>,
    pub(in super::super) scratch: &'a mut AttentionScratch,
    /// The head's panels of each band of the output.
    pub(in super::super) out: [&'a mut [f32]; MAX_BANDS],
}

impl Kernel for AttentionHead<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for &(first, length) in self.sequences {
            let (head, scratch) = (self.head, &mut *self.scratch);
            pack_keys::<S>(self.keys, head, first, length, &mut scratch.keys);
            pack_values(simd, self.values, head, first, length, &mut scratch.values);
            let mut position = 0;
            for (band, part) in self.queries.bands().across(first..first + length) {
                for (offset, rows) in tiles::<S>(part.len()) {
                    let queries = position + offset..position + offset + rows;
                    self.tile(simd, band, part.start + offset, queries, length);
                }
                position += part.len();
            }
        }
    }
}

impl AttentionHead<'_> {
    /// Computes the context of the queries at `positions` of a sequence, from `row` of a band on; keys and values are packed
    /// already.
    #[inline(always)]
    fn tile<S: Simd>(
        &mut self,
        simd: S,
        band: usize,
        row: usize,
        positions: Range<usize>,
        length: usize,
    ) {
        let Self {
            scratch,
            head,
            mask,
            ..
        } = self;
        let (head, mask, rows) = (*head, *mask, positions.len());
        let queries = self.queries.band(band);
        // The keys of all queries of the tile, from a whole panel on.
        let from = mask.keys(positions.start, length).start / PANEL * PANEL;
        let until = mask.keys(positions.end - 1, length).end;
        let count = until - from;
        let scores = &mut scratch.scores[..count.next_multiple_of(PANEL) * rows];
        for (block, keys) in (0..count)
            .step_by(S::WIDTH)
            .zip(scratch.keys[from * head..].chunks_exact(head * S::WIDTH))
        {
            let tile = Tile {
                operands: Floating {
                    left: queries,
                    k: 0,
                    weights: keys,
                },
                next: NOTHING,
                row,
                rows,
                start: Start::Bias(start_of_scores::<S>(count - block)),
                end: End::Store,
            };
            let panel = block / PANEL * rows * PANEL;
            tile.run(simd, &mut scores[panel + block % PANEL..]);
        }
        if let Some((distances, number)) = mask.distances {
            add_distances(simd, scores, positions.clone(), count, |position| {
                distances.from(number, position)
            });
        }
        if mask.causal || mask.reach.is_some() {
            for (row, position) in positions.enumerate() {
                let seen = mask.keys(position, length);
                hide(scores, rows, row, 0..seen.start - from);
                hide(scores, rows, row, seen.end - from..count);
            }
        }
        let shares = softmax(simd, scores, rows, count);
        for (column, values) in (0..head)
            .step_by(S::WIDTH)
            .zip(scratch.values.chunks_exact(length * S::WIDTH))
        {
            let tile = Tile {
                operands: Floating {
                    left: Panels::new(scores, rows * PANEL),
                    k: 0,
                    weights: &values[from * S::WIDTH..until * S::WIDTH],
                },
                next: NOTHING,
                row: 0,
                rows,
                start: Start::Zero,
                end: End::Scale(&shares),
            };
            let panel = column / PANEL * queries.stride;
            let out = &mut self.out[band][panel + row * PANEL + column % PANEL..];
            tile.run(simd, out);
        }
    }
}

/// Place of a score in a tile of `rows` rows.
#[inline(always)]
fn place(rows: usize, row: usize, key: usize) -> usize {
    key / PANEL * rows * PANEL + row * PANEL + key % PANEL
}

/// Adds the bias of each distance to the scores of the first `count` keys; MPNet's tokens attend to all keys.
#[inline(always)]
fn add_distances<'d, S: Simd>(
    simd: S,
    scores: &mut [f32],
    positions: Range<usize>,
    count: usize,
    biases: impl Fn(usize) -> &'d [f32],
) {
    let rows = positions.len();
    for (row, position) in positions.enumerate() {
        let biases = biases(position);
        for at in (0..count).step_by(S::WIDTH) {
            let scores = &mut scores[place(rows, row, at)..];
            match biases.get(at..at + S::WIDTH) {
                Some(biases) => simd.store(scores, simd.add(simd.load(scores), simd.load(biases))),
                // Beyond the last bias no score counts.
                None => {
                    for (score, bias) in scores.iter_mut().zip(&biases[at..count]) {
                        *score += bias;
                    }
                }
            }
        }
    }
}

/// Makes a query ignore `keys`.
#[inline(always)]
fn hide(scores: &mut [f32], rows: usize, row: usize, keys: Range<usize>) {
    for key in keys {
        scores[place(rows, row, key)] = f32::NEG_INFINITY;
    }
}

/// Initial values of the scores of `keys` keys: zero for each key, −∞ beyond the last.
#[inline(always)]
fn start_of_scores<S: Simd>(keys: usize) -> &'static [f32] {
    static START: [[f32; PANEL]; 2] = [[0.0; PANEL], [f32::NEG_INFINITY; PANEL]];
    &START.as_flattened()[PANEL - keys.min(S::WIDTH)..][..S::WIDTH]
}

/// Replaces each score by e^(score − largest of its row) and returns for each row the factor that normalises the sum to one. The
/// next product applies it.
#[inline(always)]
fn softmax<S: Simd>(simd: S, scores: &mut [f32], rows: usize, length: usize) -> [f32; MAX_ROWS] {
    // The maxima of all rows first: each has a long latency, and they are independent.
    let mut shifts = [0.0; MAX_ROWS];
    for (row, shift) in shifts[..rows].iter_mut().enumerate() {
        let mut largest = simd.splat(f32::NEG_INFINITY);
        for at in (0..length).step_by(S::WIDTH) {
            largest = simd.max(largest, simd.load(&scores[place(rows, row, at)..]));
        }
        *shift = simd.largest(largest);
    }
    let mut shares = [0.0; MAX_ROWS];
    for (row, share) in shares[..rows].iter_mut().enumerate() {
        let shift = simd.splat(shifts[row]);
        let mut sum = simd.splat(0.0);
        for at in (0..length).step_by(S::WIDTH) {
            let place = &mut scores[place(rows, row, at)..];
            let exponential = exp(simd, simd.sub(simd.load(place), shift));
            sum = simd.add(sum, exponential);
            simd.store(place, exponential);
        }
        *share = simd.sum(sum).recip();
    }
    shares
}

/// Transposes the keys of one sequence into weights. Pads with zeros, so that scores beyond the end stay at their initial −∞.
#[inline(always)]
fn pack_keys<S: Simd>(keys: Banded<'_>, head: usize, first: usize, length: usize, to: &mut [f32]) {
    for (block, to) in (0..length)
        .step_by(S::WIDTH)
        .zip(to.chunks_exact_mut(head * S::WIDTH))
    {
        let present = S::WIDTH.min(length - block);
        if present < S::WIDTH {
            to.fill(0.0);
        }
        for panel in 0..head / PANEL {
            let to = &mut to[panel * PANEL * S::WIDTH..][..PANEL * S::WIDTH];
            let from = first + block;
            let mut places = 0..S::WIDTH;
            for rows in keys.parts(panel, from..from + present) {
                for (row, key) in rows.chunks_exact(PANEL).zip(&mut places) {
                    let to = &mut to[key..][..=(PANEL - 1) * S::WIDTH];
                    for feature in 0..PANEL {
                        to[feature * S::WIDTH] = row[feature];
                    }
                }
            }
        }
    }
}

/// Copies the values of one sequence into weights.
#[inline(always)]
fn pack_values<S: Simd>(
    simd: S,
    values: Banded<'_>,
    head: usize,
    first: usize,
    length: usize,
    to: &mut [f32],
) {
    for (column, to) in (0..head)
        .step_by(S::WIDTH)
        .zip(to.chunks_exact_mut(length * S::WIDTH))
    {
        let mut places = to.chunks_exact_mut(S::WIDTH);
        for rows in values.parts(column / PANEL, first..first + length) {
            for (row, to) in rows.chunks_exact(PANEL).zip(&mut places) {
                simd.store(to, simd.load(&row[column % PANEL..]));
            }
        }
    }
}
