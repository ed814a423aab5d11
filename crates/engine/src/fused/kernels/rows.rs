//! Row-wise operations: embedding lookup, layer normalisation, pooling, conversion.

use half::bf16;

use super::super::super::Pooling;
use super::super::bands::Banded;
use super::super::isa::{DotKernel, Dots, Kernel, Simd};
use super::super::packed::{Float, FloatsRef};
use super::super::panels::{MAX_WIDE_PANELS, PANEL, Panels, RowBlock};

/// Scale and shift of a layer normalisation, one value per feature.
#[derive(Clone, Copy)]
pub(in super::super) struct Norm<'a> {
    pub(in super::super) scale: &'a [f32],
    pub(in super::super) shift: &'a [f32],
    pub(in super::super) epsilon: f32,
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

/// Writes the sum of word and position embedding of each token, normalised.
pub(in super::super) struct Embed<'a> {
    pub(in super::super) rows: RowBlock<'a>,
    pub(in super::super) norm: Norm<'a>,
    /// [vocabulary][features]
    pub(in super::super) words: FloatsRef<'a>,
    /// [positions][features], including the embedding of token type 0.
    pub(in super::super) positions: &'a [f32],
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
        let features = self.norm.scale.len();
        for row in 0..self.rows.rows {
            let (token, position) = self.tokens[self.rows.first + row];
            let word = &words[token as usize * features..][..features];
            let position = &self.positions[position as usize * features..][..features];
            for at in (0..features).step_by(S::WIDTH) {
                let sum = simd.add(W::load(simd, &word[at..]), simd.load(&position[at..]));
                simd.store(block(&mut self.rows, row, at), sum);
            }
            normalise(simd, &mut self.rows, row, self.norm);
        }
    }
}

/// (x − mean) / √(variance + ε) · scale + shift. The variance is computed from the differences to the mean.
#[inline(always)]
fn normalise<S: Simd>(simd: S, rows: &mut RowBlock<'_>, row: usize, norm: Norm<'_>) {
    let features = norm.scale.len();
    let mut sum = simd.splat(0.0);
    for at in (0..features).step_by(S::WIDTH) {
        sum = simd.add(sum, simd.load(block(rows, row, at)));
    }
    let mean = simd.splat(simd.sum(sum) / features as f32);
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
fn block<'b>(rows: &'b mut RowBlock<'_>, row: usize, at: usize) -> &'b mut [f32] {
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

/// Pools the rows of one sequence into an embedding of unit length.
pub(in super::super) struct Pool<'a> {
    pub(in super::super) states: Banded<'a>,
    pub(in super::super) first: usize,
    pub(in super::super) rows: usize,
    pub(in super::super) pooling: Pooling,
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
        let rows = match self.pooling {
            Pooling::Mean => self.rows,
            Pooling::First => 1,
        };
        let share = simd.splat(1.0 / rows as f32);
        let mut squares = simd.splat(0.0);
        for at in (0..self.out.len()).step_by(S::WIDTH) {
            let mut sum = simd.splat(0.0);
            let parts = self.states.parts(at / PANEL, self.first..self.first + rows);
            for row in parts.flat_map(|rows| rows.chunks_exact(PANEL)) {
                sum = simd.add(sum, simd.load(&row[at % PANEL..]));
            }
            let mean = simd.mul(sum, share);
            squares = simd.mul_add(mean, mean, squares);
            simd.store(&mut self.out[at..], mean);
        }
        let factor = simd.splat(reciprocal(longer(simd.sum(squares).sqrt())));
        for at in (0..self.out.len()).step_by(S::WIDTH) {
            let place = &mut self.out[at..];
            simd.store(place, simd.mul(simd.load(place), factor));
        }
    }
}
