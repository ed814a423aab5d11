//! Candle's BERT, pooled over real tokens only and L2-normalised. Runs models for which the fused engine has no kernels, and is
//! the reference that the fused engine is tested against.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config, HiddenAct, PositionEmbeddingType};

use super::shape::{Activation, Pooling, Shape};
use super::{EncodeError, Encoder, LoadError, check_sequences};
use crate::weights::Weights;

/// Runs any BERT-family model in float32.
pub struct CandleEncoder {
    model: BertModel,
    shape: Shape,
}

impl CandleEncoder {
    /// Builds the model from `weights`, reusing their memory.
    ///
    /// # Errors
    /// [`LoadError`] if a tensor is missing or has another shape.
    pub fn new(shape: Shape, weights: Weights) -> Result<Self, LoadError> {
        shape.check_sizes()?;
        let weights = weights.into_tensors();
        let prefix = shape.check_tensors(&weights)?;
        let tensors = weights
            .into_iter()
            // Other tensors were not checked, and may have the same name without the prefix.
            .filter_map(|(name, weight)| Some((name.strip_prefix(prefix)?.to_owned(), weight)))
            // The vector becomes the tensor's storage, without a copy.
            .map(|(name, weight)| {
                let tensor = Tensor::from_vec(weight.values, weight.shape, &Device::Cpu)?;
                Ok((name, tensor))
            })
            .collect::<candle_core::Result<HashMap<_, _>>>()?;
        let builder = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        Ok(Self {
            model: BertModel::load(builder, &config(&shape))?,
            shape,
        })
    }

    fn forward(
        &self,
        group: &[usize],
        sequences: &[&[u32]],
        rows: &mut [f32],
    ) -> candle_core::Result<()> {
        let longest = group
            .iter()
            .map(|index| sequences[*index].len())
            .max()
            .unwrap_or(0);
        let mut ids = Vec::with_capacity(group.len() * longest);
        let mut mask = Vec::with_capacity(group.len() * longest);
        for index in group {
            let sequence = sequences[*index];
            ids.extend_from_slice(sequence);
            ids.resize(ids.len() + longest - sequence.len(), 0);
            mask.resize(mask.len() + sequence.len(), 1f32);
            mask.resize(mask.len() + longest - sequence.len(), 0f32);
        }
        let shape = (group.len(), longest);
        let ids = Tensor::from_vec(ids, shape, &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
        let hidden = self
            .model
            .forward(&ids, &ids.zeros_like()?, Some(&mask))?
            .flatten_all()?
            .to_vec1::<f32>()?;
        let dimension = self.shape.hidden;
        for (states, index) in hidden.chunks_exact(longest * dimension).zip(group) {
            let row = &mut rows[index * dimension..][..dimension];
            let pooled = match self.shape.pooling {
                Pooling::Mean => sequences[*index].len(),
                Pooling::First => 1,
            };
            pool(&states[..pooled * dimension], row);
        }
        Ok(())
    }
}

impl Encoder for CandleEncoder {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        check_sequences(&self.shape, sequences)?;
        let mut rows = vec![0.0; sequences.len() * self.shape.hidden];
        for group in groups(sequences) {
            self.forward(&group, sequences, &mut rows)
                .map_err(|error| EncodeError::Arithmetic(error.to_string()))?;
        }
        match rows.iter().position(|value| !value.is_finite()) {
            None => Ok(rows),
            Some(at) => Err(EncodeError::NotFinite {
                index: at / self.shape.hidden,
            }),
        }
    }

    fn cost(&self, tokens: usize) -> usize {
        self.shape.cost(tokens)
    }

    fn dimension(&self) -> usize {
        self.shape.hidden
    }

    fn max_tokens(&self) -> usize {
        self.shape.max_tokens
    }

    fn vocabulary(&self) -> usize {
        self.shape.vocabulary
    }

    fn name(&self) -> &'static str {
        "candle-f32"
    }
}

/// Converts the shape to candle's configuration; fields that do not affect a forward pass keep their defaults.
fn config(shape: &Shape) -> Config {
    Config {
        vocab_size: shape.vocabulary,
        hidden_size: shape.hidden,
        num_hidden_layers: shape.layers,
        num_attention_heads: shape.heads,
        intermediate_size: shape.feed_forward,
        hidden_act: match shape.activation {
            Activation::Gelu => HiddenAct::Gelu,
            Activation::GeluTanh => HiddenAct::GeluApproximate,
            Activation::Relu => HiddenAct::Relu,
        },
        max_position_embeddings: shape.positions,
        type_vocab_size: shape.token_types,
        layer_norm_eps: f64::from(shape.norm_epsilon),
        position_embedding_type: PositionEmbeddingType::Absolute,
        model_type: None,
        ..Config::default()
    }
}

/// Groups the positions of `sequences` by nearly equal length, so that a batch has little padding.
fn groups(sequences: &[&[u32]]) -> Vec<Vec<usize>> {
    const GROUP_TOKENS: usize = 1024;
    let mut order: Vec<_> = (0..sequences.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(sequences[*index].len()));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in order {
        let length = sequences[index].len();
        match groups.last_mut() {
            Some(group)
                if length * 8 >= sequences[group[0]].len() * 7
                    && (group.len() + 1) * sequences[group[0]].len() <= GROUP_TOKENS =>
            {
                group.push(index);
            }
            _ => groups.push(vec![index]),
        }
    }
    groups
}

/// Sums `states` and scales the sum to length one: the mean of all tokens, or one token's own state.
fn pool(states: &[f32], row: &mut [f32]) {
    for state in states.chunks_exact(row.len()) {
        for (sum, value) in row.iter_mut().zip(state) {
            *sum += value;
        }
    }
    crate::normalise(row);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::weights::Weight;

    const SHAPE: Shape = Shape {
        hidden: 8,
        heads: 2,
        layers: 2,
        feed_forward: 16,
        vocabulary: 40,
        positions: 16,
        token_types: 2,
        norm_epsilon: 1e-12,
        activation: Activation::Gelu,
        max_tokens: 12,
        pooling: Pooling::Mean,
    };

    /// Weights of `SHAPE`, different in every element.
    fn weights() -> BTreeMap<String, Weight> {
        let mut shapes = vec![
            ("embeddings.word_embeddings.weight".to_owned(), vec![40, 8]),
            (
                "embeddings.position_embeddings.weight".to_owned(),
                vec![16, 8],
            ),
            (
                "embeddings.token_type_embeddings.weight".to_owned(),
                vec![2, 8],
            ),
            ("embeddings.LayerNorm.weight".to_owned(), vec![8]),
            ("embeddings.LayerNorm.bias".to_owned(), vec![8]),
        ];
        for layer in 0..2 {
            for (name, rows, columns) in [
                ("attention.self.query", 8, 8),
                ("attention.self.key", 8, 8),
                ("attention.self.value", 8, 8),
                ("attention.output.dense", 8, 8),
                ("intermediate.dense", 16, 8),
                ("output.dense", 8, 16),
            ] {
                shapes.push((
                    format!("encoder.layer.{layer}.{name}.weight"),
                    vec![rows, columns],
                ));
                shapes.push((format!("encoder.layer.{layer}.{name}.bias"), vec![rows]));
            }
            for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
                shapes.push((format!("encoder.layer.{layer}.{name}.weight"), vec![8]));
                shapes.push((format!("encoder.layer.{layer}.{name}.bias"), vec![8]));
            }
        }
        let mut state = 1u32;
        shapes
            .into_iter()
            .map(|(name, shape)| {
                let values = (0..shape.iter().product())
                    .map(|_| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (state >> 8) as f32 / 8_388_608.0 - 1.0
                    })
                    .collect();
                (name, Weight { shape, values })
            })
            .collect()
    }

    fn build(tensors: BTreeMap<String, Weight>) -> Result<CandleEncoder, LoadError> {
        CandleEncoder::new(SHAPE, Weights::new(tensors).unwrap())
    }

    fn encoder() -> CandleEncoder {
        build(weights()).unwrap()
    }

    #[test]
    fn rows_are_unit_length_and_in_order() {
        let (short, long): (&[u32], &[u32]) = (&[2, 7, 3], &[2, 9, 8, 7, 6, 5, 4, 3]);
        let encoder = encoder();
        let both = encoder.encode(&[short, long]).unwrap();
        for row in both.chunks(8) {
            assert!((row.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-6);
        }
        assert_eq!(&both[..8], encoder.encode(&[short]).unwrap());
        assert_eq!(&both[8..], encoder.encode(&[long]).unwrap());
    }

    #[test]
    fn padding_in_a_group_changes_nothing() {
        let sequences: Vec<Vec<u32>> = (0..9)
            .map(|n| (0..8 + n % 2).map(|m| (n * 3 + m * 5) % 40).collect())
            .collect();
        let views: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
        assert_eq!(groups(&views).len(), 1, "the test must pad");
        let encoder = encoder();
        let batch = encoder.encode(&views).unwrap();
        for (row, view) in batch.chunks(8).zip(&views) {
            for (together, alone) in row.iter().zip(encoder.encode(&[view]).unwrap()) {
                assert!((together - alone).abs() < 1e-5, "{together} {alone}");
            }
        }
    }

    #[test]
    fn sequences_outside_the_limits_are_refused() {
        let encoder = encoder();
        assert!(matches!(
            encoder.encode(&[&[]]),
            Err(EncodeError::Length { index: 0, .. })
        ));
        assert!(matches!(
            encoder.encode(&[&[1], &[1; 13]]),
            Err(EncodeError::Length {
                index: 1,
                length: 13,
                max: 12
            })
        ));
        assert!(matches!(
            encoder.encode(&[&[40]]),
            Err(EncodeError::Token {
                index: 0,
                vocabulary: 40
            })
        ));
        assert!(encoder.encode(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_missing_tensor_is_named() {
        let mut tensors = weights();
        tensors.remove("encoder.layer.1.output.dense.bias");
        let error = build(tensors).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("layer.1.output.dense.bias` of shape [8]"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_shape_is_named() {
        let mut tensors = weights();
        tensors.insert(
            "embeddings.LayerNorm.bias".to_owned(),
            Weight {
                shape: vec![7],
                values: vec![0.0; 7],
            },
        );
        let error = build(tensors).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("LayerNorm.bias` is [7], expected [8]"),
            "{error}"
        );
    }

    #[test]
    fn the_prefix_of_whole_checkpoints_is_accepted() {
        let prefixed = weights()
            .into_iter()
            .map(|(name, weight)| (format!("bert.{name}"), weight))
            .collect();
        let rows = build(prefixed).unwrap().encode(&[&[1, 2]]).unwrap();
        assert_eq!(rows, encoder().encode(&[&[1, 2]]).unwrap());
    }

    #[test]
    fn tensors_without_the_prefix_do_not_replace_those_with_it() {
        let mut both: BTreeMap<_, _> = weights()
            .into_iter()
            .map(|(name, weight)| (format!("bert.{name}"), weight))
            .collect();
        for (name, mut weight) in weights() {
            weight.values.fill(0.25);
            both.insert(name, weight);
        }
        let rows = build(both).unwrap().encode(&[&[1, 2]]).unwrap();
        assert_eq!(rows, encoder().encode(&[&[1, 2]]).unwrap());
    }

    #[test]
    fn the_first_token_alone_can_be_the_embedding() {
        let shape = Shape {
            pooling: Pooling::First,
            ..SHAPE
        };
        let first = CandleEncoder::new(shape, Weights::new(weights()).unwrap()).unwrap();
        // The mean of a single token is the token.
        assert_eq!(
            first.encode(&[&[5]]).unwrap(),
            encoder().encode(&[&[5]]).unwrap()
        );
        assert_ne!(
            first.encode(&[&[5, 6]]).unwrap(),
            encoder().encode(&[&[5, 6]]).unwrap()
        );
    }
}
