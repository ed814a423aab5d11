//! The tensors of a BERT encoder, taken out of a model's weights and checked before use.

use std::collections::BTreeMap;

use super::super::{LoadError, Shape};
use crate::model::{Weight, Weights};

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
    /// Takes what an encoder of this shape needs; tensors it does not need are let go.
    pub(super) fn take(weights: Weights, shape: &Shape) -> Result<Self, LoadError> {
        let tensors = weights.into_tensors();
        let prefix = shape.check_tensors(&tensors)?;
        let mut tensors = Tensors { tensors, prefix };
        let layers = (0..shape.layers)
            .map(|layer| {
                let mut pair = |name| tensors.pair(&format!("encoder.layer.{layer}.{name}"));
                Ok(SourceLayer {
                    query: pair("attention.self.query")?,
                    key: pair("attention.self.key")?,
                    value: pair("attention.self.value")?,
                    attention_output: pair("attention.output.dense")?,
                    attention_norm: pair("attention.output.LayerNorm")?,
                    up: pair("intermediate.dense")?,
                    down: pair("output.dense")?,
                    output_norm: pair("output.LayerNorm")?,
                })
            })
            .collect::<Result<_, LoadError>>()?;
        let mut table = |name| tensors.one(format!("embeddings.{name}_embeddings.weight"));
        Ok(Self {
            words: table("word")?,
            positions: table("position")?,
            token_types: table("token_type")?,
            embedding_norm: tensors.pair("embeddings.LayerNorm")?,
            layers,
        })
    }
}

/// Tensors that are known to be there.
struct Tensors {
    tensors: BTreeMap<String, Weight>,
    prefix: &'static str,
}

impl Tensors {
    fn pair(&mut self, name: &str) -> Result<Pair, LoadError> {
        Ok([
            self.one(format!("{name}.weight"))?,
            self.one(format!("{name}.bias"))?,
        ])
    }

    fn one(&mut self, name: String) -> Result<Vec<f32>, LoadError> {
        match self.tensors.remove(&format!("{}{name}", self.prefix)) {
            Some(weight) => Ok(weight.values),
            None => Err(LoadError::Missing {
                name,
                expected: Vec::new(),
            }),
        }
    }
}
