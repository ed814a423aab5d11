//! A model's weights, checked and packed once at load.
//!
//! A matrix [n][k] of the file becomes panels [n / width][k][width], so that the kernel reads it sequentially. A panel occupies
//! the memory of the rows that it consists of, so packing needs scratch memory for one panel only; with less than f32, one matrix
//! at a time exists twice. Queries are scaled by 1/√head. The embedding of token type 0, which every token has, is added to those
//! of the positions. The embedding table keeps its order: it is more than half of a small model, and only a few rows are read at
//! a time.

use super::super::{LoadError, Shape};
use super::isa::Isa;
use super::kernels::Norm;
use super::packed::{Floats, FloatsRef, Packed, PackedRef};
use super::panels::{MAX_PANELS, MAX_WIDE_PANELS, PANEL};
use super::positions::{Distances, Rotations};
use super::precision::Precision;
use super::source::{Pair, Source, SourceLayer};
use crate::architecture::{NormKind, NormPlace, Positions};
use crate::head::Head;
use crate::weights;

/// The weights of one model, packed for one instruction set; shared by all [`Worker`](super::Worker)s.
pub struct Weights {
    pub(super) shape: Shape,
    pub(super) isa: Isa,
    precision: Precision,
    words: Floats,
    positions: Option<Vec<f32>>,
    embedding_norm: Option<Pair>,
    distances: Option<Distances>,
    rotations: Option<[Rotations; 2]>,
    layers: Vec<Layer>,
    final_norm: Option<Pair>,
    norm: NormKind,
    head: Head,
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
    /// Scales of each feature of a head of queries and of keys, those of queries with attention's factor.
    pub(super) query_key_norm: Option<[Vec<f32>; 2]>,
    pub(super) attention_output: Matrix,
    /// The gate, if there is one, and the projection that it opens; multiplied as one product.
    pub(super) up: Vec<Matrix>,
    pub(super) down: Matrix,
    pub(super) before_attention: Option<Pair>,
    pub(super) after_attention: Option<Pair>,
    pub(super) before_feed_forward: Option<Pair>,
    pub(super) after_feed_forward: Option<Pair>,
    /// Largest distance of two tokens that attend to each other; `None` where all do.
    pub(super) reach: Option<usize>,
}

impl Weights {
    /// Checks every tensor of the model, then packs them for the fastest instruction set. Embeddings have unit length.
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
        let block = shape.block();
        let mut source = Source::take(weights, &shape, precision)?;
        if let Some(token_type) = &source.token_type {
            // Every token has type 0.
            let table = source.positions.as_mut().unwrap_or(&mut source.words);
            for row in table.chunks_exact_mut(shape.hidden) {
                for (value, token_type) in row.iter_mut().zip(token_type) {
                    *value += token_type;
                }
            }
        }
        let positions = source.positions.map(|mut table| {
            // The row of padding tokens stays in front.
            let first = shape.first_position.saturating_sub(1);
            table.truncate((shape.first_position + shape.max_tokens) * shape.hidden);
            table.split_off(first * shape.hidden)
        });
        let distances = source.distances.as_deref();
        let rotations = (block.positions == Positions::Rotary).then(|| {
            [shape.rotary.theta, shape.rotary.local_theta]
                .map(|theta| Rotations::new(theta, shape.head, shape.max_tokens))
        });
        let layers = source.layers.into_iter().enumerate();
        Ok(Self {
            shape,
            isa,
            precision,
            words: Floats::round(source.words, precision),
            positions,
            embedding_norm: source.embedding_norm,
            distances: distances.map(|table| Distances::new(table, shape.heads, shape.max_tokens)),
            rotations,
            layers: layers
                .map(|(number, layer)| Layer::pack(layer, &shape, number, precision, isa))
                .collect(),
            final_norm: source.final_norm,
            norm: block.norm,
            head: Head::unit(shape.hidden, shape.pooling),
        })
    }

    /// The same weights, whose pooled rows go through `head`, which the caller has checked.
    pub(super) fn with_head(self, head: Head) -> Self {
        Self { head, ..self }
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
            let others = [&layer.attention_output, &layer.down];
            layer.query_key_value.iter().chain(&layer.up).chain(others)
        });
        let matrices: usize = matrices.map(|matrix| matrix.weights.bytes()).sum();
        let positions = self.positions.as_deref().unwrap_or_default();
        matrices + self.words.bytes() + size_of_val(positions)
    }

    /// [vocabulary][hidden]
    pub(super) fn words(&self) -> FloatsRef<'_> {
        self.words.all()
    }

    /// [positions][hidden], including the embedding of token type 0: from the first token's position on, or from that of padding
    /// where the model has one.
    pub(super) fn positions(&self) -> Option<&[f32]> {
        self.positions.as_deref()
    }

    pub(super) fn embedding_norm(&self) -> Option<Norm<'_>> {
        self.embedding_norm.as_ref().map(|norm| self.norm(norm))
    }

    pub(super) fn final_norm(&self) -> Option<Norm<'_>> {
        self.final_norm.as_ref().map(|norm| self.norm(norm))
    }

    pub(super) fn distances(&self) -> Option<&Distances> {
        self.distances.as_ref()
    }

    /// Rotations of a layer's queries and keys.
    pub(super) fn rotations(&self, layer: &Layer) -> Option<&Rotations> {
        let [full, local] = self.rotations.as_ref()?;
        Some(if layer.reach.is_some() { local } else { full })
    }

    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The steps after pooling.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// A norm in the kernels' form.
    pub(super) fn norm<'a>(&self, [scale, shift]: &'a Pair) -> Norm<'a> {
        Norm {
            scale,
            shift,
            epsilon: self.shape.norm_epsilon,
            centred: self.norm == NormKind::Layer,
        }
    }
}

impl Layer {
    fn pack(
        layer: SourceLayer,
        shape: &Shape,
        number: usize,
        precision: Precision,
        isa: Isa,
    ) -> Self {
        let pack = |pair| Matrix::pack(pair, 1.0, precision, isa);
        let mut query_key_norm = layer.query_key_norm;
        // Attention's factor is applied where queries are last multiplied by a constant.
        let query_scale = match &mut query_key_norm {
            Some([query, _]) => {
                query
                    .iter_mut()
                    .for_each(|scale| *scale *= shape.query_scale);
                1.0
            }
            None => shape.query_scale,
        };
        Self {
            query_key_value: [
                Matrix::pack(layer.query, query_scale, precision, isa),
                pack(layer.key),
                pack(layer.value),
            ],
            query_key_norm,
            attention_output: pack(layer.attention_output),
            up: layer.gate.into_iter().chain([layer.up]).map(pack).collect(),
            down: pack(layer.down),
            before_attention: layer.before_attention,
            after_attention: layer.after_attention,
            before_feed_forward: layer.before_feed_forward,
            after_feed_forward: layer.after_feed_forward,
            reach: shape.reach(number),
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
    if !shape.head.is_multiple_of(PANEL) {
        return Some("features of a head are not a multiple of 32");
    }
    if !shape.hidden.is_multiple_of(PANEL) {
        return Some("hidden_size is not a multiple of 32");
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
    if shape.queries() + shape.keys() > MAX_WIDE_PANELS * PANEL {
        return Some("the heads of queries and keys have more than 4096 features");
    }
    None
}

/// Whether a layer of this shape writes a branch to memory before it is added to the stream.
pub(super) fn has_branches(shape: &Shape) -> bool {
    shape.block().place == NormPlace::Around
}
