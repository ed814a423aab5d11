//! Static embeddings: the mean of a table's rows, without an encoder.

use crate::weights::{Weight, Weights};
use crate::{EncodeError, Encoder, Head, HeadStep, LoadError, Pooling};

/// A table of words, whose rows are averaged.
pub struct StaticEncoder {
    /// [vocabulary][features]
    words: Vec<f32>,
    head: Head,
    max_tokens: usize,
}

impl StaticEncoder {
    /// Takes the table: sentence-transformers' `embedding.weight`, or model2vec's `embeddings` with its `mapping` of tokens to rows
    /// and `weights` of tokens.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor that is missing or has another shape.
    pub fn new(
        weights: Weights,
        steps: Vec<HeadStep>,
        max_tokens: usize,
    ) -> Result<Self, LoadError> {
        let mut tensors = weights.into_tensors();
        let table = tensors
            .remove("embedding.weight")
            .or_else(|| tensors.remove("embeddings"));
        let table = table.ok_or_else(|| LoadError::Missing {
            name: "embedding.weight".to_owned(),
            expected: Vec::new(),
        })?;
        let [rows, features] = table.shape[..] else {
            return Err(shape_error("embedding.weight", &[0, 0], &table));
        };
        if rows == 0 || features == 0 {
            return Err(shape_error("embedding.weight", &[1, 1], &table));
        }
        let head = Head::new(features, vec![Pooling::Mean], steps);
        head.check()?;
        let mut words = table.values;
        if let Some(mapping) = tensors.remove("mapping") {
            let mut mapped = Vec::with_capacity(mapping.values.len() * features);
            for row in &mapping.values {
                let start = *row as usize * features;
                let row = words.get(start..start + features).ok_or_else(|| {
                    LoadError::Config(format!("mapping has row {row}, the table has {rows}"))
                })?;
                mapped.extend_from_slice(row);
            }
            words = mapped;
        }
        if let Some(factors) = tensors.remove("weights") {
            let tokens = words.len() / features;
            if factors.values.len() != tokens {
                return Err(shape_error("weights", &[tokens], &factors));
            }
            for (row, factor) in words.chunks_exact_mut(features).zip(&factors.values) {
                row.iter_mut().for_each(|value| *value *= factor);
            }
        }
        Ok(Self {
            words,
            head,
            max_tokens,
        })
    }
}

fn shape_error(name: &str, expected: &[usize], weight: &Weight) -> LoadError {
    LoadError::TensorShape {
        name: name.to_owned(),
        expected: expected.to_vec(),
        observed: weight.shape.clone(),
    }
}

impl Encoder for StaticEncoder {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        let (width, dimension) = (self.head.width(), self.head.dimension());
        crate::check_tokens(0..=self.max_tokens, self.vocabulary(), sequences)?;
        let mut rows = vec![0.0; sequences.len() * dimension];
        let mut pooled = vec![0.0; width];
        for (out, sequence) in rows.chunks_exact_mut(dimension).zip(sequences) {
            pooled.fill(0.0);
            for token in *sequence {
                let row = &self.words[*token as usize * width..][..width];
                for (sum, value) in pooled.iter_mut().zip(row) {
                    *sum += value;
                }
            }
            // A text without a token has no direction: its row is zero.
            let share = 1.0 / sequence.len().max(1) as f32;
            pooled.iter_mut().for_each(|value| *value *= share);
            self.head.apply(&pooled, out);
        }
        Ok(rows)
    }

    /// A row of a table costs far less than a token of an encoder.
    fn cost(&self, tokens: usize) -> usize {
        tokens.div_ceil(64)
    }

    fn dimension(&self) -> usize {
        self.head.dimension()
    }

    fn is_normalised(&self) -> bool {
        self.head.is_normalised()
    }

    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn vocabulary(&self) -> usize {
        self.words.len() / self.head.width()
    }

    fn name(&self) -> &'static str {
        "static-f32"
    }
}
