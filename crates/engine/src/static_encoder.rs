//! Static embeddings: the mean of a table's rows, without an encoder.

use zeroize::Zeroizing;

use crate::weights::{Weight, Weights};
use crate::{EncodeError, Encoder, Head, HeadStep, LoadError, Pooling};

/// A table of words, whose rows are averaged.
pub struct StaticEncoder {
    /// [rows][features]
    words: Vec<f32>,
    /// The row of each token; `None` where each token has its own.
    mapping: Option<Vec<u32>>,
    /// The factor of each token; `None` where all are one.
    factors: Option<Vec<f32>>,
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
        let named = tensors.remove("embedding.weight");
        if named.is_some() {
            // The library then reads nothing else.
            tensors.clear();
        }
        let table = named.or_else(|| tensors.remove("embeddings"));
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
        head.check(features)?;
        let mapping = tensors.remove("mapping");
        let mapping = mapping.map(|mapping| read_mapping(&mapping.values, rows));
        let mapping = mapping.transpose()?;
        let factors = tensors.remove("weights");
        let tokens = mapping.as_ref().map_or(rows, Vec::len);
        if let Some(factors) = factors
            .as_ref()
            .filter(|factors| factors.values.len() != tokens)
        {
            return Err(shape_error("weights", &[tokens], factors));
        }
        Ok(Self {
            words: table.values,
            mapping,
            factors: factors.map(|factors| factors.values),
            head,
            max_tokens,
        })
    }
}

/// The rows of tokens, which `Weights` holds as floats.
fn read_mapping(values: &[f32], rows: usize) -> Result<Vec<u32>, LoadError> {
    /// From here on, f32 lacks whole numbers.
    const MOST: usize = 1 << f32::MANTISSA_DIGITS;
    if rows > MOST {
        return Err(LoadError::Config(format!(
            "a mapping has at most {MOST} rows, the table has {rows}"
        )));
    }
    let rows_of_tokens = values.iter().map(|row| {
        let index = *row as u32;
        let found = index as f32 == *row && (index as usize) < rows;
        found.then_some(index).ok_or_else(|| {
            LoadError::Config(format!("mapping has row {row}, the table has {rows}"))
        })
    });
    rows_of_tokens.collect()
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
        let mut pooled = Zeroizing::new(vec![0.0; width]);
        for (out, sequence) in rows.chunks_exact_mut(dimension).zip(sequences) {
            pooled.fill(0.0);
            for token in *sequence {
                let token = *token as usize;
                let row = self.mapping.as_ref();
                let row = row.map_or(token, |mapping| mapping[token] as usize);
                let factor = self.factors.as_ref().map_or(1.0, |factors| factors[token]);
                for (sum, value) in pooled.iter_mut().zip(&self.words[row * width..]) {
                    *sum += value * factor;
                }
            }
            // A text without a token has no direction: its row is zero.
            let share = 1.0 / sequence.len().max(1) as f32;
            pooled.iter_mut().for_each(|value| *value *= share);
            self.head.apply(&pooled, out);
        }
        match rows.iter().position(|value| !value.is_finite()) {
            None => Ok(rows),
            Some(at) => Err(EncodeError::NotFinite {
                index: at / dimension,
            }),
        }
    }

    /// A row of a table costs far less than a token of an encoder.
    fn cost(&self, tokens: usize) -> usize {
        tokens.div_ceil(64).max(1)
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
        let rows = self.words.len() / self.head.width();
        self.mapping.as_ref().map_or(rows, Vec::len)
    }

    fn name(&self) -> &'static str {
        "static-f32"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn encoder(tensors: &[(&str, &[usize], &[f32])]) -> Result<StaticEncoder, LoadError> {
        let tensors = tensors.iter().map(|(name, shape, values)| {
            let weight = Weight {
                shape: shape.to_vec(),
                values: values.to_vec(),
            };
            ((*name).to_owned(), weight)
        });
        let weights = Weights::new(BTreeMap::from_iter(tensors))?;
        StaticEncoder::new(weights, Vec::new(), 8)
    }

    const TABLE: [f32; 4] = [1.0, 2.0, 3.0, 4.0];

    #[test]
    fn tokens_share_rows_with_factors() {
        let tensors: [(&str, &[usize], &[f32]); 3] = [
            ("embeddings", &[2, 2], &TABLE),
            ("mapping", &[3], &[1.0, 0.0, 1.0]),
            ("weights", &[3], &[1.0, 2.0, 0.5]),
        ];
        let shared = encoder(&tensors).unwrap();
        assert_eq!(shared.vocabulary(), 3);
        let rows = shared.encode(&[&[0], &[1], &[1, 2]]).unwrap();
        assert_eq!(rows, [3.0, 4.0, 2.0, 4.0, 1.75, 3.0]);
        // Under the library's own name, a table is all that is read.
        let named = ("embedding.weight", &[2, 2][..], &TABLE[..]);
        let own = encoder(&[named, tensors[1], tensors[2]]).unwrap();
        assert_eq!(own.encode(&[&[0], &[1]]).unwrap(), TABLE);
    }

    #[test]
    fn rows_outside_the_table_are_refused() {
        for row in [-1.0, 0.5, 2.0, 9.3e18, f32::MAX] {
            let table = ("embeddings", &[2, 2][..], &TABLE[..]);
            let error = encoder(&[table, ("mapping", &[1], &[row])]).err().unwrap();
            let expected = format!("config.json: mapping has row {row}, the table has 2");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn sums_that_overflow_are_refused() {
        let huge = encoder(&[("embedding.weight", &[2, 1], &[1.0, f32::MAX])]).unwrap();
        let error = huge.encode(&[&[0], &[1, 1]]).err().unwrap();
        assert!(matches!(error, EncodeError::NotFinite { index: 1 }));
    }

    #[test]
    fn a_text_without_a_token_costs_something() {
        let encoder = encoder(&[("embedding.weight", &[2, 2], &TABLE)]).unwrap();
        assert_eq!(
            [0, 1, 64, 65].map(|tokens| encoder.cost(tokens)),
            [1, 1, 1, 2]
        );
    }
}
