//! Candle's BERT, pooled over real tokens only. Runs models for which the fused engine has no kernels, and is the reference that
//! the fused engine is tested against.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config, HiddenAct, PositionEmbeddingType};

use super::fused::source::{Pair, Source};
use super::shape::{Activation, Pooling, Shape};
use super::{Architecture, EncodeError, Encoder, Head, LoadError, Precision, check_sequences};
use crate::weights::Weights;

/// Runs BERT and DistilBERT of any size in float32.
pub struct CandleEncoder {
    model: BertModel,
    shape: Shape,
    head: Head,
}

/// Returns why Candle's BERT does not run this shape; `None` if it does.
fn unsupported(shape: &Shape) -> Option<&'static str> {
    if !matches!(
        shape.architecture,
        Architecture::Bert | Architecture::DistilBert
    ) {
        return Some("its architecture is not BERT's");
    }
    if shape.padding().is_some() {
        return Some("its positions depend on padding tokens");
    }
    if shape.activation == Activation::Silu {
        return Some("its activation is silu");
    }
    None
}

/// The tensors under the names of Candle's BERT; a model without token types gets one of zeros.
fn tensors(shape: &Shape, source: Source) -> candle_core::Result<HashMap<String, Tensor>> {
    let hidden = shape.hidden;
    let mut tensors = HashMap::new();
    // The vector becomes the tensor's storage, without a copy.
    let mut add = |name: String, values: Vec<f32>, dimensions: &[usize]| {
        tensors.insert(name, Tensor::from_vec(values, dimensions, &Device::Cpu)?);
        candle_core::Result::Ok(())
    };
    let mut add_pair = |name: &str, [weights, bias]: Pair, inputs: Option<usize>| {
        let outputs = bias.len();
        match inputs {
            Some(inputs) => add(format!("{name}.weight"), weights, &[outputs, inputs])?,
            None => add(format!("{name}.weight"), weights, &[outputs])?,
        }
        add(format!("{name}.bias"), bias, &[outputs])
    };
    for (number, layer) in source.layers.into_iter().enumerate() {
        for (part, pair, inputs) in [
            ("attention.self.query", Some(layer.query), Some(hidden)),
            ("attention.self.key", Some(layer.key), Some(hidden)),
            ("attention.self.value", Some(layer.value), Some(hidden)),
            (
                "attention.output.dense",
                Some(layer.attention_output),
                Some(hidden),
            ),
            ("attention.output.LayerNorm", layer.after_attention, None),
            ("intermediate.dense", Some(layer.up), Some(hidden)),
            ("output.dense", Some(layer.down), Some(shape.feed_forward)),
            ("output.LayerNorm", layer.after_feed_forward, None),
        ] {
            if let Some(pair) = pair {
                add_pair(&format!("encoder.layer.{number}.{part}"), pair, inputs)?;
            }
        }
    }
    if let Some(norm) = source.embedding_norm {
        add_pair("embeddings.LayerNorm", norm, None)?;
    }
    let mut add_table = |table: &str, values: Vec<f32>| {
        let rows = values.len() / hidden;
        add(
            format!("embeddings.{table}_embeddings.weight"),
            values,
            &[rows, hidden],
        )
    };
    add_table("word", source.words)?;
    let mut positions = source.positions.unwrap_or_default();
    add_table(
        "position",
        positions.split_off(shape.first_position * hidden),
    )?;
    add_table(
        "token_type",
        source.token_type.unwrap_or_else(|| vec![0.0; hidden]),
    )?;
    Ok(tensors)
}

impl CandleEncoder {
    /// Builds the model from `weights`, reusing their memory. Embeddings have unit length.
    ///
    /// # Errors
    /// [`LoadError`] if a tensor is missing or has another shape.
    pub fn new(shape: Shape, weights: Weights) -> Result<Self, LoadError> {
        Self::with_head(shape, Head::unit(shape.hidden, shape.pooling), weights)
    }

    /// Like [`new`](Self::new), with steps of a model after its encoder.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_head(shape: Shape, head: Head, weights: Weights) -> Result<Self, LoadError> {
        shape.check_sizes()?;
        head.check(shape.hidden)?;
        if let Some(reason) = unsupported(&shape) {
            return Err(LoadError::CandleShape { reason });
        }
        let source = Source::take(weights, &shape, Precision::F32)?;
        let tensors = tensors(&shape, source)?;
        let builder = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        Ok(Self {
            model: BertModel::load(builder, &config(&shape))?,
            shape,
            head,
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
        let (features, dimension) = (self.shape.hidden, self.head.dimension());
        let mut pooled = Vec::with_capacity(self.head.width());
        for (states, index) in hidden.chunks_exact(longest * features).zip(group) {
            let states = &states[..sequences[*index].len() * features];
            pooled.clear();
            for pooling in self.head.poolings() {
                pool(states, features, *pooling, &mut pooled);
            }
            self.head
                .apply(&pooled, &mut rows[index * dimension..][..dimension]);
        }
        Ok(())
    }
}

impl Encoder for CandleEncoder {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        check_sequences(&self.shape, sequences)?;
        let mut rows = vec![0.0; sequences.len() * self.head.dimension()];
        for group in groups(sequences) {
            self.forward(&group, sequences, &mut rows)
                .map_err(|error| EncodeError::Arithmetic(error.to_string()))?;
        }
        match rows.iter().position(|value| !value.is_finite()) {
            None => Ok(rows),
            Some(at) => Err(EncodeError::NotFinite {
                index: at / self.head.dimension(),
            }),
        }
    }

    fn cost(&self, tokens: usize) -> usize {
        self.shape.cost(tokens)
    }

    fn dimension(&self) -> usize {
        self.head.dimension()
    }

    fn is_normalised(&self) -> bool {
        self.head.is_normalised()
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
            Activation::GeluTanh => HiddenAct::GeluApproximate,
            Activation::Relu => HiddenAct::Relu,
            // `unsupported` refuses any other.
            _ => HiddenAct::Gelu,
        },
        max_position_embeddings: shape.positions,
        type_vocab_size: 1,
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

/// Adds the pooled row of one sequence's states to `row`.
fn pool(states: &[f32], features: usize, pooling: Pooling, row: &mut Vec<f32>) {
    let count = (states.len() / features) as f32;
    let chosen = match pooling {
        Pooling::First => &states[..features],
        Pooling::Last => &states[states.len() - features..],
        _ => states,
    };
    let start = row.len();
    let initial = if pooling == Pooling::Max {
        f32::NEG_INFINITY
    } else {
        0.0
    };
    row.resize(start + features, initial);
    let row = &mut row[start..];
    for (place, state) in chosen.chunks_exact(features).enumerate() {
        for (pooled, value) in row.iter_mut().zip(state) {
            match pooling {
                Pooling::Max => *pooled = pooled.max(*value),
                Pooling::WeightedMean => *pooled += (place + 1) as f32 * value,
                _ => *pooled += value,
            }
        }
    }
    let divisor = match pooling {
        Pooling::Mean => count,
        Pooling::MeanOfRoot => count.sqrt(),
        Pooling::WeightedMean => count * (count + 1.0) / 2.0,
        Pooling::First | Pooling::Last | Pooling::Max => 1.0,
    };
    row.iter_mut().for_each(|value| *value /= divisor);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::weights::Weight;
    use crate::{Attention, Biases, Rotary};

    const SHAPE: Shape = Shape {
        architecture: Architecture::Bert,
        hidden: 8,
        heads: 2,
        key_value_heads: 2,
        head: 4,
        layers: 2,
        feed_forward: 16,
        vocabulary: 40,
        positions: 16,
        first_position: 0,
        token_types: 2,
        norm_epsilon: 1e-12,
        activation: Activation::Gelu,
        biases: Biases::ALL,
        attention: Attention::FULL,
        rotary: Rotary::UNUSED,
        query_scale: 0.5,
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
