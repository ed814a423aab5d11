//! The tensors of a BERT encoder, taken from a model's weights and checked before use.

use std::collections::BTreeMap;

use super::super::{LoadError, Shape};
use super::packed::Floats;
use super::precision::Precision;
use crate::weights::{Weight, Weights};

/// A weight matrix or table and its bias, or scale and shift; in row-major order.
pub(super) type Pair = [Vec<f32>; 2];

/// All tensors that the encoder needs, with checked shapes.
pub(super) struct Source {
    pub(super) words: Vec<f32>,
    pub(super) positions: Vec<f32>,
    pub(super) token_types: Vec<f32>,
    pub(super) embedding_norm: Pair,
    pub(super) layers: Vec<SourceLayer>,
}

/// The tensors of one layer.
pub(super) struct SourceLayer {
    pub(super) query: Pair,
    pub(super) key: Pair,
    pub(super) value: Pair,
    pub(super) attention_output: Pair,
    pub(super) attention_norm: Pair,
    pub(super) up: Pair,
    pub(super) down: Pair,
    pub(super) output_norm: Pair,
}

impl Source {
    /// Takes the tensors that an encoder of this shape needs and drops all others. Values that will be stored in `precision` must
    /// be representable in it.
    pub(super) fn take(
        weights: Weights,
        shape: &Shape,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        let tensors = weights.into_tensors();
        let prefix = shape.check_tensors(&tensors)?;
        let mut tensors = Tensors {
            tensors,
            prefix,
            precision,
        };
        let layers = (0..shape.layers)
            .map(|layer| {
                let name = |name| format!("encoder.layer.{layer}.{name}");
                let mut matrix = |of| tensors.matrix(&name(of));
                Ok(SourceLayer {
                    query: matrix("attention.self.query")?,
                    key: matrix("attention.self.key")?,
                    value: matrix("attention.self.value")?,
                    attention_output: matrix("attention.output.dense")?,
                    up: matrix("intermediate.dense")?,
                    down: matrix("output.dense")?,
                    attention_norm: tensors.pair(&name("attention.output.LayerNorm"))?,
                    output_norm: tensors.pair(&name("output.LayerNorm"))?,
                })
            })
            .collect::<Result<_, LoadError>>()?;
        let table = |of| format!("embeddings.{of}_embeddings.weight");
        Ok(Self {
            words: tensors.representable(table("word"))?,
            positions: tensors.take_tensor(table("position"))?,
            token_types: tensors.take_tensor(table("token_type"))?,
            embedding_norm: tensors.pair("embeddings.LayerNorm")?,
            layers,
        })
    }
}

/// Tensors whose presence has been checked.
struct Tensors {
    tensors: BTreeMap<String, Weight>,
    prefix: &'static str,
    precision: Precision,
}

impl Tensors {
    /// Takes weights and bias; the bias is never rounded.
    fn matrix(&mut self, name: &str) -> Result<Pair, LoadError> {
        let weights = format!("{name}.weight");
        Ok([
            match self.precision {
                // The scales of integers are f32.
                Precision::Int8 => self.take_tensor(weights)?,
                _ => self.representable(weights)?,
            },
            self.take_tensor(format!("{name}.bias"))?,
        ])
    }

    /// Refuses values that would become infinite when rounded: f16 ends at 65,504.
    fn representable(&mut self, name: String) -> Result<Vec<f32>, LoadError> {
        let precision = self.precision;
        let values = self.take_tensor(name.clone())?;
        if precision == Precision::F32 {
            return Ok(values);
        }
        let largest = values.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        if Floats::can_represent(precision, largest) {
            Ok(values)
        } else {
            Err(LoadError::TensorRange {
                name,
                largest,
                precision,
                kept: Floats::storage_precision(precision),
            })
        }
    }

    fn pair(&mut self, name: &str) -> Result<Pair, LoadError> {
        Ok([
            self.take_tensor(format!("{name}.weight"))?,
            self.take_tensor(format!("{name}.bias"))?,
        ])
    }

    fn take_tensor(&mut self, name: String) -> Result<Vec<f32>, LoadError> {
        match self.tensors.remove(&format!("{}{name}", self.prefix)) {
            Some(weight) => Ok(weight.values),
            // Unreachable: `check_tensors` found every tensor.
            None => Err(LoadError::Missing {
                name,
                expected: Vec::new(),
            }),
        }
    }
}
