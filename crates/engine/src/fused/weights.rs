//! A model's weights, checked and packed once at load.
//!
//! A matrix [n][k] of the file becomes panels [n / width][k][width], so that the kernel reads it sequentially. A panel occupies
//! the memory of the rows that it consists of, so packing needs scratch memory for one panel only; with less than f32, one matrix
//! at a time exists twice. Queries are scaled by 1/√head. The embedding of token type 0, which every token has, is added to those
//! of the positions. The embedding table keeps its order: it is more than half of a small model, and only a few rows are read at
//! a time.

use super::super::{Activation, LoadError, Shape};
use super::isa::Isa;
use super::kernels::Norm;
use super::packed::{Floats, FloatsRef, Packed, PackedRef};
use super::panels::{MAX_PANELS, MAX_WIDE_PANELS, PANEL};
use super::precision::Precision;
use super::source::{Pair, Source, SourceLayer};
use crate::weights;

/// The weights of one model, packed for one instruction set; shared by all [`Worker`](super::Worker)s.
pub struct Weights {
    pub(super) shape: Shape,
    pub(super) isa: Isa,
    precision: Precision,
    words: Floats,
    positions: Vec<f32>,
    embedding_norm: Pair,
    layers: Vec<Layer>,
}

/// A packed matrix and its bias.
pub(super) struct Matrix {
    /// Inputs of a column.
    pub(super) depth: usize,
    pub(super) weights: Packed,
    /// [columns]
    pub(super) bias: Vec<f32>,
}

/// The matrices and norms of one layer.
pub(super) struct Layer {
    /// Multiplied as one product.
    pub(super) query_key_value: [Matrix; 3],
    pub(super) attention_output: Matrix,
    pub(super) attention_norm: Pair,
    pub(super) up: Matrix,
    pub(super) down: Matrix,
    pub(super) output_norm: Pair,
}

impl Weights {
    /// Checks every tensor of the model, then packs them for the fastest instruction set.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor, what was expected and what was found.
    pub fn load(
        weights: weights::Weights,
        shape: Shape,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        Self::load_for(weights, shape, precision, Isa::best())
    }

    /// Like [`load`](Self::load), for a given instruction set.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub fn load_for(
        weights: weights::Weights,
        shape: Shape,
        precision: Precision,
        isa: Isa,
    ) -> Result<Self, LoadError> {
        shape.check_sizes()?;
        if let Some(reason) = unsupported(&shape) {
            return Err(LoadError::Shape { reason });
        }
        let source = Source::take(weights, &shape, precision)?;
        let mut positions = source.positions;
        for position in positions.chunks_exact_mut(shape.hidden) {
            for (value, token_type) in position.iter_mut().zip(&source.token_types) {
                *value += token_type;
            }
        }
        let scale = 1.0 / (shape.head() as f32).sqrt();
        let layers = source.layers.into_iter();
        Ok(Self {
            shape,
            isa,
            precision,
            words: Floats::round(source.words, precision),
            positions,
            embedding_norm: source.embedding_norm,
            layers: layers
                .map(|layer| Layer::pack(layer, scale, precision, isa))
                .collect(),
        })
    }

    /// The model's shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The instruction set they are packed for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The precision of the stored weights.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Memory of matrices and tables, without biases and norms.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let matrices = self.layers.iter().flat_map(|layer| {
            let others = [&layer.attention_output, &layer.up, &layer.down];
            layer.query_key_value.iter().chain(others)
        });
        let matrices: usize = matrices.map(|matrix| matrix.weights.bytes()).sum();
        matrices + self.words.bytes() + size_of_val(self.positions.as_slice())
    }

    /// [vocabulary][hidden]
    pub(super) fn words(&self) -> FloatsRef<'_> {
        self.words.all()
    }

    /// [positions][hidden], including the embedding of token type 0.
    pub(super) fn positions(&self) -> &[f32] {
        &self.positions
    }

    pub(super) fn embedding_norm(&self) -> Norm<'_> {
        self.norm(&self.embedding_norm)
    }

    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// A layer norm in the kernels' form.
    pub(super) fn norm<'a>(&self, [scale, shift]: &'a Pair) -> Norm<'a> {
        Norm {
            scale,
            shift,
            epsilon: self.shape.norm_epsilon,
        }
    }
}

impl Layer {
    fn pack(layer: SourceLayer, query_scale: f32, precision: Precision, isa: Isa) -> Self {
        let pack = |pair| Matrix::pack(pair, 1.0, precision, isa);
        Self {
            query_key_value: [
                Matrix::pack(layer.query, query_scale, precision, isa),
                pack(layer.key),
                pack(layer.value),
            ],
            attention_output: pack(layer.attention_output),
            attention_norm: layer.attention_norm,
            up: pack(layer.up),
            down: pack(layer.down),
            output_norm: layer.output_norm,
        }
    }
}

impl Matrix {
    /// Packs weights and bias, multiplied by `factor`. The number of columns is a multiple of [`PANEL`].
    fn pack([weights, mut bias]: Pair, factor: f32, precision: Precision, isa: Isa) -> Self {
        let depth = weights.len() / bias.len();
        for value in &mut bias {
            *value *= factor;
        }
        Self {
            depth,
            weights: Packed::new(weights, depth, factor, precision, isa),
            bias,
        }
    }

    /// Weights and biases, `columns` columns at a time.
    pub(super) fn pieces(&self, columns: usize) -> impl Iterator<Item = (PackedRef<'_>, &[f32])> {
        let biases = self.bias.chunks(columns);
        (0..).step_by(columns).zip(biases).map(|(from, bias)| {
            let columns = from..from + bias.len();
            (self.weights.columns(columns, self.depth), bias)
        })
    }
}

/// Returns the property of a shape for which there are no kernels; `None` if there are kernels for all of it.
pub(super) fn unsupported(shape: &Shape) -> Option<&'static str> {
    if shape.heads == 0 {
        return Some("num_attention_heads is 0");
    }
    if shape.activation != Activation::Gelu {
        return Some("hidden_act is not gelu");
    }
    if !shape.head().is_multiple_of(PANEL) {
        return Some("features of a head are not a multiple of 32");
    }
    if shape.hidden > MAX_PANELS * PANEL {
        return Some("hidden_size is above 1024");
    }
    if shape.feed_forward > MAX_WIDE_PANELS * PANEL {
        return Some("intermediate_size is above 4096");
    }
    if !shape.feed_forward.is_multiple_of(PANEL) {
        return Some("intermediate_size is not a multiple of 32");
    }
    None
}
