//! The forward pass over a group of sequences, stored one after the other without padding.

use std::array::from_fn;
use std::iter::repeat;

use super::bands::{BandQueues, Banded, Bands, MAX_BANDS, ThreadIndex};
use super::buffer::Buffer;
use super::isa::{Bf16, Isa};
use super::kernels::{
    AttentionHead, AttentionScratch, Embed, Finish, Norm, Normalise, Pool, Product, Quantise,
    Round, Widened,
};
use super::narrow::{Narrow, NarrowMemory};
use super::packed::Packed;
use super::panels::{PANEL, Queue, RowBlocks, stride};
use super::team::Team;
use super::weights::{Layer, Matrix, Weights};

/// Most tokens of a group: enough for a matrix product to run at full speed, and few enough for activations to stay in the
/// second-level cache. With groups of twice the size, each token takes a quarter more time.
const GROUP: usize = 256;

/// Fewer rows per thread than this are not worth waking a helper for.
const ROWS_WORTH_SHARING: usize = 16;

/// Pieces of work per thread of a team. More pieces balance the load better; fewer have less overhead.
const PIECES: usize = 6;

/// Memory of one thread of a team.
pub(super) struct ThreadMemory {
    thread: ThreadIndex,
    attention: AttentionScratch,
    widened: Widened,
}

impl ThreadMemory {
    pub(super) fn new(thread: ThreadIndex, weights: &Weights) -> Self {
        let shape = weights.shape();
        Self {
            thread,
            attention: AttentionScratch::new(shape.max_tokens, shape.head()),
            widened: Widened::new(weights.precision(), weights.isa()),
        }
    }
}

/// All memory that a forward pass writes, allocated once for the largest group.
pub(super) struct Memory {
    rows: usize,
    /// The residual stream: one row of `hidden` floats per token.
    states: Buffer,
    /// Queries, keys, values and context during attention; the wide layer during the feed-forward network. Neither needs the
    /// other's values.
    wide: Buffer,
    narrow: NarrowMemory,
    /// Token and position of each row.
    tokens: Vec<(u32, u32)>,
    /// First row and length of each sequence.
    sequences: Vec<(usize, usize)>,
}

impl Memory {
    /// For a team of `threads`.
    pub(super) fn new(weights: &Weights, threads: usize) -> Self {
        let shape = weights.shape();
        let rows = GROUP.max(shape.max_tokens);
        let all_rows = rows + Bands::spare_rows(threads);
        let floats = |features: usize| features / PANEL * stride(all_rows);
        Self {
            rows,
            states: Buffer::poisoned(floats(shape.hidden)),
            wide: Buffer::poisoned(floats(shape.feed_forward.max(4 * shape.hidden))),
            narrow: NarrowMemory::new(
                weights.precision(),
                weights.isa(),
                floats(shape.feed_forward.max(shape.hidden)),
                rows,
            ),
            tokens: Vec::with_capacity(rows),
            sequences: Vec::with_capacity(rows),
        }
    }

    /// Returns how many of `sequences`, from the first on, form the next group: groups of equal size instead of full groups and a
    /// small last one. Never zero.
    pub(super) fn next_group_len(&self, sequences: &[&[u32]]) -> usize {
        let total: usize = sequences.iter().map(|sequence| sequence.len()).sum();
        let aim = total.div_ceil(total.div_ceil(self.rows).max(1));
        let mut rows = 0;
        let next_group_len = sequences.iter().take_while(|sequence| {
            let fits = rows < aim && rows + sequence.len() <= self.rows;
            rows += sequence.len();
            fits
        });
        next_group_len.count().max(1)
    }
}

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
    for sequence in group {
        memory.sequences.push((memory.tokens.len(), sequence.len()));
        memory.tokens.extend(sequence.iter().copied().zip(0..));
    }
    let bands = Bands::new(memory.tokens.len(), team.threads());
    let shape = weights.shape();
    let mut pass = Pass {
        isa: weights.isa,
        team,
        alone,
        rows: memory.tokens.len(),
        bands,
        head: shape.head(),
        sequences: &memory.sequences,
    };
    let panels = shape.hidden / PANEL;
    let states = &mut memory.states[..bands.size(panels)];
    pass.embed(weights, &memory.tokens, states);
    for layer in weights.layers() {
        pass.layer(weights, layer, states, &mut memory.wide, &mut memory.narrow);
    }
    for (out, &(first, rows)) in out.chunks_exact_mut(shape.hidden).zip(pass.sequences) {
        pass.isa.run(Pool {
            states: Banded::new(states, bands, panels),
            first,
            rows,
            pooling: shape.pooling,
            out,
        });
    }
}

struct Pass<'a> {
    isa: Isa,
    team: &'a mut Team<ThreadMemory>,
    alone: &'a dyn Fn() -> bool,
    /// Total of all bands.
    rows: usize,
    bands: Bands,
    head: usize,
    sequences: &'a [(usize, usize)],
}

impl Pass<'_> {
    fn layer(
        &mut self,
        weights: &Weights,
        layer: &Layer,
        states: &mut [f32],
        wide: &mut [f32],
        narrow: &mut NarrowMemory,
    ) {
        let one = std::slice::from_ref;
        let hidden = states.len();
        let (query_key_value, context) = wide.split_at_mut(3 * hidden);
        let context = &mut context[..hidden];
        self.product(
            states,
            &layer.query_key_value,
            Finish::Store,
            narrow,
            query_key_value,
        );
        self.attention(query_key_value, context);
        self.product(
            context,
            one(&layer.attention_output),
            Finish::AddToOutput,
            narrow,
            states,
        );
        self.normalise(weights.norm(&layer.attention_norm), states);

        let panels = layer.up.bias.len() / PANEL;
        let wide = &mut wide[..self.bands.size(panels)];
        self.product(states, one(&layer.up), Finish::Gelu, narrow, wide);
        self.product(wide, one(&layer.down), Finish::AddToOutput, narrow, states);
        self.normalise(weights.norm(&layer.output_norm), states);
    }

    fn embed(&mut self, weights: &Weights, tokens: &[(u32, u32)], states: &mut [f32]) {
        let isa = self.isa;
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

    /// Multiplies by several matrices of equal depth, whose columns are next to each other in `out`.
    fn product(
        &mut self,
        left: &[f32],
        matrices: &[Matrix],
        finish: Finish,
        narrow: &mut NarrowMemory,
        out: &mut [f32],
    ) {
        let (isa, bands, stride) = (self.isa, self.bands, self.bands.stride());
        let depth = matrices[0].depth;
        let floats = Banded::new(left, bands, depth / PANEL);
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
            let outs = out.chunks_mut(out.len() / matrices.len());
            let outs = outs.flat_map(move |out| out.chunks_mut(panels * stride));
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

    fn attention(&mut self, query_key_value: &[f32], context: &mut [f32]) {
        let (isa, bands, head, sequences) = (self.isa, self.bands, self.head, self.sequences);
        let panels = context.len() / bands.size(1);
        let panels_per_head = head / PANEL;
        let all = Banded::new(query_key_value, bands, 3 * panels);
        let mut outs = bands.cut(context);
        let mut outs: [_; MAX_BANDS] = from_fn(|_| {
            let out = outs.next().unwrap_or_default();
            out.chunks_mut(panels_per_head * bands.stride())
        });
        let heads = (0..panels).step_by(panels_per_head);
        let queue = Queue::new(heads.map(|head| {
            let out = outs.each_mut().map(|out| out.next().unwrap_or_default());
            (head, out)
        }));
        self.run(&|own| {
            while let Some((at, out)) = queue.next() {
                isa.run(AttentionHead {
                    queries: all.without_panels(at),
                    keys: all.without_panels(panels + at),
                    values: all.without_panels(2 * panels + at),
                    head,
                    sequences,
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
