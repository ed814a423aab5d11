//! The portable engine: candle's BERT, mean pooling over real tokens, L2 normalisation.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};

use super::{EncodeError, Encoder, check_sequences};
use crate::model::Weights;

/// Runs any BERT-family model in float32.
pub struct CandleEncoder {
    model: BertModel,
    dimension: usize,
    max_tokens: usize,
    vocabulary: usize,
}

impl CandleEncoder {
    /// Builds the model described by `architecture` (a `config.json`) out of `weights`, whose memory it takes over.
    ///
    /// # Errors
    /// [`LoadError`] where the description is unsupported, or a tensor is missing or has another shape.
    pub fn new(
        architecture: &[u8],
        weights: Weights,
        max_tokens: usize,
    ) -> Result<Self, LoadError> {
        let config: Config = serde_json::from_slice(architecture)
            .map_err(|error| LoadError::Config(error.to_string()))?;
        if config.num_attention_heads == 0
            || !config
                .hidden_size
                .is_multiple_of(config.num_attention_heads)
        {
            return Err(LoadError::Config(format!(
                "hidden_size {} is no multiple of num_attention_heads {}",
                config.hidden_size, config.num_attention_heads
            )));
        }
        if max_tokens == 0 || max_tokens > config.max_position_embeddings {
            return Err(LoadError::Config(format!(
                "max_seq_length {max_tokens} is outside 1..=max_position_embeddings {}",
                config.max_position_embeddings
            )));
        }
        let tensors = weights
            .into_tensors()
            .into_iter()
            // The vector becomes the tensor's storage: nothing is copied.
            .map(|(name, weight)| {
                Ok((
                    name,
                    Tensor::from_vec(weight.values, weight.shape, &Device::Cpu)?,
                ))
            })
            .collect::<candle_core::Result<HashMap<_, _>>>()?;
        let model = BertModel::load(
            VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu),
            &config,
        )?;
        Ok(Self {
            model,
            dimension: config.hidden_size,
            max_tokens,
            vocabulary: config.vocab_size,
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
        for (states, index) in hidden.chunks_exact(longest * self.dimension).zip(group) {
            let row = &mut rows[index * self.dimension..][..self.dimension];
            pool(&states[..sequences[*index].len() * self.dimension], row);
        }
        Ok(())
    }
}

impl Encoder for CandleEncoder {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        check_sequences(self, sequences)?;
        let mut rows = vec![0.0; sequences.len() * self.dimension];
        for group in groups(sequences) {
            self.forward(&group, sequences, &mut rows)
                .map_err(|error| EncodeError::Arithmetic(error.to_string()))?;
        }
        Ok(rows)
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn name(&self) -> &'static str {
        "candle-f32"
    }
}

/// Why a model could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The architecture is not one that this engine computes.
    #[error("ENGINE_CONFIG_UNSUPPORTED: config.json: {0}")]
    Config(String),
    /// A tensor is missing or has another shape.
    #[error("ENGINE_TENSOR_INVALID: {0}; the weights do not belong to config.json")]
    Tensor(#[from] candle_core::Error),
}

/// Positions of `sequences` in groups of nearly equal length, so that little of a batch is padding.
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

/// Mean over the tokens of `states`, scaled to length one.
fn pool(states: &[f32], row: &mut [f32]) {
    for state in states.chunks_exact(row.len()) {
        for (sum, value) in row.iter_mut().zip(state) {
            *sum += value;
        }
    }
    // Scaling to length one makes the division by the number of tokens redundant.
    normalise(row);
}

/// Scales `row` to Euclidean length one; a zero row stays zero.
pub(crate) fn normalise(row: &mut [f32]) {
    let length = row
        .iter()
        .map(|value| f64::from(*value).powi(2))
        .sum::<f64>()
        .sqrt();
    if length > 0.0 {
        let scale = (1.0 / length) as f32;
        for value in row {
            *value *= scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Weight;

    const CONFIG: &str = r#"{"vocab_size":40,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":16,"hidden_act":"gelu","hidden_dropout_prob":0.1,"max_position_embeddings":16,"type_vocab_size":2,"initializer_range":0.02,"layer_norm_eps":1e-12,"pad_token_id":0}"#;

    /// Weights of the shape of `CONFIG`, different in every element.
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

    fn encoder() -> CandleEncoder {
        CandleEncoder::new(CONFIG.as_bytes(), Weights::new(weights()), 12).unwrap()
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
        let Err(error) = CandleEncoder::new(CONFIG.as_bytes(), Weights::new(tensors), 12) else {
            panic!("accepted")
        };
        assert!(
            error.to_string().contains("layer.1.output.dense.bias"),
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
        let Err(error) = CandleEncoder::new(CONFIG.as_bytes(), Weights::new(tensors), 12) else {
            panic!("accepted")
        };
        assert!(error.to_string().contains("LayerNorm.bias"), "{error}");
    }

    #[test]
    fn unsupported_architectures_are_refused() {
        for (from, to) in [
            ("\"gelu\"", "\"swish\""),
            ("\"num_attention_heads\":2", "\"num_attention_heads\":3"),
            (
                "\"max_position_embeddings\":16",
                "\"max_position_embeddings\":8",
            ),
        ] {
            let config = CONFIG.replace(from, to);
            assert!(
                matches!(
                    CandleEncoder::new(config.as_bytes(), Weights::new(weights()), 12),
                    Err(LoadError::Config(_))
                ),
                "{to}"
            );
        }
    }
}
