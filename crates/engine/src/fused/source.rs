//! The tensors of an encoder, taken from a model's weights by role and checked before use.

use std::collections::BTreeMap;

use super::super::{LoadError, Shape};
use super::packed::Floats;
use super::precision::Precision;
use crate::architecture::{NormKind, Rows};
use crate::shape::Naming;
use crate::weights::{Weight, Weights};

/// A weight matrix or table and its bias, or scale and shift; in row-major order.
pub(crate) type Pair = [Vec<f32>; 2];

/// All tensors that the encoder needs, with checked shapes. A bias that the model lacks is zero, and so is the shift of a norm.
pub(crate) struct Source {
    pub(crate) words: Vec<f32>,
    pub(crate) positions: Option<Vec<f32>>,
    /// The embedding of token type 0.
    pub(crate) token_type: Option<Vec<f32>>,
    pub(crate) embedding_norm: Option<Pair>,
    /// [buckets][heads]
    pub(crate) distances: Option<Vec<f32>>,
    pub(crate) layers: Vec<SourceLayer>,
    pub(crate) final_norm: Option<Pair>,
}

/// The tensors of one layer.
pub(crate) struct SourceLayer {
    pub(crate) query: Pair,
    pub(crate) key: Pair,
    pub(crate) value: Pair,
    /// Scales of each feature of a head.
    pub(crate) query_key_norm: Option<[Vec<f32>; 2]>,
    pub(crate) attention_output: Pair,
    pub(crate) gate: Option<Pair>,
    pub(crate) up: Pair,
    pub(crate) down: Pair,
    pub(crate) before_attention: Option<Pair>,
    pub(crate) after_attention: Option<Pair>,
    pub(crate) before_feed_forward: Option<Pair>,
    pub(crate) after_feed_forward: Option<Pair>,
}

impl Source {
    /// Takes the tensors that an encoder of this shape needs and drops all others. Values that will be stored in `precision` must
    /// be representable in it.
    pub(crate) fn take(
        weights: Weights,
        shape: &Shape,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        let tensors = weights.into_tensors();
        let naming = shape.check_tensors(&tensors)?;
        let names = naming.names;
        let mut tensors = Tensors {
            tensors,
            naming,
            shape,
            precision,
        };
        let layers = (0..shape.layers)
            .map(|layer| tensors.take_layer(layer))
            .collect::<Result<_, LoadError>>()?;
        let words = tensors.take_words(names.words)?;
        Ok(Self {
            words,
            positions: names
                .positions
                .map(|name| tensors.take_tensor(&format!("{name}.weight")))
                .transpose()?,
            token_type: names
                .token_types
                .filter(|_| shape.token_types > 0)
                .map(|name| tensors.take_tensor(&format!("{name}.weight")))
                .transpose()?
                .map(|mut types| {
                    types.truncate(shape.hidden);
                    types
                }),
            embedding_norm: names
                .embedding_norm
                .map(|name| tensors.take_norm(name))
                .transpose()?,
            distances: names
                .distances
                .map(|name| tensors.take_tensor(&format!("{name}.weight")))
                .transpose()?,
            final_norm: names
                .final_norm
                .map(|name| tensors.take_norm(name))
                .transpose()?,
            layers,
        })
    }
}

/// Tensors whose presence has been checked.
struct Tensors<'a> {
    tensors: BTreeMap<String, Weight>,
    naming: Naming,
    shape: &'a Shape,
    precision: Precision,
}

impl Tensors<'_> {
    fn take_layer(&mut self, layer: usize) -> Result<SourceLayer, LoadError> {
        let (names, biases) = (self.naming.names, self.shape.biases);
        let naming = self.naming;
        let name = |of: &str| naming.layer(layer, of);
        let norm = |tensors: &mut Self, of: Option<&str>| {
            of.map(|of| tensors.take_norm(&name(of))).transpose()
        };
        let first_norm_missing = layer == 0 && self.shape.block().first_norm_missing;
        let before_attention = names.before_attention.filter(|_| !first_norm_missing);
        let query_key_norm = match (names.query_norm, names.key_norm) {
            (Some(query), Some(key)) => {
                Some([self.take_scale(&name(query))?, self.take_scale(&name(key))?])
            }
            _ => None,
        };
        Ok(SourceLayer {
            query: self.take_rows(layer, names.query, biases.attention)?,
            key: self.take_rows(layer, names.key, biases.attention)?,
            value: self.take_rows(layer, names.value, biases.attention)?,
            query_key_norm,
            attention_output: self.take_matrix(&name(names.attention_output), biases.attention)?,
            gate: names
                .gate
                .map(|rows| self.take_rows(layer, rows, biases.feed_forward))
                .transpose()?,
            up: self.take_rows(layer, names.up, biases.feed_forward)?,
            down: self.take_matrix(&name(names.down), biases.feed_forward)?,
            before_attention: norm(self, before_attention)?,
            after_attention: norm(self, names.after_attention)?,
            before_feed_forward: norm(self, names.before_feed_forward)?,
            after_feed_forward: norm(self, names.after_feed_forward)?,
        })
    }

    /// Takes a matrix, or one of several equal parts of its rows. The last part takes the tensor.
    fn take_rows(&mut self, layer: usize, rows: Rows, bias: bool) -> Result<Pair, LoadError> {
        let name = self.naming.rows(layer, rows);
        if rows.part + 1 == rows.of {
            let [mut weights, mut bias] = self.take_matrix(&name, bias)?;
            // A new vector, because a drained one would keep the memory of all parts.
            let weights = weights.split_off(weights.len() / rows.of * rows.part);
            let bias = bias.split_off(bias.len() / rows.of * rows.part);
            return Ok([weights, bias]);
        }
        let copy = |tensor: Option<&Weight>| {
            let values = tensor.map_or(&[][..], |tensor| &tensor.values);
            let part = values.len() / rows.of;
            values[part * rows.part..part * (rows.part + 1)].to_vec()
        };
        let tensor = |suffix| {
            let name = self.naming.tensor(&format!("{name}.{suffix}"));
            self.tensors.get(&name)
        };
        let weights = copy(tensor("weight"));
        self.check_range(&name, &weights)?;
        let bias = match bias {
            true => copy(tensor("bias")),
            false => vec![0.0; weights.len() / self.shape.hidden],
        };
        Ok([weights, bias])
    }

    /// Takes weights and bias; the bias is never rounded.
    fn take_matrix(&mut self, name: &str, bias: bool) -> Result<Pair, LoadError> {
        let columns = self.rows_of(name);
        let weights = self.take_tensor(&format!("{name}.weight"))?;
        self.check_range(name, &weights)?;
        let bias = match bias {
            true => self.take_tensor(&format!("{name}.bias"))?,
            false => vec![0.0; columns],
        };
        Ok([weights, bias])
    }

    fn rows_of(&self, name: &str) -> usize {
        let weight = self
            .tensors
            .get(&self.naming.tensor(&format!("{name}.weight")));
        weight
            .and_then(|weight| weight.shape.first().copied())
            .unwrap_or(0)
    }

    /// Takes the table of words, with the factor that the architecture applies to it.
    fn take_words(&mut self, name: &str) -> Result<Vec<f32>, LoadError> {
        let mut words = self.take_tensor(&format!("{name}.weight"))?;
        if self.shape.block().scaled_words {
            let factor = (self.shape.hidden as f32).sqrt();
            words.iter_mut().for_each(|value| *value *= factor);
        }
        self.check_floats(name, &words)?;
        Ok(words)
    }

    /// Takes scale and shift of a norm over all features.
    fn take_norm(&mut self, name: &str) -> Result<Pair, LoadError> {
        let scale = self.take_scale(name)?;
        let has_shift = self.shape.block().norm == NormKind::Layer && self.shape.biases.norm;
        let shift = match has_shift {
            true => self.take_tensor(&format!("{name}.bias"))?,
            false => vec![0.0; scale.len()],
        };
        Ok([scale, shift])
    }

    fn take_scale(&mut self, name: &str) -> Result<Vec<f32>, LoadError> {
        let mut scale = self.take_tensor(&format!("{name}.weight"))?;
        if self.shape.block().norm == NormKind::RmsFromOne {
            scale.iter_mut().for_each(|value| *value += 1.0);
        }
        Ok(scale)
    }

    /// Refuses weights of a product that have no value in the precision; the scales of integers are f32.
    fn check_range(&self, name: &str, values: &[f32]) -> Result<(), LoadError> {
        match self.precision {
            Precision::Int8 => Ok(()),
            _ => self.check_floats(name, values),
        }
    }

    /// Refuses values that would become infinite when rounded: f16 ends at 65,504.
    fn check_floats(&self, name: &str, values: &[f32]) -> Result<(), LoadError> {
        let precision = self.precision;
        if precision == Precision::F32 {
            return Ok(());
        }
        let largest = values.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        if Floats::can_represent(precision, largest) {
            return Ok(());
        }
        Err(LoadError::TensorRange {
            name: format!("{name}.weight"),
            largest,
            precision,
            kept: Floats::storage_precision(precision),
        })
    }

    fn take_tensor(&mut self, name: &str) -> Result<Vec<f32>, LoadError> {
        match self.tensors.remove(&self.naming.tensor(name)) {
            Some(weight) => Ok(weight.values),
            // Unreachable: `check_tensors` found every tensor.
            None => Err(LoadError::Missing {
                name: name.to_owned(),
                expected: Vec::new(),
            }),
        }
    }
}
