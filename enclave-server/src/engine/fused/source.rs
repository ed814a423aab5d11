//! The tensors of a BERT encoder in a safetensors file, found by name and checked before use.

use safetensors::{Dtype, SafeTensors};

use super::error::LoadError;
use super::shape::Shape;

/// A weight matrix or table and its bias, or scale and shift.
type Pair<'a> = [Tensor<'a>; 2];

/// Every tensor the encoder needs, each of the right shape and format.
pub(super) struct Source<'a> {
    pub(super) words: Tensor<'a>,
    pub(super) positions: Tensor<'a>,
    pub(super) token_types: Tensor<'a>,
    pub(super) embedding_norm: Pair<'a>,
    pub(super) layers: Vec<SourceLayer<'a>>,
}

/// The tensors of one layer.
pub(super) struct SourceLayer<'a> {
    pub(super) query: Pair<'a>,
    pub(super) key: Pair<'a>,
    pub(super) value: Pair<'a>,
    pub(super) attention_output: Pair<'a>,
    pub(super) attention_norm: Pair<'a>,
    pub(super) up: Pair<'a>,
    pub(super) down: Pair<'a>,
    pub(super) output_norm: Pair<'a>,
}

/// One tensor of f32, its name for messages.
pub(super) struct Tensor<'a> {
    name: String,
    bytes: &'a [u8],
}

impl Tensor<'_> {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / size_of::<f32>()
    }

    /// Its values, row by row, none of them NaN or infinite.
    pub(super) fn finite(&self) -> Result<impl Iterator<Item = f32>, LoadError> {
        let values = || {
            let (floats, _) = self.bytes.as_chunks::<4>();
            floats.iter().map(|bytes| f32::from_le_bytes(*bytes))
        };
        match values().position(|value| !value.is_finite()) {
            None => Ok(values()),
            Some(at) => Err(LoadError::NotFinite {
                name: self.name.clone(),
                at,
            }),
        }
    }
}

impl<'a> Source<'a> {
    pub(super) fn check(tensors: &'a SafeTensors<'_>, shape: &Shape) -> Result<Self, LoadError> {
        let (hidden, wide) = (shape.hidden, shape.feed_forward);
        let find = |name: String, expected: &[usize]| find(tensors, name, expected);
        let linear = |name: String, [outputs, inputs]: [usize; 2]| -> Result<_, LoadError> {
            Ok([
                find(format!("{name}.weight"), &[outputs, inputs])?,
                find(format!("{name}.bias"), &[outputs])?,
            ])
        };
        let norm = |name: String| -> Result<_, LoadError> {
            Ok([
                find(format!("{name}.weight"), &[hidden])?,
                find(format!("{name}.bias"), &[hidden])?,
            ])
        };
        let table = |name: &str, rows| {
            find(
                format!("embeddings.{name}_embeddings.weight"),
                &[rows, hidden],
            )
        };
        let layer = |layer: usize| -> Result<_, LoadError> {
            let at = |name: &str| format!("encoder.layer.{layer}.{name}");
            let square = [hidden, hidden];
            Ok(SourceLayer {
                query: linear(at("attention.self.query"), square)?,
                key: linear(at("attention.self.key"), square)?,
                value: linear(at("attention.self.value"), square)?,
                attention_output: linear(at("attention.output.dense"), square)?,
                attention_norm: norm(at("attention.output.LayerNorm"))?,
                up: linear(at("intermediate.dense"), [wide, hidden])?,
                down: linear(at("output.dense"), [hidden, wide])?,
                output_norm: norm(at("output.LayerNorm"))?,
            })
        };
        Ok(Self {
            words: table("word", shape.vocabulary)?,
            positions: table("position", shape.positions)?,
            token_types: table("token_type", shape.token_types)?,
            embedding_norm: norm("embeddings.LayerNorm".to_owned())?,
            layers: (0..shape.layers).map(layer).collect::<Result<_, _>>()?,
        })
    }

    /// Floats that remain once packed: all but the token types.
    pub(super) fn floats(&self) -> usize {
        let pairs = self.layers.iter().flat_map(|layer| {
            [
                &layer.query,
                &layer.key,
                &layer.value,
                &layer.attention_output,
                &layer.attention_norm,
                &layer.up,
                &layer.down,
                &layer.output_norm,
            ]
        });
        let pairs = pairs.chain([&self.embedding_norm]).flatten();
        pairs
            .chain([&self.words, &self.positions])
            .map(Tensor::len)
            .sum()
    }
}

fn find<'a>(
    tensors: &'a SafeTensors<'_>,
    name: String,
    expected: &[usize],
) -> Result<Tensor<'a>, LoadError> {
    let found = tensors
        .tensor(&name)
        .or_else(|_| tensors.tensor(&format!("bert.{name}")));
    let Ok(view) = found else {
        return Err(LoadError::Missing { name });
    };
    if view.dtype() != Dtype::F32 {
        return Err(LoadError::Dtype {
            name,
            found: view.dtype(),
        });
    }
    if view.shape() != expected {
        return Err(LoadError::Shape {
            name,
            expected: expected.to_vec(),
            found: view.shape().to_vec(),
        });
    }
    // A view's bytes live as long as the file, not as long as the view.
    Ok(Tensor {
        name,
        bytes: view.data(),
    })
}
