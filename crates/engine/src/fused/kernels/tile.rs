//! The inner loop of every matrix product: a few rows times one panel of weights.

use half::bf16;

use super::super::buffer::LINE;
use super::super::isa::{Dots, MAX_ROWS, Simd};
use super::super::packed::{Float, Integer};
use super::super::panels::{PANEL, Panels};
use super::elementary::gelu;

/// Initial value of a tile's sums.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    Zero,
    /// The bias: one value per column.
    Bias(&'a [f32]),
    /// The output's current value plus the bias: a residual connection.
    AddTo(&'a [f32]),
    /// The output's current value: an earlier part of the same sum.
    Resume,
}

/// Operation applied to the sums before they are stored.
#[derive(Clone, Copy)]
pub(super) enum End<'a> {
    Store,
    Gelu,
    /// Multiplies each row by its factor.
    Scale(&'a [f32]),
}

/// Rows of activations and one panel of weights.
pub(super) trait Operands<S: Simd>: Copy {
    /// Adds to each sum the products of its row with the panel; the first sum belongs to `row`. Prefetches `next` at the same
    /// time.
    fn add<const ROWS: usize, N>(
        self,
        simd: S,
        row: usize,
        next: &[N],
        sums: &mut [S::Block; ROWS],
    );
}

/// A product of `rows` rows, from `row` on, with one panel of weights.
pub(super) struct Tile<'a, O, N> {
    pub(super) operands: O,
    /// The following weights in their storage type, prefetched while this tile is computed.
    pub(super) next: &'a [N],
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) start: Start<'a>,
    pub(super) end: End<'a>,
}

impl<O, N> Tile<'_, O, N> {
    /// Sums the products with ascending k, and stores [`Simd::WIDTH`] columns of row i at `out[i * PANEL]`.
    #[inline(always)]
    pub(super) fn run<S: Simd>(&self, simd: S, out: &mut [f32])
    where
        O: Operands<S>,
    {
        // A constant number of rows keeps the sums in registers.
        macro_rules! dispatch {
            ($($rows:literal)*) => {
                match self.rows {
                    $($rows if $rows <= S::ROWS => self.sum::<S, $rows>(simd, out),)*
                    rows => unreachable!("{rows} rows in a tile of at most {}", S::ROWS),
                }
            };
        }
        const { assert!(MAX_ROWS == 14 && S::ROWS <= MAX_ROWS && PANEL.is_multiple_of(S::WIDTH)) };
        dispatch!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    }

    // The sums stay in registers only if every loop over them is unrolled, so those loops must be short.
    #[inline(always)]
    fn sum<S: Simd, const ROWS: usize>(&self, simd: S, out: &mut [f32])
    where
        O: Operands<S>,
    {
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
        self.operands.add(simd, self.row, self.next, &mut sums);
        if let End::Scale(factors) = self.end {
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = simd.mul(*sum, simd.splat(factors[row]));
            }
        }
        for (row, sum) in sums.iter().enumerate() {
            simd.store(&mut out[row * PANEL..], *sum);
        }
        if let End::Gelu = self.end {
            // Applied to the stored values: a loop this long is not unrolled, and would index the sums.
            for row in 0..ROWS {
                let place = &mut out[row * PANEL..];
                simd.store(place, gelu(simd, simd.load(place)));
            }
        }
    }
}

/// Products per sum in one iteration of the loop, which is unrolled to reduce its overhead.
const STEPS: usize = 4;

// A panel is a whole number of iterations, and an iteration a whole number of pairs.
const _: () = assert!(PANEL.is_multiple_of(STEPS) && STEPS.is_multiple_of(2));

/// f32 activations with floating-point weights.
#[derive(Clone, Copy)]
pub(super) struct Floating<'a, W> {
    pub(super) left: Panels<'a>,
    /// First summation index; a multiple of [`PANEL`].
    pub(super) k: usize,
    /// [k][`Simd::WIDTH`], for the summed products.
    pub(super) weights: &'a [W],
}

impl<S: Simd, W: Float> Operands<S> for Floating<'_, W> {
    #[inline(always)]
    fn add<const ROWS: usize, N>(
        self,
        simd: S,
        row: usize,
        next: &[N],
        sums: &mut [S::Block; ROWS],
    ) {
        let first = self.k / PANEL;
        let mut next = shares(next, self.weights.len().div_ceil(STEPS * S::WIDTH));
        for (panel, weights) in self.weights.chunks(PANEL * S::WIDTH).enumerate() {
            let left = self.left.rows(first + panel, row, ROWS);
            // The range tells the compiler that k < PANEL, so that indices need no bounds check.
            let mut turns = weights.chunks_exact(STEPS * S::WIDTH);
            for (turn, weights) in (0..PANEL / STEPS).zip(&mut turns) {
                fetch(simd, next.next());
                for step in 0..STEPS {
                    let k = turn * STEPS + step;
                    let weights = W::load(simd, &weights[step * S::WIDTH..]);
                    for (row, sum) in sums.iter_mut().enumerate() {
                        *sum = simd.scaled_add(left[row * PANEL + k], weights, *sum);
                    }
                }
            }
            let last = turns.remainder().chunks_exact(S::WIDTH);
            let done = weights.len() / S::WIDTH - last.len();
            for (step, weights) in last.enumerate() {
                let k = (done + step) % PANEL;
                let weights = W::load(simd, weights);
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = simd.scaled_add(left[row * PANEL + k], weights, *sum);
                }
            }
        }
    }
}

/// bf16 activations and weights.
#[derive(Clone, Copy)]
pub(super) struct Dotted<'a, D> {
    pub(super) dots: D,
    pub(super) left: Panels<'a, bf16>,
    /// First summation index, a multiple of [`PANEL`], like the number of products.
    pub(super) k: usize,
    /// [k / 2][`Simd::WIDTH`][2]
    pub(super) weights: &'a [bf16],
}

impl<D: Dots<bf16>> Operands<D::Base> for Dotted<'_, D> {
    #[inline(always)]
    fn add<const ROWS: usize, N>(
        self,
        simd: D::Base,
        row: usize,
        next: &[N],
        sums: &mut [<D::Base as Simd>::Block; ROWS],
    ) {
        let first = self.k / PANEL;
        let width = D::Base::WIDTH;
        let mut next = shares(next, self.weights.len() / (STEPS * width));
        for (panel, weights) in self.weights.chunks_exact(PANEL * width).enumerate() {
            let left = self.left.rows(first + panel, row, ROWS);
            // k < PANEL, as above.
            for turn in 0..PANEL / STEPS {
                fetch(simd, next.next());
                for step in 0..STEPS / 2 {
                    let pair = turn * STEPS / 2 + step;
                    let weights = self.dots.load_pairs(&weights[pair * 2 * width..]);
                    for (row, sum) in sums.iter_mut().enumerate() {
                        let k = row * PANEL + 2 * pair;
                        *sum = self.dots.dot_add([left[k], left[k + 1]], weights, *sum);
                    }
                }
            }
        }
    }
}

/// Quantized activations.
#[derive(Clone, Copy)]
pub(in super::super) struct QuantisedRows<'a> {
    pub(in super::super) values: Panels<'a, i16>,
    /// Scale of each row.
    pub(in super::super) scales: &'a [f32],
}

/// Integer activations and weights, summed in 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Quantised<'a, D, W> {
    pub(super) dots: D,
    pub(super) left: QuantisedRows<'a>,
    /// First summation index, a multiple of [`PANEL`], like the number of products.
    pub(super) k: usize,
    /// [k / 2][`Simd::WIDTH`][2]
    pub(super) weights: &'a [W],
    /// The scale of every [`PANEL`] of a column: [k / `PANEL`][`Simd::WIDTH`]
    pub(super) scales: &'a [f32],
}

// A sum of this many products of the largest factors fits 32 bits.
const _: () = assert!(PANEL * i8::MAX as usize * i16::MAX as usize <= i32::MAX as usize);

impl<D: Dots<i16>, W: Integer> Operands<D::Base> for Quantised<'_, D, W> {
    #[inline(always)]
    fn add<const ROWS: usize, N>(
        self,
        simd: D::Base,
        row: usize,
        next: &[N],
        sums: &mut [<D::Base as Simd>::Block; ROWS],
    ) {
        let first = self.k / PANEL;
        let width = D::Base::WIDTH;
        let mut next = shares(next, self.weights.len() / (PANEL * width));
        let mut parts = [simd.splat(0.0); ROWS];
        for (panel, weights) in self.weights.chunks_exact(PANEL * width).enumerate() {
            fetch(simd, next.next());
            let left = self.left.values.rows(first + panel, row, ROWS);
            let mut ints = [simd.no_ints(); ROWS];
            // k < PANEL, as above. With anything more in an iteration, even prefetching, the compiler keeps no sum in a register.
            for pair in 0..PANEL / 2 {
                let weights = W::load_pairs(self.dots, &weights[pair * 2 * width..]);
                for (row, int) in ints.iter_mut().enumerate() {
                    let k = row * PANEL + 2 * pair;
                    *int = self.dots.dot_add([left[k], left[k + 1]], weights, *int);
                }
            }
            let scales = simd.load(&self.scales[panel * width..]);
            for (part, int) in parts.iter_mut().zip(ints) {
                *part = simd.mul_add(simd.floats(int), scales, *part);
            }
        }
        for ((at, part), sum) in parts.into_iter().enumerate().zip(sums) {
            *sum = simd.mul_add(simd.splat(self.left.scales[row + at]), part, *sum);
        }
    }
}

/// Splits the memory to prefetch into whole cache lines for each of `turns` iterations: many prefetches at once would wait for
/// each other and delay the products.
#[inline(always)]
fn shares<T>(next: &[T], turns: usize) -> impl Iterator<Item = &[T]> {
    let line = LINE / size_of::<T>();
    let lines = next.len().div_ceil(line);
    next.chunks(line * lines.div_ceil(turns).max(1))
}

#[inline(always)]
fn fetch<S: Simd, T>(simd: S, share: Option<&[T]>) {
    for line in share.unwrap_or(&[]).chunks(LINE / size_of::<T>()) {
        simd.prefetch(&line[0]);
    }
}

/// Splits `rows` into as few tiles as the registers allow, of nearly equal height: (first, height).
#[inline(always)]
pub(super) fn tiles<S: Simd>(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = rows.div_ceil(S::ROWS);
    (0..count).map(move |i| {
        let (from, to) = (rows * i / count, rows * (i + 1) / count);
        (from, to - from)
    })
}
