//! Matrix product of activations with packed weights, blocked for the caches.

use std::ops::Range;

use half::bf16;

use super::super::isa::{DotKernel, Dots, Isa, Kernel, Simd};
use super::super::packed::{Float, FloatsRef, PackedRef};
use super::super::panels::{PANEL, Panels};
use super::super::precision::Precision;
use super::tile::{Dotted, End, Floating, Operands, Quantised, QuantisedRows, Start, Tile, tiles};

/// Terms of a sum that are computed before the next panel: a panel's weights then stay in the first-level cache while the tiles
/// of a block use them. A multiple of [`PANEL`].
const DEPTH: usize = 384;

/// Rows of a block: their activations stay in the second-level cache while the panels are processed.
const BLOCK: usize = 256;

/// Operation applied in addition to multiplying and adding the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Finish {
    /// Stores the results.
    Store,
    /// Applies GELU to each result.
    Gelu,
    /// Adds each result to the output's current value.
    AddToOutput,
}

/// `out = left · weights + bias` for some consecutive panels of the output.
pub(in super::super) struct Product<'a> {
    /// `rows` rows of `depth` features, of the kind that `weights` require.
    pub(in super::super) left: Left<'a>,
    pub(in super::super) rows: usize,
    pub(in super::super) depth: usize,
    /// As many columns as `bias`.
    pub(in super::super) weights: PackedRef<'a>,
    /// Weights of the same depth that are likely to be multiplied next, for prefetching. Integers are not prefetched, because
    /// they are too few to gain from it.
    pub(in super::super) after: Option<PackedRef<'a>>,
    /// [columns]
    pub(in super::super) bias: &'a [f32],
    pub(in super::super) finish: Finish,
    /// Whole panels, `stride` floats apart.
    pub(in super::super) out: &'a mut [f32],
    pub(in super::super) stride: usize,
}

/// The left operand, which must fit the kind of the weights.
#[derive(Clone, Copy)]
pub(in super::super) enum Left<'a> {
    /// For floating-point weights of any kind.
    Floats(Panels<'a>),
    /// For bf16, if the instruction set multiplies it.
    Bf16(Panels<'a, bf16>),
    /// For integers.
    Int8(QuantisedRows<'a>),
}

/// Scratch memory of one thread for widening weights. Weights that several successive tiles use are widened once for all of them.
#[derive(Default)]
pub(in super::super) struct Widened {
    floats: Vec<f32>,
    integers: Vec<i16>,
}

impl Widened {
    /// For weights of `precision`.
    pub(in super::super) fn new(precision: Precision, isa: Isa) -> Self {
        let mut widened = Self::default();
        match precision {
            Precision::F32 => {}
            Precision::Bf16 if isa.bf16().is_some() => {}
            Precision::F16 | Precision::Bf16 => widened.floats = vec![f32::NAN; DEPTH * PANEL],
            Precision::Int8 => widened.integers = vec![0; DEPTH * PANEL],
        }
        widened
    }
}

impl Product<'_> {
    /// Multiplies. Each kind of weights has a separate kernel, because the compiler would not inline all of them in one function.
    pub(in super::super) fn run(self, isa: Isa, widened: &mut Widened) {
        let Widened { floats, integers } = widened;
        match (self.left, self.weights) {
            (Left::Floats(left), PackedRef::Floats(FloatsRef::F32(weights))) => {
                isa.run(WithFloats(self, left, weights, floats));
            }
            (Left::Floats(left), PackedRef::Floats(FloatsRef::F16(weights))) => {
                isa.run(WithFloats(self, left, weights, floats));
            }
            (Left::Floats(left), PackedRef::Floats(FloatsRef::Bf16(weights))) => {
                isa.run(WithFloats(self, left, weights, floats));
            }
            (Left::Bf16(left), PackedRef::Bf16 { dots, values }) => {
                dots.run(WithBf16(self, left, values));
            }
            (Left::Int8(left), PackedRef::Int8 { values, scales }) => {
                isa.ints()
                    .run(WithInt8(self, left, values, scales, integers));
            }
            _ => unreachable!("activations are converted for the kind of the weights"),
        }
    }
}

/// A product with floating-point weights, with scratch memory for widening.
struct WithFloats<'a, W>(Product<'a>, Panels<'a>, &'a [W], &'a mut [f32]);

impl<W: Float> Kernel for WithFloats<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(mut product, left, weights, room) = self;
        let depth = product.depth;
        let after = product.after.and_then(W::from_packed);
        for (part, next) in product.parts::<S, _>(weights, after) {
            let k = part.k.start;
            let weights = part.slice::<S, _>(weights, depth);
            if W::NARROW && part.has_many_tiles::<S>() {
                let wide = &mut room[..weights.len()];
                let blocks = wide.chunks_exact_mut(S::WIDTH);
                for (to, from) in blocks.zip(weights.chunks_exact(S::WIDTH)) {
                    simd.store(to, W::load(simd, from));
                }
                let weights = &*wide;
                product.tiles(simd, &part, Floating { left, k, weights }, next);
            } else {
                product.tiles(simd, &part, Floating { left, k, weights }, next);
            }
        }
    }
}

/// A product of bf16.
struct WithBf16<'a>(Product<'a>, Panels<'a, bf16>, &'a [bf16]);

impl DotKernel<bf16> for WithBf16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<D: Dots<bf16>>(self, dots: D) {
        let Self(mut product, left, weights) = self;
        let depth = product.depth;
        let after = match product.after {
            Some(PackedRef::Bf16 { values, .. }) => Some(values),
            _ => None,
        };
        for (part, next) in product.parts::<D::Base, _>(weights, after) {
            let operands = Dotted {
                dots,
                left,
                k: part.k.start,
                weights: part.slice::<D::Base, _>(weights, depth),
            };
            product.tiles(dots.base(), &part, operands, next);
        }
    }
}

/// A product of integers, with the weights' scales and scratch memory for widening.
struct WithInt8<'a>(
    Product<'a>,
    QuantisedRows<'a>,
    &'a [i8],
    &'a [f32],
    &'a mut [i16],
);

impl DotKernel<i16> for WithInt8<'_> {
    type Output = ();

    #[inline(always)]
    fn run<D: Dots<i16>>(self, dots: D) {
        let Self(mut product, left, weights, scales, room) = self;
        let depth = product.depth;
        for (part, next) in product.parts::<D::Base, _>(weights, None) {
            let k = part.k.start;
            let weights = part.slice::<D::Base, _>(weights, depth);
            let scales = part.in_panels().slice::<D::Base, _>(scales, depth / PANEL);
            if part.has_many_tiles::<D::Base>() {
                let wide = &mut room[..weights.len()];
                for (to, from) in wide.iter_mut().zip(weights) {
                    *to = i16::from(*from);
                }
                let weights = &*wide;
                let operands = Quantised {
                    dots,
                    left,
                    k,
                    weights,
                    scales,
                };
                product.tiles(dots.base(), &part, operands, next);
            } else {
                let operands = Quantised {
                    dots,
                    left,
                    k,
                    weights,
                    scales,
                };
                product.tiles(dots.base(), &part, operands, next);
            }
        }
    }
}

impl Product<'_> {
    /// The parts of a product in the order of computation, each with the weights of the following part for prefetching; the last
    /// part with those of the next product of this depth.
    #[inline(always)]
    fn parts<'w, S: Simd, W>(
        &self,
        weights: &'w [W],
        after: Option<&'w [W]>,
    ) -> impl Iterator<Item = (Part, &'w [W])> + use<'w, S, W> {
        let (rows, depth, panels) = (self.rows, self.depth, self.bias.len() / S::WIDTH);
        let mut parts = blocks(rows, rows.div_ceil(BLOCK)).flat_map(move |rows| {
            blocks(depth / PANEL, depth.div_ceil(DEPTH)).flat_map(move |k| {
                let (rows, k) = (rows.clone(), k.start * PANEL..k.end * PANEL);
                (0..panels).map(move |panel| Part {
                    rows: rows.clone(),
                    k: k.clone(),
                    panel,
                })
            })
        });
        let mut coming = parts.next();
        let first = coming.as_ref().zip(after);
        let after = first.map_or(&[][..], |(first, after)| first.slice::<S, _>(after, depth));
        std::iter::from_fn(move || {
            let part = std::mem::replace(&mut coming, parts.next())?;
            let next = coming.as_ref();
            let next = next.map_or(after, |next| next.slice::<S, _>(weights, depth));
            Some((part, next))
        })
    }

    /// Computes every tile of a part; each tile prefetches its share of `next`.
    #[inline(always)]
    fn tiles<S: Simd, O: Operands<S>, N>(&mut self, simd: S, part: &Part, operands: O, next: &[N]) {
        let column = part.panel * S::WIDTH;
        let at = column / PANEL * self.stride + column % PANEL;
        let (out, bias) = (&mut self.out[at..], &self.bias[column..]);
        let all = part.rows.len();
        for (offset, rows) in tiles::<S>(all) {
            let row = part.rows.start + offset;
            let tile = Tile {
                operands,
                next: &next[next.len() * offset / all..next.len() * (offset + rows) / all],
                row,
                rows,
                start: match self.finish {
                    _ if part.k.start > 0 => Start::Resume,
                    Finish::AddToOutput => Start::AddTo(bias),
                    Finish::Store | Finish::Gelu => Start::Bias(bias),
                },
                end: match self.finish {
                    Finish::Gelu if part.k.end == self.depth => End::Gelu,
                    _ => End::Store,
                },
            };
            tile.run(simd, &mut out[row * PANEL..]);
        }
    }
}

/// A block of rows multiplied with a part of one panel's weights.
#[derive(Clone)]
struct Part {
    rows: Range<usize>,
    /// Range of the summation index.
    k: Range<usize>,
    panel: usize,
}

impl Part {
    /// The corresponding range of scales: one scale for every [`PANEL`] weights of a column.
    #[inline(always)]
    fn in_panels(&self) -> Self {
        Self {
            k: self.k.start / PANEL..self.k.end / PANEL,
            ..self.clone()
        }
    }

    /// The part's `weights`, from columns of `depth` weights.
    #[inline(always)]
    fn slice<'a, S: Simd, W>(&self, weights: &'a [W], depth: usize) -> &'a [W] {
        let from = self.panel * depth;
        &weights[(from + self.k.start) * S::WIDTH..(from + self.k.end) * S::WIDTH]
    }

    /// Whether enough tiles use its weights for widening them first to pay off.
    #[inline(always)]
    fn has_many_tiles<S: Simd>(&self) -> bool {
        self.rows.len() > 2 * S::ROWS
    }
}

/// Cuts 0..len into `count` ranges of nearly equal length.
#[inline(always)]
fn blocks(len: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).map(move |i| len * i / count..len * (i + 1) / count)
}
