//! The tensors of a BERT encoder, taken out of a model's weights and checked before use.

use std::collections::BTreeMap;

use super::super::{LoadError, Shape};
use super::packed::Floats;
use super::precision::Precision;
use crate::weights::{Weight, Weights};

/// A weight matrix or table and its bias, or scale and shift; row by row.
pub(super) type Pair = [Vec<f32>; 2];

/// Every tensor the encoder needs, each of the right shape.
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
    /// Takes what an encoder of this shape needs; tensors it does not need are let go. What will be kept in `precision`
    /// must have a value there.
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
            words: tensors.rounded(table("word"))?,
            positions: tensors.one(table("position"))?,
            token_types: tensors.one(table("token_type"))?,
            embedding_norm: tensors.pair("embeddings.LayerNorm")?,
            layers,
        })
    }
}

/// Tensors that are known to be there.
struct Tensors {
    tensors: BTreeMap<String, Weight>,
    prefix: &'static str,
    precision: Precision,
}

impl Tensors {
    /// Weights, and a bias, which is never rounded.
    fn matrix(&mut self, name: &str) -> Result<Pair, LoadError> {
        let weights = format!("{name}.weight");
        Ok([
            match self.precision {
                // Integers come with scales, which are f32.
                Precision::Int8 => self.one(weights)?,
                _ => self.rounded(weights)?,
            },
            self.one(format!("{name}.bias"))?,
        ])
    }

    /// Refuses values that would become infinite when they are rounded: a half ends at 65,504.
    fn rounded(&mut self, name: String) -> Result<Vec<f32>, LoadError> {
        let precision = self.precision;
        let values = self.one(name.clone())?;
        if precision == Precision::F32 {
            return Ok(values);
        }
        let largest = values.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        if Floats::has(precision, largest) {
            Ok(values)
        } else {
            Err(LoadError::TensorRange {
                name,
                largest,
                precision,
                kept: Floats::kept(precision),
            })
        }
    }

    fn pair(&mut self, name: &str) -> Result<Pair, LoadError> {
        Ok([
            self.one(format!("{name}.weight"))?,
            self.one(format!("{name}.bias"))?,
        ])
    }

    fn one(&mut self, name: String) -> Result<Vec<f32>, LoadError> {
        match self.tensors.remove(&format!("{}{name}", self.prefix)) {
            Some(weight) => Ok(weight.values),
            // Cannot be: `check_tensors` found every one.
            None => Err(LoadError::Missing {
                name,
                expected: Vec::new(),
            }),
        }
    }
}
