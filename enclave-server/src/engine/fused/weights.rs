//! Weights, checked and packed once at load.
//!
//! A matrix [n][k] of the file becomes panels [n / width][k][width], so that the kernel reads it
//! front to back. Queries, keys and values are one matrix, the queries scaled by 1/√head. The
//! embedding of token type 0, which every token has, is added to those of the positions. All of it
//! lies in one allocation, but for the table of words, which is kept as it came: more than half of a
//! small model, and read a few rows at a time.

use std::ops::Range;

use super::super::{Activation, LoadError, Shape};
use super::buffer::Buffer;
use super::isa::Isa;
use super::kernels::Norm;
use super::panels::{MAX_PANELS, PANEL};
use super::source::{Pair, Source};
use crate::model;

/// The weights of one model, packed for one instruction set; shared by every
/// [`Worker`](super::Worker).
pub struct Weights {
    pub(super) shape: Shape,
    pub(super) isa: Isa,
    words: Vec<f32>,
    arena: Buffer,
    positions: Range<usize>,
    embedding_norm: NormAt,
    layers: Vec<LayerAt>,
}

/// Where a matrix and its bias lie in the arena.
struct MatrixAt {
    depth: usize,
    weights: Range<usize>,
    bias: Range<usize>,
}

struct NormAt {
    scale: Range<usize>,
    shift: Range<usize>,
}

struct LayerAt {
    query_key_value: MatrixAt,
    attention_output: MatrixAt,
    attention_norm: NormAt,
    up: MatrixAt,
    down: MatrixAt,
    output_norm: NormAt,
}

/// A packed matrix and its bias.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    /// Inputs of one column.
    pub(super) depth: usize,
    /// [columns / width][depth][width]
    pub(super) weights: &'a [f32],
    /// [columns]
    pub(super) bias: &'a [f32],
}

/// What one layer multiplies and normalises with.
pub(super) struct Layer<'a> {
    pub(super) query_key_value: Matrix<'a>,
    pub(super) attention_output: Matrix<'a>,
    pub(super) attention_norm: Norm<'a>,
    pub(super) up: Matrix<'a>,
    pub(super) down: Matrix<'a>,
    pub(super) output_norm: Norm<'a>,
}

impl Weights {
    /// Checks every tensor of the model, then packs them for the fastest instruction set.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor, what was expected and what was found.
    pub fn load(weights: model::Weights, shape: Shape) -> Result<Self, LoadError> {
        Self::load_for(weights, shape, Isa::best())
    }

    /// As [`load`](Self::load), for an instruction set of the caller's choice.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_for(weights: model::Weights, shape: Shape, isa: Isa) -> Result<Self, LoadError> {
        shape.check_sizes()?;
        if let Some(reason) = unsupported(&shape) {
            return Err(LoadError::Shape { reason });
        }
        // Memory is asked for only once every tensor is known to be there and of its size.
        let source = Source::take(weights, &shape)?;
        let mut packer = Packer {
            arena: Buffer::zeroed(source.packed_floats()),
            used: 0,
            width: isa.width(),
        };
        let positions = packer.copy(&source.positions);
        packer.add_to_rows(positions.clone(), &source.token_types[..shape.hidden]);
        let embedding_norm = packer.norm(&source.embedding_norm);
        let scale = 1.0 / (shape.head() as f32).sqrt();
        // By value: what is packed is let go, so that there are never two copies of it all.
        let layers = source
            .layers
            .into_iter()
            .map(|layer| LayerAt {
                query_key_value: packer.matrix(vec![
                    (layer.query, scale),
                    (layer.key, 1.0),
                    (layer.value, 1.0),
                ]),
                attention_output: packer.matrix(vec![(layer.attention_output, 1.0)]),
                attention_norm: packer.norm(&layer.attention_norm),
                up: packer.matrix(vec![(layer.up, 1.0)]),
                down: packer.matrix(vec![(layer.down, 1.0)]),
                output_norm: packer.norm(&layer.output_norm),
            })
            .collect();
        debug_assert_eq!(packer.used, packer.arena.len(), "every float is packed");
        Ok(Self {
            shape,
            isa,
            words: source.words,
            arena: packer.arena,
            positions,
            embedding_norm,
            layers,
        })
    }

    /// The shape they were loaded with.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The instruction set they are packed for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Memory they occupy.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.words.len() + self.arena.len()) * size_of::<f32>()
    }

    /// [vocabulary][hidden]
    pub(super) fn words(&self) -> &[f32] {
        &self.words
    }

    /// [positions][hidden], the embedding of token type 0 added in.
    pub(super) fn positions(&self) -> &[f32] {
        &self.arena[self.positions.clone()]
    }

    pub(super) fn embedding_norm(&self) -> Norm<'_> {
        self.norm(&self.embedding_norm)
    }

    pub(super) fn layers(&self) -> impl Iterator<Item = Layer<'_>> {
        self.layers.iter().map(|layer| Layer {
            query_key_value: self.matrix(&layer.query_key_value),
            attention_output: self.matrix(&layer.attention_output),
            attention_norm: self.norm(&layer.attention_norm),
            up: self.matrix(&layer.up),
            down: self.matrix(&layer.down),
            output_norm: self.norm(&layer.output_norm),
        })
    }

    fn matrix(&self, at: &MatrixAt) -> Matrix<'_> {
        Matrix {
            depth: at.depth,
            weights: &self.arena[at.weights.clone()],
            bias: &self.arena[at.bias.clone()],
        }
    }

    fn norm(&self, at: &NormAt) -> Norm<'_> {
        Norm {
            scale: &self.arena[at.scale.clone()],
            shift: &self.arena[at.shift.clone()],
            epsilon: self.shape.norm_epsilon,
        }
    }
}

/// Fills the arena front to back.
struct Packer {
    arena: Buffer,
    used: usize,
    width: usize,
}

impl Packer {
    /// The next `len` floats. Every size here is a multiple of 32, so each piece starts on a cache
    /// line.
    fn take(&mut self, len: usize) -> Range<usize> {
        let from = self.used;
        self.used += len;
        from..self.used
    }

    fn copy(&mut self, values: &[f32]) -> Range<usize> {
        let range = self.take(values.len());
        self.arena[range.clone()].copy_from_slice(values);
        range
    }

    /// Adds `row` to every row.
    fn add_to_rows(&mut self, rows: Range<usize>, row: &[f32]) {
        for to in self.arena[rows].chunks_exact_mut(row.len()) {
            for (to, value) in to.iter_mut().zip(row) {
                *to += value;
            }
        }
    }

    fn norm(&mut self, [scale, shift]: &Pair) -> NormAt {
        NormAt {
            scale: self.copy(scale),
            shift: self.copy(shift),
        }
    }

    /// Packs matrices of the same depth next to each other, each times its factor.
    fn matrix(&mut self, parts: Vec<(Pair, f32)>) -> MatrixAt {
        let columns: usize = parts.iter().map(|([_, bias], _)| bias.len()).sum();
        let floats: usize = parts.iter().map(|([weight, _], _)| weight.len()).sum();
        let depth = floats / columns;
        let (weights, bias) = (self.take(floats), self.take(columns));
        let mut first = 0;
        for ([part, part_bias], factor) in parts {
            let to = &mut self.arena[bias.clone()][first..];
            for (to, value) in to.iter_mut().zip(&part_bias) {
                *to = value * factor;
            }
            let panels = &mut self.arena[weights.clone()];
            for (column, values) in (first..).zip(part.chunks_exact(depth)) {
                let panel = &mut panels[column / self.width * depth * self.width..];
                let places = panel[column % self.width..].iter_mut().step_by(self.width);
                for (to, value) in places.zip(values) {
                    *to = value * factor;
                }
            }
            first += part_bias.len();
        }
        MatrixAt {
            depth,
            weights,
            bias,
        }
    }
}

/// What of a shape there are no kernels for; `None` if there are for all of it.
pub(super) fn unsupported(shape: &Shape) -> Option<&'static str> {
    if shape.activation != Activation::Gelu {
        return Some("hidden_act is not gelu");
    }
    if !shape.head().is_multiple_of(PANEL) {
        return Some("features of a head are not a multiple of 32");
    }
    if shape.hidden > MAX_PANELS * PANEL {
        return Some("hidden_size is above 1024");
    }
    if !shape.feed_forward.is_multiple_of(PANEL) {
        return Some("intermediate_size is not a multiple of 32");
    }
    None
}
