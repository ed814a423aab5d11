//! The forward pass over a group of sequences, stored one after the other without padding.

use std::array::from_fn;
use std::iter::repeat;

use zeroize::Zeroize as _;

use super::bands::{BandQueues, Banded, Bands, MAX_BANDS};
use super::isa::{Bf16, Isa};
use super::kernels::{
    Activate, AddNormalised, AttentionHead, Embed, Finish, Mask, Norm, Normalise, NormaliseInto,
    Pool, Product, Quantise, Rotate, Round,
};
use super::memory::{Memory, ThreadMemory};
use super::narrow::{Narrow, NarrowMemory};
use super::packed::Packed;
use super::panels::{MAX_WIDE_PANELS, PANEL, Panels, Queue, RowBlocks};
use super::positions::Rotations;
use super::source::Pair;
use super::team::Team;
use super::weights::{Layer, Matrix, Weights};
use crate::{Activation, Shape};

/// Fewer rows per thread than this are not worth waking a helper for.
const ROWS_WORTH_SHARING: usize = 16;

/// Pieces of work per thread of a team. More pieces balance the load better; fewer have less overhead.
const PIECES: usize = 6;

/// Encodes `group`, whose tokens and lengths have been checked, into `out`.
pub(super) fn forward(
    weights: &Weights,
    team: &mut Team<ThreadMemory>,
    memory: &mut Memory,
    group: &[&[u32]],
    out: &mut [f32],
    alone: &dyn Fn() -> bool,
) {
    memory.tokens.clear();
    memory.sequences.clear();
    let shape = weights.shape();
    for sequence in group {
        memory.sequences.push((memory.tokens.len(), sequence.len()));
        match shape.padding() {
            None => memory.tokens.extend(sequence.iter().copied().zip(0..)),
            Some(padding) => {
                let mut position = 0;
                memory.tokens.extend(sequence.iter().map(|&token| {
                    let counts = token != padding;
                    position += u32::from(counts);
                    (token, if counts { position } else { 0 })
                }));
            }
        }
    }
    let bands = Bands::new(memory.tokens.len(), team.threads());
    let mut pass = Pass {
        isa: weights.isa,
        team,
        alone,
        rows: memory.tokens.len(),
        longest: memory.longest().min(shape.max_tokens),
        bands,
        shape,
        sequences: &memory.sequences,
        tokens: &memory.tokens,
    };
    let panels = shape.hidden / PANEL;
    let cut = |buffer| cut_to(buffer, bands.size(panels));
    let states = &mut memory.states[..bands.size(panels)];
    let mut scratch = Scratch {
        normed: cut(&mut memory.normed),
        branch: cut(&mut memory.branch),
        wide: &mut memory.wide,
        narrow: &mut memory.narrow,
    };
    pass.embed(weights, states);
    for layer in weights.layers() {
        pass.layer(weights, layer, states, &mut scratch);
    }
    if let Some(norm) = weights.final_norm() {
        pass.normalise(norm, states);
    }
    let head = weights.head();
    for (out, &(first, rows)) in out.chunks_exact_mut(head.dimension()).zip(pass.sequences) {
        let states = Banded::new(states, bands, panels);
        let pool = |pooling, unit, out| Pool {
            states,
            first,
            rows,
            pooling,
            unit,
            out,
        };
        if let Some(pooling) = head.only_normalised() {
            pass.isa.run(pool(pooling, true, out));
            continue;
        }
        let parts = memory.pooled.chunks_exact_mut(shape.hidden);
        for (pooling, part) in head.poolings().iter().zip(parts) {
            pass.isa.run(pool(*pooling, false, part));
        }
        head.apply(&memory.pooled, out);
        memory.pooled.as_mut_slice().zeroize();
    }
    // Token ids can be read as the text. The memory outlives the call.
    for (token, _) in &mut memory.tokens {
        token.zeroize();
    }
}

/// The first `size` floats of a buffer that is used, or nothing of one that is not.
fn cut_to(buffer: &mut [f32], size: usize) -> &mut [f32] {
    let size = size.min(buffer.len());
    &mut buffer[..size]
}

/// Memory that a layer writes in addition to the stream.
struct Scratch<'a> {
    normed: &'a mut [f32],
    branch: &'a mut [f32],
    wide: &'a mut [f32],
    narrow: &'a mut NarrowMemory,
}

struct Pass<'a> {
    isa: Isa,
    team: &'a mut Team<ThreadMemory>,
    alone: &'a dyn Fn() -> bool,
    /// Total of all bands.
    rows: usize,
    /// Longest sequence that there is memory for.
    longest: usize,
    bands: Bands,
    shape: &'a Shape,
    sequences: &'a [(usize, usize)],
    /// Token and position of each row.
    tokens: &'a [(u32, u32)],
}

impl Pass<'_> {
    fn layer(
        &mut self,
        weights: &Weights,
        layer: &Layer,
        states: &mut [f32],
        scratch: &mut Scratch<'_>,
    ) {
        let bands = self.bands;
        let hidden = self.shape.hidden / PANEL;
        let queries = self.shape.queries() / PANEL;
        let all = queries + 2 * self.shape.keys() / PANEL;
        let size = |panels| bands.size(panels);

        let (query_key_value, context) = scratch.wide.split_at_mut(size(all));
        let context = &mut context[..size(queries)];
        let input = self.input(
            weights,
            layer.before_attention.as_ref(),
            states,
            scratch.normed,
        );
        self.product(
            Banded::new(input, bands, hidden),
            &layer.query_key_value,
            Finish::Store,
            scratch.narrow,
            query_key_value,
        );
        if let Some(rotations) = weights.rotations(layer) {
            self.rotate(layer, rotations, query_key_value);
        }
        self.attention(weights, layer, query_key_value, context);
        self.branch(
            weights,
            Banded::new(context, bands, queries),
            &layer.attention_output,
            layer.after_attention.as_ref(),
            (states, scratch.branch, scratch.narrow),
        );

        let panels = self.shape.feed_forward / PANEL;
        let wide = &mut scratch.wide[..size(panels * layer.up.len())];
        // The most frequent activation is applied in registers.
        let gelu = layer.up.len() == 1 && self.shape.activation == Activation::Gelu;
        let finish = if gelu { Finish::Gelu } else { Finish::Store };
        let input = self.input(
            weights,
            layer.before_feed_forward.as_ref(),
            states,
            scratch.normed,
        );
        let input = Banded::new(input, bands, hidden);
        self.product(input, &layer.up, finish, scratch.narrow, wide);
        if !gelu {
            self.activate(wide, layer.up.len() > 1);
        }
        self.branch(
            weights,
            Banded::new(wide, bands, panels * layer.up.len()),
            &layer.down,
            layer.after_feed_forward.as_ref(),
            (states, scratch.branch, scratch.narrow),
        );
    }

    /// The input of a branch: the stream, normalised into `normed` if the architecture does so.
    fn input<'s>(
        &mut self,
        weights: &Weights,
        norm: Option<&Pair>,
        states: &'s [f32],
        normed: &'s mut [f32],
    ) -> &'s [f32] {
        let Some(norm) = norm else { return states };
        let (isa, bands, norm) = (self.isa, self.bands, weights.norm(norm));
        let from = Banded::new(states, bands, self.shape.hidden / PANEL);
        let blocks = self.row_blocks(normed).enumerate();
        let queues = BandQueues::new(blocks.map(|(band, rows)| rows.zip(repeat(from.band(band)))));
        self.run_by_row(&|own| {
            while let Some((rows, from)) = queues.next(own.thread) {
                isa.run(NormaliseInto { from, rows, norm });
            }
        });
        normed
    }

    /// Multiplies the end of a branch, and adds it to the stream, normalising where the architecture does.
    fn branch(
        &mut self,
        weights: &Weights,
        left: Banded<'_>,
        matrix: &Matrix,
        norm: Option<&Pair>,
        (states, branch, narrow): (&mut [f32], &mut [f32], &mut NarrowMemory),
    ) {
        let matrix = std::slice::from_ref(matrix);
        let norm = norm.map(|norm| weights.norm(norm));
        if let Some(norm) = norm.filter(|_| !branch.is_empty()) {
            self.product(left, matrix, Finish::Store, narrow, branch);
            self.add_normalised(norm, branch, states);
            return;
        }
        self.product(left, matrix, Finish::AddToOutput, narrow, states);
        if let Some(norm) = norm {
            self.normalise(norm, states);
        }
    }

    fn embed(&mut self, weights: &Weights, states: &mut [f32]) {
        let (isa, tokens) = (self.isa, self.tokens);
        let blocks = self.row_blocks(states).zip(self.bands.iter());
        let queues =
            BandQueues::new(blocks.map(|(blocks, band)| blocks.zip(repeat(&tokens[band]))));
        self.run_by_row(&|own| {
            while let Some((rows, tokens)) = queues.next(own.thread) {
                isa.run(Embed {
                    rows,
                    norm: weights.embedding_norm(),
                    words: weights.words(),
                    positions: weights.positions(),
                    features: weights.shape.hidden,
                    tokens,
                });
            }
        });
    }

    fn normalise(&mut self, norm: Norm<'_>, states: &mut [f32]) {
        let isa = self.isa;
        let queues = BandQueues::new(self.row_blocks(states));
        self.run_by_row(&|own| {
            while let Some(rows) = queues.next(own.thread) {
                isa.run(Normalise { rows, norm });
            }
        });
    }

    fn add_normalised(&mut self, norm: Norm<'_>, branch: &mut [f32], states: &mut [f32]) {
        let isa = self.isa;
        let blocks = self.row_blocks(branch).zip(self.row_blocks(states));
        let queues = BandQueues::new(blocks.map(|(branch, rows)| branch.zip(rows)));
        self.run_by_row(&|own| {
            while let Some((branch, rows)) = queues.next(own.thread) {
                isa.run(AddNormalised { branch, rows, norm });
            }
        });
    }

    /// Applies the activation; with a gate, to the first half of the features, which is then multiplied by the second.
    fn activate(&mut self, wide: &mut [f32], gated: bool) {
        let (isa, bands, share) = (self.isa, self.bands, self.rows_per_piece());
        let activation = self.shape.activation;
        let parts = bands.cut(wide).zip(bands.iter()).map(|(wide, rows)| {
            let half = if gated { wide.len() / 2 } else { wide.len() };
            let (first, second) = wide.split_at_mut(half);
            let opened = gated.then(|| Panels::new(&*second, bands.stride()));
            RowBlocks::<_, MAX_WIDE_PANELS>::new(first, bands.stride(), rows.len(), share)
                .zip(repeat(opened))
        });
        let queues = BandQueues::new(parts);
        self.run_by_row(&|own| {
            while let Some((rows, opened)) = queues.next(own.thread) {
                isa.run(Activate {
                    rows,
                    opened,
                    activation,
                });
            }
        });
    }

    /// Normalises and rotates the heads of queries and keys.
    fn rotate(&mut self, layer: &Layer, rotations: &Rotations, query_key_value: &mut [f32]) {
        let (isa, bands, share, tokens) =
            (self.isa, self.bands, self.rows_per_piece(), self.tokens);
        let shape = self.shape;
        let scales = layer.query_key_norm.as_ref();
        let scales = scales.map(|[query, key]| [query.as_slice(), key.as_slice()]);
        let panels = (shape.queries() + shape.keys()) / PANEL;
        let parts = bands
            .cut(query_key_value)
            .zip(bands.iter())
            .map(|(all, band)| {
                let (query_key, _) = all.split_at_mut(panels * bands.stride());
                let rows = band.len();
                let rows =
                    RowBlocks::<_, MAX_WIDE_PANELS>::new(query_key, bands.stride(), rows, share);
                rows.zip(repeat(&tokens[band]))
            });
        let queues = BandQueues::new(parts);
        self.run_by_row(&|own| {
            while let Some((rows, tokens)) = queues.next(own.thread) {
                isa.run(Rotate {
                    rows,
                    head: shape.head,
                    queries: shape.heads,
                    scales,
                    epsilon: shape.norm_epsilon,
                    rotations,
                    tokens,
                });
            }
        });
    }

    /// Multiplies by several matrices of equal depth, whose columns are next to each other in `out`.
    fn product(
        &mut self,
        floats: Banded<'_>,
        matrices: &[Matrix],
        finish: Finish,
        narrow: &mut NarrowMemory,
        out: &mut [f32],
    ) {
        let (isa, bands, stride) = (self.isa, self.bands, self.bands.stride());
        let depth = matrices[0].depth;
        let narrow = match matrices[0].weights {
            Packed::Floats(_) => Narrow::Nothing,
            Packed::Bf16 { dots, .. } => self.round(dots, floats, depth, narrow),
            Packed::Int8 { .. } => self.quantise(floats, depth, narrow),
        };
        let panels = self.panels_per_piece(out.len() / bands.size(1));
        // Threads that share a band alternate in taking its pieces.
        let ahead = self.team.threads().div_ceil(bands.count());
        let pieces = || {
            let matrices = matrices.iter();
            matrices.flat_map(move |matrix| matrix.pieces(panels * PANEL))
        };
        let queues = BandQueues::new(bands.cut(out).enumerate().map(|(band, out)| {
            let outs = matrices.iter().scan(out, move |rest, matrix| {
                let size = matrix.bias.len() / PANEL * stride;
                let (out, after) = std::mem::take(rest).split_at_mut(size);
                *rest = after;
                Some(out.chunks_mut(panels * stride))
            });
            let outs = outs.flatten();
            let after = pieces().skip(ahead).map(|(weights, _)| Some(weights));
            let after = after.chain(repeat(None));
            pieces().zip(outs).zip(after).zip(repeat(band))
        }));
        self.run(&|own| {
            while let Some(((((weights, bias), out), after), band)) = queues.next(own.thread) {
                let product = Product {
                    left: narrow.left(floats.band(band), band),
                    rows: bands.rows(band).len(),
                    depth,
                    weights,
                    after,
                    bias,
                    finish,
                    out,
                    stride,
                };
                product.run(isa, &mut own.widened);
            }
        });
    }

    /// Rounds the left operand of the next product to bf16.
    fn round<'m>(
        &mut self,
        dots: Bf16,
        floats: Banded<'_>,
        depth: usize,
        memory: &'m mut NarrowMemory,
    ) -> Narrow<'m> {
        let (bands, panels) = (self.bands, depth / PANEL);
        let values = &mut memory.rounded[..bands.size(panels)];
        let blocks = self.row_blocks(values).enumerate();
        let queues =
            BandQueues::new(blocks.map(|(band, rows)| rows.zip(repeat(floats.band(band)))));
        self.run_by_row(&|own| {
            while let Some((rows, floats)) = queues.next(own.thread) {
                dots.run(Round { floats, rows });
            }
        });
        Narrow::Bf16(Banded::new(values, bands, panels))
    }

    /// Quantizes the left operand of the next product to 16-bit integers.
    fn quantise<'m>(
        &mut self,
        floats: Banded<'_>,
        depth: usize,
        memory: &'m mut NarrowMemory,
    ) -> Narrow<'m> {
        let (ints, bands, panels) = (self.isa.ints(), self.bands, depth / PANEL);
        let values = &mut memory.integers[..bands.size(panels)];
        let scales = &mut memory.scales[..self.rows];
        let share = self.rows_per_piece();
        let blocks = self
            .row_blocks(values)
            .zip(scales.chunks_mut(bands.rows(0).len()))
            .enumerate();
        let queues = BandQueues::new(blocks.map(|(band, (rows, scales))| {
            rows.zip(scales.chunks_mut(share))
                .zip(repeat(floats.band(band)))
        }));
        self.run_by_row(&|own| {
            while let Some(((rows, scales), floats)) = queues.next(own.thread) {
                ints.run(Quantise {
                    floats,
                    rows,
                    scales,
                });
            }
        });
        Narrow::Int8 {
            values: Banded::new(values, bands, panels),
            scales,
        }
    }

    fn attention(
        &mut self,
        weights: &Weights,
        layer: &Layer,
        query_key_value: &[f32],
        context: &mut [f32],
    ) {
        let (isa, bands, shape, sequences) = (self.isa, self.bands, self.shape, self.sequences);
        let (head, longest) = (shape.head, self.longest);
        let panels_per_head = head / PANEL;
        let (queries, keys) = (shape.queries() / PANEL, shape.keys() / PANEL);
        // As many heads of queries share one of keys and values.
        let sharing = shape.heads / shape.key_value_heads;
        let all = Banded::new(query_key_value, bands, queries + 2 * keys);
        let mut outs = bands.cut(context);
        let mut outs: [_; MAX_BANDS] = from_fn(|_| {
            let out = outs.next().unwrap_or_default();
            out.chunks_mut(panels_per_head * bands.stride())
        });
        let queue = Queue::new((0..shape.heads).map(|number| {
            let out = outs.each_mut().map(|out| out.next().unwrap_or_default());
            (number, out)
        }));
        self.run(&|own| {
            own.attention.grow(longest, head);
            while let Some((number, out)) = queue.next() {
                let key = queries + number / sharing * panels_per_head;
                isa.run(AttentionHead {
                    queries: all.without_panels(number * panels_per_head),
                    keys: all.without_panels(key),
                    values: all.without_panels(keys + key),
                    head,
                    sequences,
                    mask: Mask {
                        causal: shape.attention.causal,
                        reach: layer.reach,
                        distances: weights.distances().map(|distances| (distances, number)),
                    },
                    scratch: &mut own.attention,
                    out,
                });
            }
        });
    }

    /// Runs a job on the team, or on this thread only if other calls are waiting.
    fn run(&mut self, job: &(dyn Fn(&mut ThreadMemory) + Sync)) {
        if (self.alone)() {
            self.team.run(job);
        } else {
            self.team.rest();
            self.team.run_alone(job);
        }
    }

    /// Like [`run`](Self::run), for a job that goes row by row; on this thread only if there are too few rows to share.
    fn run_by_row(&mut self, job: &(dyn Fn(&mut ThreadMemory) + Sync)) {
        if self.rows < 2 * ROWS_WORTH_SHARING && (self.alone)() {
            self.team.run_alone(job);
        } else {
            self.run(job);
        }
    }

    /// The rows of each band.
    fn row_blocks<'s, T, const PANELS: usize>(
        &self,
        data: &'s mut [T],
    ) -> impl Iterator<Item = RowBlocks<'s, T, PANELS>> {
        let (bands, share) = (self.bands, self.rows_per_piece());
        let data = bands.cut(data);
        data.zip(bands.iter())
            .map(move |(data, rows)| RowBlocks::new(data, bands.stride(), rows.len(), share))
    }

    fn rows_per_piece(&self) -> usize {
        let share = self.rows.div_ceil(self.team.threads() * PIECES);
        share.max(ROWS_WORTH_SHARING)
    }

    fn panels_per_piece(&self, panels: usize) -> usize {
        match self.team.threads() {
            1 => panels,
            threads => {
                let of_a_band = threads.div_ceil(self.bands.count());
                (panels / (of_a_band * PIECES)).max(1)
            }
        }
    }
}
