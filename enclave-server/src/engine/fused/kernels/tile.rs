//! The inner loop of every matrix product: a few rows times one panel of weights.

use super::super::buffer::LINE;
use super::super::isa::{MAX_ROWS, Simd};
use super::super::panels::{PANEL, Panels};
use super::elementary::gelu;

/// What a tile's sums start from.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    Zero,
    /// One value a column.
    Bias(&'a [f32]),
    /// What the output holds, plus one value a column: a residual connection.
    AddTo(&'a [f32]),
    /// What the output holds, from an earlier part of the same sum.
    Resume,
}

/// What happens to the sums before they are stored.
#[derive(Clone, Copy)]
pub(super) enum End<'a> {
    Store,
    Gelu,
    /// Multiplies each row by its factor.
    Scale(&'a [f32]),
}

/// A product of `rows` rows of `left`, from `row` on, with one panel of weights.
pub(super) struct Tile<'a> {
    pub(super) left: Panels<'a>,
    pub(super) row: usize,
    pub(super) rows: usize,
    /// Where the sum starts; a multiple of [`PANEL`].
    pub(super) k: usize,
    /// [k][`Simd::WIDTH`]: as many rows as products to sum.
    pub(super) weights: &'a [f32],
    /// Weights that come next, to be fetched while this tile computes.
    pub(super) next: &'a [f32],
    pub(super) start: Start<'a>,
    pub(super) end: End<'a>,
}

impl Tile<'_> {
    /// Adds up the products, k ascending, and stores [`Simd::WIDTH`] columns of row i at
    /// `out[i * PANEL]`.
    #[inline(always)]
    pub(super) fn run<S: Simd>(&self, simd: S, out: &mut [f32]) {
        // A constant number of rows keeps the sums in registers.
        macro_rules! dispatch {
            ($($rows:literal)*) => {
                match self.rows {
                    $($rows if $rows <= S::ROWS => self.sum::<S, $rows>(simd, out),)*
                    rows => unreachable!("{rows} rows in a tile of at most {}", S::ROWS),
                }
            };
        }
        const { assert!(MAX_ROWS == 14) };
        dispatch!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    }

    // The sums stay in registers only while every loop over them is unrolled, so those are short.
    #[inline(always)]
    fn sum<S: Simd, const ROWS: usize>(&self, simd: S, out: &mut [f32]) {
        let mut sums = [simd.splat(0.0); ROWS];
        match self.start {
            Start::Zero => {}
            Start::Bias(bias) => {
                for sum in &mut sums {
                    *sum = simd.load(bias);
                }
            }
            Start::AddTo(bias) => {
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = simd.add(simd.load(&out[row * PANEL..]), simd.load(bias));
                }
            }
            Start::Resume => {
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = simd.load(&out[row * PANEL..]);
                }
            }
        }
        let first = self.k / PANEL;
        let panels = self.weights.len().div_ceil(PANEL * S::WIDTH);
        let mut next = self.next.chunks(self.next.len().div_ceil(panels).max(1));
        for (panel, weights) in self.weights.chunks(PANEL * S::WIDTH).enumerate() {
            for line in next.next().unwrap_or(&[]).chunks(LINE) {
                simd.prefetch(&line[0]);
            }
            let left = self.left.rows(first + panel, self.row, ROWS);
            // Two steps a turn: the loop's own instructions weigh less. The ranges tell the compiler
            // that k < PANEL, so that no index needs a check.
            let mut pairs = weights.chunks_exact(2 * S::WIDTH);
            for (pair, weights) in (0..PANEL / 2).zip(&mut pairs) {
                for half in 0..2 {
                    let k = 2 * pair + half;
                    let weights = simd.load(&weights[half * S::WIDTH..]);
                    for (row, sum) in sums.iter_mut().enumerate() {
                        *sum = simd.scaled_add(left[row * PANEL + k], weights, *sum);
                    }
                }
            }
            let last = pairs.remainder();
            if last.len() == S::WIDTH {
                let k = (weights.len() / S::WIDTH - 1) % PANEL;
                let weights = simd.load(last);
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = simd.scaled_add(left[row * PANEL + k], weights, *sum);
                }
            }
        }
        if let End::Scale(factors) = self.end {
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = simd.mul(*sum, simd.splat(factors[row]));
            }
        }
        for (row, sum) in sums.iter().enumerate() {
            simd.store(&mut out[row * PANEL..], *sum);
        }
        if let End::Gelu = self.end {
            // On what was just stored: a loop this long stays a loop, and would index the sums.
            for row in 0..ROWS {
                let place = &mut out[row * PANEL..];
                simd.store(place, gelu(simd, simd.load(place)));
            }
        }
    }
}

/// Cuts `rows` into as few tiles as the registers allow, of nearly equal height: (first, height).
#[inline(always)]
pub(super) fn tiles<S: Simd>(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = rows.div_ceil(S::ROWS);
    (0..count).map(move |i| {
        let (from, to) = (rows * i / count, rows * (i + 1) / count);
        (from, to - from)
    })
}
