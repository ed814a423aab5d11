//! Work that goes row by row: embedding lookup, layer normalisation, pooling.

use super::super::super::Pooling;
use super::super::isa::{Kernel, Simd};
use super::super::panels::{PANEL, Panels, RowBlock};

/// Scale and shift of a layer normalisation, one value a feature each.
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
    pub(in super::super) words: &'a [f32],
    /// [positions][features], the embedding of token type 0 added in.
    pub(in super::super) positions: &'a [f32],
    /// For each row of the batch its token and its position in its sequence.
    pub(in super::super) tokens: &'a [(u32, u32)],
}

impl Kernel for Embed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let features = self.norm.scale.len();
        for row in 0..self.rows.rows {
            let (token, position) = self.tokens[self.rows.first + row];
            let word = &self.words[token as usize * features..][..features];
            let position = &self.positions[position as usize * features..][..features];
            for at in (0..features).step_by(S::WIDTH) {
                let sum = simd.add(simd.load(&word[at..]), simd.load(&position[at..]));
                simd.store(block(&mut self.rows, row, at), sum);
            }
            normalise(simd, &mut self.rows, row, self.norm);
        }
    }
}

/// (x − mean) / √(variance + ε) · scale + shift, with the variance from the differences.
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
    let factor = simd.splat((variance + norm.epsilon).sqrt().recip());
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

/// The floats of `row` from feature `at` to the end of the panel.
#[inline(always)]
fn block<'b>(rows: &'b mut RowBlock<'_>, row: usize, at: usize) -> &'b mut [f32] {
    &mut rows.panels[at / PANEL][row * PANEL + at % PANEL..(row + 1) * PANEL]
}

/// Makes one embedding of unit length from the rows of one sequence.
pub(in super::super) struct Pool<'a> {
    pub(in super::super) states: Panels<'a>,
    pub(in super::super) first: usize,
    pub(in super::super) rows: usize,
    pub(in super::super) pooling: Pooling,
    /// [features]
    pub(in super::super) out: &'a mut [f32],
}

/// Shorter vectors are divided by this instead of by their length, as PyTorch's `normalize` does.
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
            let panel = self.states.rows(at / PANEL, self.first, rows);
            let mut sum = simd.splat(0.0);
            for row in 0..rows {
                sum = simd.add(sum, simd.load(&panel[row * PANEL + at % PANEL..]));
            }
            let mean = simd.mul(sum, share);
            squares = simd.mul_add(mean, mean, squares);
            simd.store(&mut self.out[at..], mean);
        }
        let factor = simd.splat(simd.sum(squares).sqrt().max(SHORTEST).recip());
        for at in (0..self.out.len()).step_by(S::WIDTH) {
            let place = &mut self.out[at..];
            simd.store(place, simd.mul(simd.load(place), factor));
        }
    }
}
