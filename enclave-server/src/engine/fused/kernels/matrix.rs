//! Matrix product of activations with packed weights, cut to fit the caches.

use super::super::isa::{Kernel, Simd};
use super::super::panels::{PANEL, Panels};
use super::tile::{End, Start, Tile, tiles};

/// Products summed before the next panel has its turn: a panel of weights then stays in the first
/// level cache while the tiles of a block pass by. A multiple of [`PANEL`].
const DEPTH: usize = 192;

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
    fn run<S: Simd>(self, simd: S) {
        let stride = self.left.stride;
        let blocks = self.rows.div_ceil(BLOCK);
        for block in 0..blocks {
            let (first, end) = (self.rows * block / blocks, self.rows * (block + 1) / blocks);
            let mut k = 0;
            while k < self.depth {
                let depth = DEPTH.min(self.depth - k);
                let panels = self.weights.chunks_exact(self.depth * S::WIDTH);
                for (panel, (weights, bias)) in
                    panels.zip(self.bias.chunks_exact(S::WIDTH)).enumerate()
                {
                    let column = panel * S::WIDTH;
                    let weights = &weights[k * S::WIDTH..(k + depth) * S::WIDTH];
                    let start = match self.finish {
                        _ if k > 0 => Start::Resume,
                        Finish::AddToOutput => Start::AddTo(bias),
                        Finish::Store | Finish::Gelu => Start::Bias(bias),
                    };
                    let end_with = match self.finish {
                        Finish::Gelu if k + depth == self.depth => End::Gelu,
                        _ => End::Store,
                    };
                    let out = &mut self.out[column / PANEL * stride + column % PANEL..];
                    for (offset, rows) in tiles::<S>(end - first) {
                        let row = first + offset;
                        let tile = Tile {
                            left: self.left,
                            row,
                            rows,
                            k,
                            weights,
                            start,
                            end: end_with,
                        };
                        tile.run(simd, &mut out[row * PANEL..]);
                    }
                }
                k += depth;
            }
        }
    }
}
