//! A model's shape, from its `config.json`, and whether the weights match it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::LoadError;
use crate::weights::Weight;

/// A BERT encoder with absolute positions and layer normalisation after each residual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// `hidden_size`: features of a token, and length of an embedding. A multiple of `heads`.
    pub hidden: usize,
    /// `num_attention_heads`
    pub heads: usize,
    /// `num_hidden_layers`
    pub layers: usize,
    /// `intermediate_size`
    pub feed_forward: usize,
    /// `vocab_size`
    pub vocabulary: usize,
    /// `max_position_embeddings`
    pub positions: usize,
    /// `type_vocab_size`; only type 0 is used.
    pub token_types: usize,
    /// `layer_norm_eps`
    pub norm_epsilon: f32,
    /// `hidden_act`
    pub activation: Activation,
    /// Longest sequence in tokens, special tokens included; at most `positions`.
    pub max_tokens: usize,
    /// How rows are combined into one embedding.
    pub pooling: Pooling,
}

/// Activation function of the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x Φ(x), Φ the normal distribution function: `gelu`.
    Gelu,
    /// Its approximation by tanh: `gelu_new`, `gelu_pytorch_tanh`.
    GeluTanh,
    /// max(0, x): `relu`.
    Relu,
}

/// Rows of the last layer that form the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all tokens (sentence-transformers' `pooling_mode_mean_tokens`).
    Mean,
    /// The first token (`pooling_mode_cls_token`).
    First,
}

/// The members of `config.json` that affect the computation.
#[derive(Deserialize)]
struct Description {
    hidden_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f32,
    hidden_act: String,
    model_type: Option<String>,
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

impl Shape {
    /// Parses Hugging Face's BERT configuration.
    ///
    /// # Errors
    /// [`LoadError::Config`] names the member, its value and the supported values.
    pub fn parse(config: &[u8], max_tokens: usize, pooling: Pooling) -> Result<Self, LoadError> {
        let config: Description =
            serde_json::from_slice(config).map_err(|error| LoadError::Config(error.to_string()))?;
        let activation = match config.hidden_act.as_str() {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            other => {
                return Err(LoadError::Config(format!(
                    "hidden_act `{}` is unknown, expected gelu, gelu_new, gelu_pytorch_tanh or relu",
                    other.escape_default()
                )));
            }
        };
        for (member, observed, expected) in [
            ("model_type", &config.model_type, "bert"),
            (
                "position_embedding_type",
                &config.position_embedding_type,
                "absolute",
            ),
        ] {
            if observed.as_ref().is_some_and(|found| found != expected) {
                return Err(LoadError::Config(format!("{member} must be `{expected}`")));
            }
        }
        if config.is_decoder {
            return Err(LoadError::Config(
                "is_decoder must be false: an encoder sees the whole text".to_owned(),
            ));
        }
        let shape = Self {
            hidden: config.hidden_size,
            heads: config.num_attention_heads,
            layers: config.num_hidden_layers,
            feed_forward: config.intermediate_size,
            vocabulary: config.vocab_size,
            positions: config.max_position_embeddings,
            token_types: config.type_vocab_size,
            norm_epsilon: config.layer_norm_eps,
            activation,
            max_tokens,
            pooling,
        };
        shape.check_sizes()?;
        Ok(shape)
    }

    /// Features of one attention head.
    pub(super) fn head(&self) -> usize {
        self.hidden / self.heads
    }

    /// Floating-point operations of the matrix products for a sequence of `tokens` tokens.
    #[must_use]
    pub fn flops(&self, tokens: usize) -> u64 {
        let (hidden, wide) = (self.hidden as u64, self.feed_forward as u64);
        let tokens = tokens as u64;
        let token = 4 * hidden * hidden + 2 * hidden * wide;
        2 * self.layers as u64 * (token * tokens + 2 * hidden * tokens * tokens)
    }

    /// Cost of a sequence of `tokens` tokens, in units of a short sequence's token: products grow with the length, attention with
    /// its square.
    pub(super) fn cost(&self, tokens: usize) -> usize {
        // A layer multiplies 4 h² + 2 h w times per token, and 2 h times per pair of tokens.
        tokens + tokens * tokens / (2 * self.hidden + self.feed_forward)
    }

    /// Refuses sizes that contradict each other or could overflow in products.
    pub(super) fn check_sizes(&self) -> Result<(), LoadError> {
        let sizes = [
            ("hidden_size", self.hidden, MOST),
            ("num_attention_heads", self.heads, MOST),
            ("num_hidden_layers", self.layers, MOST_LAYERS),
            ("intermediate_size", self.feed_forward, MOST),
            ("vocab_size", self.vocabulary, MOST),
            ("max_position_embeddings", self.positions, MOST_POSITIONS),
            ("type_vocab_size", self.token_types, MOST),
            ("max_seq_length", self.max_tokens, MOST_POSITIONS),
        ];
        for (member, size, most) in sizes {
            if !(1..=most).contains(&size) {
                return Err(LoadError::Config(format!(
                    "{member} is {size}, expected 1 to {most}"
                )));
            }
        }
        if !self.hidden.is_multiple_of(self.heads) {
            return Err(LoadError::Config(format!(
                "hidden_size {} is not a multiple of num_attention_heads {}",
                self.hidden, self.heads
            )));
        }
        if self.max_tokens > self.positions {
            return Err(LoadError::Config(format!(
                "max_seq_length {} is above max_position_embeddings {}",
                self.max_tokens, self.positions
            )));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            return Err(LoadError::Config(
                "layer_norm_eps is not a positive number".to_owned(),
            ));
        }
        Ok(())
    }

    /// Compares the tensors with those implied by this shape; returns the prefix of their names, `bert.` or empty.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor, what was expected and what was found.
    pub(super) fn check_tensors(
        &self,
        tensors: &BTreeMap<String, Weight>,
    ) -> Result<&'static str, LoadError> {
        let prefix = if tensors.contains_key("bert.embeddings.word_embeddings.weight") {
            "bert."
        } else {
            ""
        };
        for (name, expected) in self.tensors() {
            let Some(weight) = tensors.get(&format!("{prefix}{name}")) else {
                return Err(LoadError::Missing { name, expected });
            };
            if weight.shape != expected {
                return Err(LoadError::TensorShape {
                    name,
                    expected,
                    observed: weight.shape.clone(),
                });
            }
        }
        Ok(prefix)
    }

    /// Name without prefix, and dimensions, of every tensor that an encoder of this shape needs.
    #[must_use]
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (hidden, wide) = (self.hidden, self.feed_forward);
        let mut tensors = Vec::new();
        for (table, rows) in [
            ("word", self.vocabulary),
            ("position", self.positions),
            ("token_type", self.token_types),
        ] {
            let name = format!("embeddings.{table}_embeddings.weight");
            tensors.push((name, vec![rows, hidden]));
        }
        let mut add = |name: &str, dimensions: &[usize]| {
            tensors.push((format!("{name}.weight"), dimensions.to_vec()));
            tensors.push((format!("{name}.bias"), dimensions[..1].to_vec()));
        };
        add("embeddings.LayerNorm", &[hidden]);
        for layer in 0..self.layers {
            for (part, dimensions) in [
                ("attention.self.query", &[hidden, hidden][..]),
                ("attention.self.key", &[hidden, hidden]),
                ("attention.self.value", &[hidden, hidden]),
                ("attention.output.dense", &[hidden, hidden]),
                ("attention.output.LayerNorm", &[hidden]),
                ("intermediate.dense", &[wide, hidden]),
                ("output.dense", &[hidden, wide]),
                ("output.LayerNorm", &[hidden]),
            ] {
                add(&format!("encoder.layer.{layer}.{part}"), dimensions);
            }
        }
        tensors
    }
}

/// Keeps products of two sizes far below overflow.
const MOST: usize = 1 << 20;

/// Far more than any model has: the list of tensors is created before the first is looked up.
const MOST_LAYERS: usize = 1 << 10;

/// Far more than any model has: memory for a text of that length is allocated in advance.
const MOST_POSITIONS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"vocab_size":40,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":16,"hidden_act":"gelu","max_position_embeddings":16,"type_vocab_size":2,"layer_norm_eps":1e-12,"model_type":"bert","architectures":["BertModel"]}"#;

    fn parse(config: &str) -> Result<Shape, LoadError> {
        Shape::parse(config.as_bytes(), 12, Pooling::Mean)
    }

    #[test]
    fn a_configuration_is_read() {
        let shape = parse(CONFIG).unwrap();
        assert_eq!((shape.head(), shape.norm_epsilon), (4, 1e-12));
        for (name, activation) in [
            ("gelu_new", Activation::GeluTanh),
            ("gelu_pytorch_tanh", Activation::GeluTanh),
            ("relu", Activation::Relu),
        ] {
            let shape = parse(&CONFIG.replace("\"gelu\"", &format!("\"{name}\""))).unwrap();
            assert_eq!(shape.activation, activation);
        }
    }

    #[test]
    fn long_sequences_cost_more_than_their_length() {
        let shape = Shape {
            hidden: 384,
            feed_forward: 1536,
            ..parse(CONFIG).unwrap()
        };
        let six = Shape { layers: 6, ..shape };
        assert_eq!(six.flops(1), 21_233_664 + 9_216);
        assert_eq!([1, 9, 128, 256].map(|n| shape.cost(n)), [1, 9, 135, 284]);
    }

    #[test]
    fn an_unsupported_value_is_named() {
        for (from, to, named) in [
            ("\"gelu\"", "\"swish\"", "hidden_act `swish`"),
            ("_heads\":2", "_heads\":3", "num_attention_heads 3"),
            ("_heads\":2", "_heads\":0", "num_attention_heads is 0"),
            ("_embeddings\":16", "_embeddings\":8", "max_seq_length 12"),
            (
                "_embeddings\":16",
                "_embeddings\":65537",
                "max_position_embeddings is 65537",
            ),
            (
                "_layers\":2",
                "_layers\":1025",
                "num_hidden_layers is 1025, expected 1 to 1024",
            ),
            ("size\":40", "size\":1099511627776", "vocab_size is"),
            ("1e-12", "0", "layer_norm_eps"),
            ("\"bert\"", "\"roberta\"", "model_type"),
            (
                "\"model_type\"",
                "\"position_embedding_type\":\"relative_key\",\"model_type\"",
                "position_embedding_type",
            ),
            (
                "\"model_type\"",
                "\"is_decoder\":true,\"model_type\"",
                "is_decoder",
            ),
            ("\"hidden_size\":8,", "", "hidden_size"),
        ] {
            let changed = CONFIG.replace(from, to);
            assert_ne!(changed, CONFIG, "{from}");
            let error = parse(&changed).err().unwrap();
            assert_eq!(error.code(), "ENGINE_CONFIG_UNSUPPORTED");
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
