//! The forward pass over one group of sequences, which stand one after the other without padding.

use super::super::Shape;
use super::buffer::Buffer;
use super::isa::Isa;
use super::kernels::{
    AttentionHead, AttentionScratch, Embed, Finish, Left, Norm, Normalise, Pool, Product, Quantise,
    QuantisedRows,
};
use super::panels::{PANEL, Panels, Queue, RowBlocks, stride};
use super::precision::Precision;
use super::team::Team;
use super::weights::{Layer, Matrix, Weights};

/// Sequences are taken together up to this many tokens: enough for a matrix product to run at full
/// speed, and few enough for activations to stay in the second level cache. Twice as many cost a quarter more each.
const GROUP: usize = 256;

/// A share of rows smaller than this is not worth waking a helper for.
const ROWS_WORTH_SHARING: usize = 16;

/// Pieces of work for each thread of a team: more even the load out, fewer cost less.
const PIECES: usize = 6;

/// Everything a forward pass writes, sized once for the largest group.
pub(super) struct Memory {
    rows: usize,
    /// The residual stream: one row of `hidden` a token.
    states: Buffer,
    /// Queries, keys, values and context while attention runs, the wide layer while the feed
    /// forward network does: neither needs what the other leaves.
    wide: Buffer,
    quantised: QuantisedMemory,
    /// Token and position of each row.
    tokens: Vec<(u32, u32)>,
    /// First row and length of each sequence.
    sequences: Vec<(usize, usize)>,
}

/// What a product of integers multiplies; empty where weights are floats.
#[derive(Default)]
struct QuantisedMemory {
    /// In panels, like what they are made of.
    values: Vec<i16>,
    /// The scale of each row.
    scales: Vec<f32>,
}

impl Memory {
    pub(super) fn new(shape: &Shape, precision: Precision) -> Self {
        let rows = GROUP.max(shape.max_tokens);
        let floats = |features: usize| features / PANEL * stride(rows);
        Self {
            rows,
            states: Buffer::poisoned(floats(shape.hidden)),
            wide: Buffer::poisoned(floats(shape.feed_forward.max(4 * shape.hidden))),
            quantised: match precision {
                Precision::Int8 => QuantisedMemory {
                    values: vec![0; floats(shape.feed_forward.max(shape.hidden))],
                    scales: vec![f32::NAN; rows],
                },
                _ => QuantisedMemory::default(),
            },
            tokens: Vec::with_capacity(rows),
            sequences: Vec::with_capacity(rows),
        }
    }

    /// How many of `sequences`, from the first on, make up the next group: groups of equal size
    /// rather than full ones and a small last one. Never zero.
    pub(super) fn fitting(&self, sequences: &[&[u32]]) -> usize {
        let total: usize = sequences.iter().map(|sequence| sequence.len()).sum();
        let aim = total.div_ceil(total.div_ceil(self.rows).max(1));
        let mut rows = 0;
        let fitting = sequences.iter().take_while(|sequence| {
            let fits = rows < aim && rows + sequence.len() <= self.rows;
            rows += sequence.len();
            fits
        });
        fitting.count().max(1)
    }
}

/// Encodes `group`, whose tokens and lengths have been checked, into `out`.
pub(super) fn forward(
    weights: &Weights,
    team: &mut Team<AttentionScratch>,
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
    let rows = memory.tokens.len();
    let stride = stride(rows);
    let shape = weights.shape();
    let mut pass = Pass {
        isa: weights.isa,
        team,
        alone,
        rows,
        stride,
        head: shape.head(),
        sequences: &memory.sequences,
    };
    let states = &mut memory.states[..shape.hidden / PANEL * stride];
    pass.embed(weights, &memory.tokens, states);
    for layer in weights.layers() {
        pass.layer(
            weights,
            layer,
            states,
            &mut memory.wide,
            &mut memory.quantised,
        );
    }
    for (out, &(first, rows)) in out.chunks_exact_mut(shape.hidden).zip(pass.sequences) {
        pass.isa.run(Pool {
            states: Panels::new(states, stride),
            first,
            rows,
            pooling: shape.pooling,
            out,
        });
    }
}

struct Pass<'a> {
    isa: Isa,
    team: &'a mut Team<AttentionScratch>,
    alone: &'a dyn Fn() -> bool,
    rows: usize,
    stride: usize,
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
        quantised: &mut QuantisedMemory,
    ) {
        let one = std::slice::from_ref;
        let hidden = states.len();
        let (query_key_value, context) = wide.split_at_mut(3 * hidden);
        let context = &mut context[..hidden];
        self.product(
            states,
            &layer.query_key_value,
            Finish::Store,
            quantised,
            query_key_value,
        );
        self.attention(query_key_value, context);
        self.product(
            context,
            one(&layer.attention_output),
            Finish::AddToOutput,
            quantised,
            states,
        );
        self.normalise(weights.norm(&layer.attention_norm), states);

        let wide = &mut wide[..layer.up.bias.len() / PANEL * self.stride];
        self.product(states, one(&layer.up), Finish::Gelu, quantised, wide);
        self.product(
            wide,
            one(&layer.down),
            Finish::AddToOutput,
            quantised,
            states,
        );
        self.normalise(weights.norm(&layer.output_norm), states);
    }

    fn embed(&mut self, weights: &Weights, tokens: &[(u32, u32)], states: &mut [f32]) {
        let isa = self.isa;
        let queue = Queue::new(self.row_blocks(states));
        self.run(self.rows, &|_| {
            while let Some((_, rows)) = queue.next() {
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
        let queue = Queue::new(self.row_blocks(states));
        self.run(self.rows, &|_| {
            while let Some((_, rows)) = queue.next() {
                isa.run(Normalise { rows, norm });
            }
        });
    }

    /// Multiplies by several matrices of equal depth, whose columns stand side by side in `out`.
    fn product(
        &mut self,
        left: &[f32],
        matrices: &[Matrix],
        finish: Finish,
        quantised: &mut QuantisedMemory,
        out: &mut [f32],
    ) {
        let (isa, rows, stride) = (self.isa, self.rows, self.stride);
        let depth = matrices[0].depth;
        let panels = self.panels_per_piece(out.len() / stride);
        let columns = panels * PANEL;
        let outs = out.chunks_mut(out.len() / matrices.len());
        let queue = Queue::new(matrices.iter().zip(outs).flat_map(|(matrix, out)| {
            let outs = out.chunks_mut(panels * stride);
            matrix.pieces(columns).zip(outs)
        }));
        let floats = Panels::new(left, stride);
        let quantised = matrices[0]
            .weights
            .is_quantised()
            .then(|| self.quantise(floats, depth, quantised));
        let left = Left {
            floats,
            quantised: quantised.unwrap_or(QuantisedRows::NOTHING),
        };
        self.run(usize::MAX, &|_| {
            while let Some((_, ((weights, bias), out))) = queue.next() {
                let product = Product {
                    left,
                    rows,
                    depth,
                    weights,
                    bias,
                    finish,
                    out,
                    stride,
                };
                product.run(isa);
            }
        });
    }

    /// Quantises what is about to be multiplied.
    fn quantise<'m>(
        &mut self,
        floats: Panels<'_>,
        depth: usize,
        memory: &'m mut QuantisedMemory,
    ) -> QuantisedRows<'m> {
        let isa = self.isa;
        let share = self.rows_per_piece();
        let values = &mut memory.values[..depth / PANEL * self.stride];
        let scales = &mut memory.scales[..self.rows];
        let rows = RowBlocks::new(values, self.stride, self.rows, share);
        let queue = Queue::new(rows.zip(scales.chunks_mut(share)));
        self.run(self.rows, &|_| {
            while let Some((_, (rows, scales))) = queue.next() {
                isa.run(Quantise {
                    floats,
                    rows,
                    scales,
                });
            }
        });
        QuantisedRows {
            values: Panels::new(values, self.stride),
            scales,
        }
    }

    fn attention(&mut self, query_key_value: &[f32], context: &mut [f32]) {
        let (isa, stride, head, sequences) = (self.isa, self.stride, self.head, self.sequences);
        let panels = context.len() / stride;
        let panels_per_head = head / PANEL;
        let all = Panels::new(query_key_value, stride);
        let queue = Queue::new(context.chunks_mut(panels_per_head * stride));
        self.run(usize::MAX, &|scratch| {
            while let Some((piece, out)) = queue.next() {
                let at = piece * panels_per_head;
                isa.run(AttentionHead {
                    queries: all.without_panels(at),
                    keys: all.without_panels(panels + at),
                    values: all.without_panels(2 * panels + at),
                    head,
                    sequences,
                    scratch,
                    out,
                });
            }
        });
    }

    /// Runs a job on the team, or on this thread if there is too little to share or others wait.
    fn run(&mut self, rows: usize, job: &(dyn Fn(&mut AttentionScratch) + Sync)) {
        if !(self.alone)() {
            self.team.rest();
            self.team.run_alone(job);
        } else if rows < 2 * ROWS_WORTH_SHARING {
            self.team.run_alone(job);
        } else {
            self.team.run(job);
        }
    }

    fn row_blocks<'s>(&self, states: &'s mut [f32]) -> RowBlocks<'s> {
        RowBlocks::new(states, self.stride, self.rows, self.rows_per_piece())
    }

    fn rows_per_piece(&self) -> usize {
        let share = self.rows.div_ceil(self.team.threads() * PIECES);
        share.max(ROWS_WORTH_SHARING)
    }

    fn panels_per_piece(&self, panels: usize) -> usize {
        match self.team.threads() {
            1 => panels,
            threads => (panels / (threads * PIECES)).max(1),
        }
    }
}
