//! Matrix product of activations with packed weights, cut to fit the caches.

use std::ops::Range;

use super::super::isa::{Kernel, Simd};
use super::super::panels::{PANEL, Panels};
use super::tile::{End, Start, Tile, tiles};

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
    pub(in super::super) left: Panels<'a>,
    pub(in super::super) rows: usize,
    pub(in super::super) depth: usize,
    /// [columns / `WIDTH`][depth][`WIDTH`]
    pub(in super::super) weights: &'a [f32],
    /// [columns]
    pub(in super::super) bias: &'a [f32],
    pub(in super::super) finish: Finish,
    /// Whole panels, `left.stride` floats apart.
    pub(in super::super) out: &'a mut [f32],
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let out = std::mem::take(&mut self.out);
        for block in blocks(self.rows, self.rows.div_ceil(BLOCK)) {
            for k in blocks(self.depth / PANEL, self.depth.div_ceil(DEPTH)) {
                let k = k.start * PANEL..k.end * PANEL;
                for (panel, bias) in self.bias.chunks_exact(S::WIDTH).enumerate() {
                    let column = panel * S::WIDTH;
                    let at = column / PANEL * self.left.stride + column % PANEL;
                    let out = &mut out[at..];
                    // The panel after the last is empty, and so is what is fetched of it.
                    let weights = self.part::<S>(panel, &k);
                    let next = self.part::<S>(panel + 1, &k);
                    for (offset, rows) in tiles::<S>(block.len()) {
                        let share = |row| next.len() * row / block.len();
                        let row = block.start + offset;
                        let tile = Tile {
                            left: self.left,
                            row,
                            rows,
                            k: k.start,
                            weights,
                            next: &next[share(offset)..share(offset + rows)],
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

impl<'a> Product<'a> {
    /// The weights of one panel for the sums over `k`; empty beyond the last panel.
    #[inline(always)]
    fn part<S: Simd>(&self, panel: usize, k: &Range<usize>) -> &'a [f32] {
        let from = panel * self.depth;
        self.weights
            .get((from + k.start) * S::WIDTH..(from + k.end) * S::WIDTH)
            .unwrap_or(&[])
    }
}

/// Cuts 0..len into `count` ranges of nearly equal length.
#[inline(always)]
fn blocks(len: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).map(move |i| len * i / count..len * (i + 1) / count)
}
