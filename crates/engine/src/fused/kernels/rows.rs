//! Row-wise operations: embedding lookup, layer normalisation, pooling, conversion.

use half::bf16;

use super::super::super::{Activation, Pooling};
use super::super::bands::Banded;
use super::super::isa::{DotKernel, Dots, Kernel, Simd};
use super::super::packed::{Float, FloatsRef};
use super::super::panels::{MAX_WIDE_PANELS, PANEL, Panels, RowBlock};
use super::super::positions::Rotations;
use super::elementary::activate;

/// Scale and shift of a normalisation, one value per feature.
#[derive(Clone, Copy)]
pub(in super::super) struct Norm<'a> {
    pub(in super::super) scale: &'a [f32],
    pub(in super::super) shift: &'a [f32],
    pub(in super::super) epsilon: f32,
    /// Subtracts the mean first.
    pub(in super::super) centred: bool,
}

/// Normalises rows in place.
pub(in super::super) struct Normalise<'a> {
    pub(in super::super) rows: RowBlock<'a>,
    pub(in super::super) norm: Norm<'a>,
}

impl Kernel for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for row in 0..self.rows.rows {
            normalise(simd, &mut self.rows, row, self.norm);
        }
    }
}

/// Normalises rows into other rows.
pub(in super::super) struct NormaliseInto<'a> {
    pub(in super::super) from: Panels<'a>,
    pub(in super::super) rows: RowBlock<'a>,
    pub(in super::super) norm: Norm<'a>,
}

impl Kernel for NormaliseInto<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for row in 0..self.rows.rows {
            for (panel, rows) in used(&mut self.rows.panels) {
                let from = self.from.rows(panel, self.rows.first + row, 1);
                let to = rows[row * PANEL..][..PANEL].chunks_exact_mut(S::WIDTH);
                for (to, from) in to.zip(from.chunks_exact(S::WIDTH)) {
                    simd.store(to, simd.load(from));
                }
            }
            normalise(simd, &mut self.rows, row, self.norm);
        }
    }
}

/// Normalises the rows of a branch, and adds them to those of the stream.
pub(in super::super) struct AddNormalised<'a> {
    pub(in super::super) branch: RowBlock<'a>,
    pub(in super::super) rows: RowBlock<'a>,
    pub(in super::super) norm: Norm<'a>,
}

impl Kernel for AddNormalised<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for row in 0..self.rows.rows {
            normalise(simd, &mut self.branch, row, self.norm);
            for at in (0..self.norm.scale.len()).step_by(S::WIDTH) {
                let added = simd.load(block(&mut self.branch, row, at));
                let place = block(&mut self.rows, row, at);
                simd.store(place, simd.add(simd.load(place), added));
            }
        }
    }
}

/// Applies the activation to each number, and multiplies it by the projection that it opens, if there is one.
pub(in super::super) struct Activate<'a> {
    pub(in super::super) rows: RowBlock<'a, f32, MAX_WIDE_PANELS>,
    pub(in super::super) opened: Option<Panels<'a>>,
    pub(in super::super) activation: Activation,
}

impl Kernel for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let RowBlock { first, rows, .. } = self.rows;
        for (panel, numbers) in used(&mut self.rows.panels) {
            let opened = self.opened.map(|opened| opened.rows(panel, first, rows));
            for at in (0..numbers.len()).step_by(S::WIDTH) {
                let place = &mut numbers[at..];
                let mut value = activate(simd, self.activation, simd.load(place));
                if let Some(opened) = opened {
                    value = simd.mul(value, simd.load(&opened[at..]));
                }
                simd.store(place, value);
            }
        }
    }
}

/// Normalises each head of queries and keys if the model does so, and rotates it by its position.
pub(in super::super) struct Rotate<'a> {
    /// Queries, then keys.
    pub(in super::super) rows: RowBlock<'a, f32, MAX_WIDE_PANELS>,
    /// Features of a head; a multiple of [`PANEL`].
    pub(in super::super) head: usize,
    /// Heads of queries.
    pub(in super::super) queries: usize,
    /// Scales of each feature of a head of queries and of keys.
    pub(in super::super) scales: Option<[&'a [f32]; 2]>,
    pub(in super::super) epsilon: f32,
    pub(in super::super) rotations: &'a Rotations,
    /// Token and position in its sequence, for each row of the band.
    pub(in super::super) tokens: &'a [(u32, u32)],
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (head, half) = (self.head, self.head / 2);
        let panels = head / PANEL;
        let used = self.rows.panels.iter().take_while(|rows| !rows.is_empty());
        let heads = used.count() / panels;
        for row in 0..self.rows.rows {
            let (_, position) = self.tokens[self.rows.first + row];
            let (cosines, sines) = self.rotations.at(position as usize);
            for number in 0..heads {
                let first = number * head;
                if let Some([of_queries, of_keys]) = self.scales {
                    let scale = if number < self.queries {
                        of_queries
                    } else {
                        of_keys
                    };
                    normalise_head(simd, &mut self.rows, row, first, scale, self.epsilon);
                }
                if half.is_multiple_of(S::WIDTH) {
                    for at in (0..half).step_by(S::WIDTH) {
                        let (cosine, sine) = (simd.load(&cosines[at..]), simd.load(&sines[at..]));
                        let x = simd.load(block(&mut self.rows, row, first + at));
                        let y = simd.load(block(&mut self.rows, row, first + half + at));
                        let turned = simd.sub(simd.mul(x, cosine), simd.mul(y, sine));
                        simd.store(block(&mut self.rows, row, first + at), turned);
                        let turned = simd.mul_add(x, sine, simd.mul(y, cosine));
                        simd.store(block(&mut self.rows, row, first + half + at), turned);
                    }
                } else {
                    // Half a head is less than a block.
                    for at in 0..half {
                        let (cosine, sine) = (cosines[at], sines[at]);
                        let x = block(&mut self.rows, row, first + at)[0];
                        let y = block(&mut self.rows, row, first + half + at)[0];
                        block(&mut self.rows, row, first + at)[0] = x * cosine - y * sine;
                        block(&mut self.rows, row, first + half + at)[0] = x * sine + y * cosine;
                    }
                }
            }
        }
    }
}

/// x / root of the mean square · scale, over the features of one head.
#[inline(always)]
fn normalise_head<S: Simd, const PANELS: usize>(
    simd: S,
    rows: &mut RowBlock<'_, f32, PANELS>,
    row: usize,
    first: usize,
    scale: &[f32],
    epsilon: f32,
) {
    let mut squares = simd.splat(0.0);
    for at in (0..scale.len()).step_by(S::WIDTH) {
        let x = simd.load(block(rows, row, first + at));
        squares = simd.mul_add(x, x, squares);
    }
    let mean = simd.sum(squares) / scale.len() as f32;
    let factor = simd.splat(reciprocal((mean + epsilon).sqrt()));
    for at in (0..scale.len()).step_by(S::WIDTH) {
        let place = block(rows, row, first + at);
        let unit = simd.mul(simd.load(place), factor);
        simd.store(place, simd.mul(unit, simd.load(&scale[at..])));
    }
}

/// Writes the sum of word and position embedding of each token, normalised if the model does so.
pub(in super::super) struct Embed<'a> {
    pub(in super::super) rows: RowBlock<'a>,
    pub(in super::super) norm: Option<Norm<'a>>,
    /// [vocabulary][features]
    pub(in super::super) words: FloatsRef<'a>,
    /// [positions][features], including the embedding of token type 0.
    pub(in super::super) positions: Option<&'a [f32]>,
    pub(in super::super) features: usize,
    /// Token and position in its sequence, for each row of the band.
    pub(in super::super) tokens: &'a [(u32, u32)],
}

impl Kernel for Embed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.words {
            FloatsRef::F32(words) => self.look_up(simd, words),
            FloatsRef::F16(words) => self.look_up(simd, words),
            FloatsRef::Bf16(words) => self.look_up(simd, words),
        }
    }
}

impl Embed<'_> {
    #[inline(always)]
    fn look_up<S: Simd, W: Float>(mut self, simd: S, words: &[W]) {
        let features = self.features;
        for row in 0..self.rows.rows {
            let (token, position) = self.tokens[self.rows.first + row];
            let word = &words[token as usize * features..][..features];
            match self.positions {
                Some(positions) => {
                    let position = &positions[position as usize * features..][..features];
                    for at in (0..features).step_by(S::WIDTH) {
                        let sum = simd.add(W::load(simd, &word[at..]), simd.load(&position[at..]));
                        simd.store(block(&mut self.rows, row, at), sum);
                    }
                }
                None => {
                    for at in (0..features).step_by(S::WIDTH) {
                        simd.store(block(&mut self.rows, row, at), W::load(simd, &word[at..]));
                    }
                }
            }
            if let Some(norm) = self.norm {
                normalise(simd, &mut self.rows, row, norm);
            }
        }
    }
}

/// (x − mean) / √(variance + ε) · scale + shift. The variance is computed from the differences to the mean. Without centring, the
/// mean counts as zero.
#[inline(always)]
fn normalise<S: Simd>(simd: S, rows: &mut RowBlock<'_>, row: usize, norm: Norm<'_>) {
    let features = norm.scale.len();
    let mut mean = simd.splat(0.0);
    if norm.centred {
        let mut sum = simd.splat(0.0);
        for at in (0..features).step_by(S::WIDTH) {
            sum = simd.add(sum, simd.load(block(rows, row, at)));
        }
        mean = simd.splat(simd.sum(sum) / features as f32);
    }
    let mut squares = simd.splat(0.0);
    for at in (0..features).step_by(S::WIDTH) {
        let difference = simd.sub(simd.load(block(rows, row, at)), mean);
        squares = simd.mul_add(difference, difference, squares);
    }
    let variance = simd.sum(squares) / features as f32;
    let factor = simd.splat(reciprocal((variance + norm.epsilon).sqrt()));
    for at in (0..features).step_by(S::WIDTH) {
        let place = block(rows, row, at);
        let unit = simd.mul(simd.sub(simd.load(place), mean), factor);
        let scale = simd.load(&norm.scale[at..]);
        simd.store(
            place,
            simd.mul_add(unit, scale, simd.load(&norm.shift[at..])),
        );
    }
}

/// 1 / x, but NaN if x is infinite or NaN: dividing a row by an infinite length would give zeros, which look like a valid result.
#[inline(always)]
fn reciprocal(x: f32) -> f32 {
    x.recip() + 0.0 * x
}

/// The floats of `row` from feature `at` to the end of the panel.
#[inline(always)]
fn block<'b, const PANELS: usize>(
    rows: &'b mut RowBlock<'_, f32, PANELS>,
    row: usize,
    at: usize,
) -> &'b mut [f32] {
    &mut rows.panels[at / PANEL][row * PANEL + at % PANEL..(row + 1) * PANEL]
}

/// Quantizes rows: the largest absolute value of a row is mapped to 32,767.
pub(in super::super) struct Quantise<'a> {
    pub(in super::super) floats: Panels<'a>,
    /// The rows, and the destination of the numbers.
    pub(in super::super) rows: RowBlock<'a, i16, MAX_WIDE_PANELS>,
    /// The scale of each row; NaN for a row with a non-finite value.
    pub(in super::super) scales: &'a mut [f32],
}

impl DotKernel<i16> for Quantise<'_> {
    type Output = ();

    #[inline(always)]
    fn run<D: Dots<i16>>(self, dots: D) {
        let simd = dots.base();
        let RowBlock {
            first, mut panels, ..
        } = self.rows;
        let zero = simd.splat(0.0);
        for (row, scale) in self.scales.iter_mut().enumerate() {
            let floats = |panel| self.floats.rows(panel, first + row, 1);
            let (mut largest, mut nothing) = (zero, zero);
            for (panel, _) in used(&mut panels) {
                for block in floats(panel).chunks_exact(D::Base::WIDTH) {
                    let block = simd.load(block);
                    largest = simd.max(largest, simd.max(block, simd.sub(zero, block)));
                    // Zero times a finite value is zero, but NaN and infinity are propagated; a comparison would lose NaN.
                    nothing = simd.mul_add(zero, block, nothing);
                }
            }
            let largest = simd.largest(largest);
            *scale = largest / f32::from(i16::MAX) + simd.sum(nothing);
            let factor = match f32::from(i16::MAX) / largest {
                factor if factor.is_finite() => factor,
                // All values are zero, or negligible.
                _ => 0.0,
            };
            let factor = simd.splat(factor);
            for (panel, values) in used(&mut panels) {
                let values = values[row * PANEL..][..PANEL].chunks_exact_mut(D::Base::WIDTH);
                for (values, block) in values.zip(floats(panel).chunks_exact(D::Base::WIDTH)) {
                    dots.store(values, simd.mul(simd.load(block), factor));
                }
            }
        }
    }
}

/// Rounds rows to bf16.
pub(in super::super) struct Round<'a> {
    pub(in super::super) floats: Panels<'a>,
    /// The rows, and the destination of the numbers.
    pub(in super::super) rows: RowBlock<'a, bf16, MAX_WIDE_PANELS>,
}

impl DotKernel<bf16> for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn run<D: Dots<bf16>>(mut self, dots: D) {
        let RowBlock { first, rows, .. } = self.rows;
        for (panel, rounded) in used(&mut self.rows.panels) {
            let floats = self.floats.rows(panel, first, rows);
            let blocks = rounded.chunks_exact_mut(D::Base::WIDTH);
            for (to, block) in blocks.zip(floats.chunks_exact(D::Base::WIDTH)) {
                dots.store(to, dots.base().load(block));
            }
        }
    }
}

/// The panels that are used, with their indices.
#[inline(always)]
fn used<'p, 'a, T>(
    panels: &'p mut [&'a mut [T]],
) -> impl Iterator<Item = (usize, &'p mut &'a mut [T])> {
    let used = panels.iter_mut().take_while(|panel| !panel.is_empty());
    used.enumerate()
}

/// Pools the rows of one sequence.
pub(in super::super) struct Pool<'a> {
    pub(in super::super) states: Banded<'a>,
    pub(in super::super) first: usize,
    pub(in super::super) rows: usize,
    pub(in super::super) pooling: Pooling,
    /// Scales the result to unit length.
    pub(in super::super) unit: bool,
    /// [features]
    pub(in super::super) out: &'a mut [f32],
}

/// A length that is safe to divide by. `f32::max` would turn NaN into a number.
#[inline(always)]
fn longer(length: f32) -> f32 {
    if length < SHORTEST { SHORTEST } else { length }
}

/// Shorter vectors are divided by this instead of their length, like in PyTorch's `normalize`.
const SHORTEST: f32 = 1e-12;

impl Kernel for Pool<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let all = self.first..self.first + self.rows;
        let count = self.rows as f32;
        let (rows, share) = match self.pooling {
            Pooling::Mean => (all, 1.0 / count),
            Pooling::MeanOfRoot => (all, 1.0 / count.sqrt()),
            Pooling::WeightedMean => (all, 2.0 / (count * (count + 1.0))),
            Pooling::First => (self.first..self.first + 1, 1.0),
            Pooling::Last => (all.end - 1..all.end, 1.0),
            Pooling::Max => (all, 1.0),
        };
        let share = simd.splat(share);
        let mut squares = simd.splat(0.0);
        for at in (0..self.out.len()).step_by(S::WIDTH) {
            let parts = self.states.parts(at / PANEL, rows.clone());
            let parts = parts.flat_map(|rows| rows.chunks_exact(PANEL));
            let blocks = parts.map(|row| simd.load(&row[at % PANEL..]));
            let pooled = match self.pooling {
                Pooling::Max => {
                    let start = simd.splat(f32::NEG_INFINITY);
                    blocks.fold(start, |largest, block| simd.max(largest, block))
                }
                Pooling::WeightedMean => {
                    let weighted = blocks.zip(1_u32..);
                    weighted.fold(simd.splat(0.0), |sum, (block, weight)| {
                        simd.scaled_add(weight as f32, block, sum)
                    })
                }
                _ => blocks.fold(simd.splat(0.0), |sum, block| simd.add(sum, block)),
            };
            let pooled = simd.mul(pooled, share);
            squares = simd.mul_add(pooled, pooled, squares);
            simd.store(&mut self.out[at..], pooled);
        }
        if !self.unit {
            return;
        }
        let factor = simd.splat(reciprocal(longer(simd.sum(squares).sqrt())));
        for at in (0..self.out.len()).step_by(S::WIDTH) {
            let place = &mut self.out[at..];
            simd.store(place, simd.mul(simd.load(place), factor));
        }
    }
}
