//! Matrix product of activations with packed weights, cut to fit the caches.

use std::ops::Range;

use super::super::isa::{Isa, Kernel, Simd};
use super::super::packed::{Float, FloatsRef, PackedRef};
use super::super::panels::{PANEL, Panels};
use super::tile::{End, Floating, Operands, Quantised, QuantisedRows, Start, Tile, tiles};

/// Products summed before the next panel has its turn: a panel of weights then stays in the first
/// level cache while the tiles of a block pass by. A multiple of [`PANEL`].
const DEPTH: usize = 384;

/// Rows of a block: their activations stay in the second level cache while the panels pass by.
const BLOCK: usize = 256;

/// What a product does besides multiplying and adding the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Finish {
    /// Nothing.
    Store,
    /// Applies GELU to each result.
    Gelu,
    /// Adds each result to what the output holds.
    AddToOutput,
}

/// `out = left · weights + bias` for some consecutive panels of the output.
pub(in super::super) struct Product<'a> {
    /// `rows` rows of `depth` features.
    pub(in super::super) left: Left<'a>,
    pub(in super::super) rows: usize,
    pub(in super::super) depth: usize,
    /// As many columns as `bias`.
    pub(in super::super) weights: PackedRef<'a>,
    /// [columns]
    pub(in super::super) bias: &'a [f32],
    pub(in super::super) finish: Finish,
    /// Whole panels, `stride` floats apart.
    pub(in super::super) out: &'a mut [f32],
    pub(in super::super) stride: usize,
}

/// What a product multiplies by weights: integers by integers.
#[derive(Clone, Copy)]
pub(in super::super) struct Left<'a> {
    pub(in super::super) floats: Panels<'a>,
    /// The same, quantised, where the weights are; else nothing.
    pub(in super::super) quantised: QuantisedRows<'a>,
}

impl Product<'_> {
    /// Multiplies. Each kind of weights has a kernel of its own: all of them in one function would be more than the
    /// compiler cares to inline.
    pub(in super::super) fn run(self, isa: Isa) {
        match self.weights {
            PackedRef::Floats(FloatsRef::F32(weights)) => isa.run(WithFloats(self, weights)),
            PackedRef::Floats(FloatsRef::F16(weights)) => isa.run(WithFloats(self, weights)),
            PackedRef::Floats(FloatsRef::Bf16(weights)) => isa.run(WithFloats(self, weights)),
            PackedRef::Int8 { values, scales } => isa.run(WithInt8(self, values, scales)),
        }
    }
}

/// A product with weights that keep their point.
struct WithFloats<'a, W>(Product<'a>, &'a [W]);

impl<W: Float> Kernel for WithFloats<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(product, weights) = self;
        let (left, depth) = (product.left.floats, product.depth);
        product.tiles(simd, |panel, k, share| {
            let part = |panel| part::<S, _>(weights, depth, panel, k);
            Floating {
                left,
                k: k.start,
                weights: part(panel),
                next: share.of(part(panel + 1)),
            }
        });
    }
}

/// A product of integers, with the scales of the weights.
struct WithInt8<'a>(Product<'a>, &'a [i8], &'a [f32]);

impl Kernel for WithInt8<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(product, weights, scales) = self;
        let (left, depth) = (product.left.quantised, product.depth);
        product.tiles(simd, |panel, k, share| {
            let numbers = |panel| part::<S, _>(weights, depth, panel, k);
            Quantised {
                left,
                k: k.start,
                weights: numbers(panel),
                scales: part::<S, _>(
                    scales,
                    depth / PANEL,
                    panel,
                    &(k.start / PANEL..k.end / PANEL),
                ),
                next: share.of(numbers(panel + 1)),
            }
        });
    }
}

impl Product<'_> {
    /// Runs every tile; `operands` says what one is made of: the panel, what is summed, and its share of what comes next.
    #[inline(always)]
    fn tiles<S: Simd, O: Operands>(
        self,
        simd: S,
        operands: impl Fn(usize, &Range<usize>, Share) -> O,
    ) {
        let out = self.out;
        for block in blocks(self.rows, self.rows.div_ceil(BLOCK)) {
            for k in blocks(self.depth / PANEL, self.depth.div_ceil(DEPTH)) {
                let k = k.start * PANEL..k.end * PANEL;
                for (panel, bias) in self.bias.chunks_exact(S::WIDTH).enumerate() {
                    let column = panel * S::WIDTH;
                    let at = column / PANEL * self.stride + column % PANEL;
                    let out = &mut out[at..];
                    for (offset, rows) in tiles::<S>(block.len()) {
                        let row = block.start + offset;
                        let share = Share {
                            rows: offset..offset + rows,
                            of: block.len(),
                        };
                        let tile = Tile {
                            operands: operands(panel, &k, share),
                            row,
                            rows,
                            start: match self.finish {
                                _ if k.start > 0 => Start::Resume,
                                Finish::AddToOutput => Start::AddTo(bias),
                                Finish::Store | Finish::Gelu => Start::Bias(bias),
                            },
                            end: match self.finish {
                                Finish::Gelu if k.end == self.depth => End::Gelu,
                                _ => End::Store,
                            },
                        };
                        tile.run(simd, &mut out[row * PANEL..]);
                    }
                }
            }
        }
    }
}

/// As much of something as some rows are of all rows.
struct Share {
    rows: Range<usize>,
    of: usize,
}

impl Share {
    #[inline(always)]
    fn of<T>(self, all: &[T]) -> &[T] {
        let at = |row| all.len() * row / self.of;
        &all[at(self.rows.start)..at(self.rows.end)]
    }
}

/// The weights of one panel for the sums over `k`; empty beyond the last panel.
#[inline(always)]
fn part<'a, S: Simd, W>(weights: &'a [W], depth: usize, panel: usize, k: &Range<usize>) -> &'a [W] {
    let from = panel * depth;
    weights
        .get((from + k.start) * S::WIDTH..(from + k.end) * S::WIDTH)
        .unwrap_or(&[])
}

/// Cuts 0..len into `count` ranges of nearly equal length.
#[inline(always)]
fn blocks(len: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).map(move |i| len * i / count..len * (i + 1) / count)
}
