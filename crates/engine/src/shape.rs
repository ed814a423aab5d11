//! A model's shape: its architecture and sizes, and the tensors that these imply.

use std::collections::BTreeMap;

use super::LoadError;
use crate::architecture::{Architecture, Block, Names, NormKind, Positions, Rows};
use crate::weights::Weight;

/// An encoder: an architecture and its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// How its layers are built.
    pub architecture: Architecture,
    /// `hidden_size`: features of a token.
    pub hidden: usize,
    /// `num_attention_heads`
    pub heads: usize,
    /// `num_key_value_heads`: divides `heads`; several heads of queries share one of keys and values.
    pub key_value_heads: usize,
    /// `head_dim`: features of a head.
    pub head: usize,
    /// `num_hidden_layers`
    pub layers: usize,
    /// `intermediate_size`
    pub feed_forward: usize,
    /// `vocab_size`
    pub vocabulary: usize,
    /// `max_position_embeddings`: rows of the table of positions where there is one.
    pub positions: usize,
    /// Row of the table that belongs to the first token. The row before it, if there is one, belongs to padding tokens, whose id
    /// is that row's number: they are not counted where a text holds them.
    pub first_position: usize,
    /// `type_vocab_size`; only type 0 is used. Zero where the architecture has none.
    pub token_types: usize,
    /// `layer_norm_eps`
    pub norm_epsilon: f32,
    /// `hidden_act`
    pub activation: Activation,
    /// Which tensors have a bias.
    pub biases: Biases,
    /// Tokens that a token attends to.
    pub attention: Attention,
    /// Frequencies of rotary positions; not used with a table.
    pub rotary: Rotary,
    /// Factor of the products of queries and keys: one over the root of `head` in most models.
    pub query_scale: f32,
    /// Longest sequence in tokens, special tokens included.
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
    /// x / (1 + e^−x): `silu`, `swish`.
    Silu,
}

/// Which tensors have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    /// Those of attention.
    pub attention: bool,
    /// Those of the feed-forward network.
    pub feed_forward: bool,
    /// Layer norms.
    pub norm: bool,
}

impl Biases {
    /// Every tensor has one, as in BERT.
    pub const ALL: Self = Self {
        attention: true,
        feed_forward: true,
        norm: true,
    };
}

/// Tokens that a token attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// None after itself.
    pub causal: bool,
    /// In some layers, only near ones.
    pub local: Option<Local>,
}

impl Attention {
    /// Every token attends to all.
    pub const FULL: Self = Self {
        causal: false,
        local: None,
    };
}

/// Layers with local attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Largest distance of two tokens that attend to each other.
    pub reach: usize,
    /// One layer of this many is not local: that whose number, from 0, leaves the remainder `full`.
    pub every: usize,
    /// See `every`.
    pub full: usize,
}

/// Frequencies of rotary positions: `rope_theta`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// In layers with full attention.
    pub theta: f32,
    /// In layers with local attention.
    pub local_theta: f32,
}

impl Rotary {
    /// For architectures with a table of positions.
    pub const UNUSED: Self = Self {
        theta: 1.0,
        local_theta: 1.0,
    };
}

/// Rows of the last layer that form the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all tokens (sentence-transformers' `mean`).
    Mean,
    /// The first token (`cls`).
    First,
    /// The last token (`lasttoken`).
    Last,
    /// The largest value of each feature (`max`).
    Max,
    /// The sum of all tokens over the root of their number (`mean_sqrt_len_tokens`).
    MeanOfRoot,
    /// The mean of all tokens, each weighted by its position from 1 (`weightedmean`).
    WeightedMean,
}

impl Shape {
    pub(crate) fn block(&self) -> Block {
        self.architecture.block()
    }

    /// Features of all heads of queries.
    pub(crate) fn queries(&self) -> usize {
        self.heads * self.head
    }

    /// Features of all heads of keys, and of values.
    pub(crate) fn keys(&self) -> usize {
        self.key_value_heads * self.head
    }

    /// How far a layer's tokens attend; `None` where they attend to all.
    pub(crate) fn reach(&self, layer: usize) -> Option<usize> {
        let local = self.attention.local?;
        (layer % local.every != local.full).then_some(local.reach)
    }

    /// The token that gets the row of positions before the first token's.
    pub(crate) fn padding(&self) -> Option<u32> {
        let row = self.first_position.checked_sub(1)?;
        u32::try_from(row).ok()
    }

    /// Floating-point operations of the matrix products for a sequence of `tokens` tokens.
    #[must_use]
    pub fn flops(&self, tokens: usize) -> u64 {
        let tokens = tokens as u64;
        let (token, pair) = self.products();
        let attention = (pair as u64 * tokens).saturating_mul(tokens);
        let layer = (token as u64).saturating_mul(tokens);
        (2 * self.layers as u64).saturating_mul(layer.saturating_add(attention))
    }

    /// Cost of a sequence of `tokens` tokens, in units of a short sequence's token: products grow with the length, attention with
    /// its square.
    pub(super) fn cost(&self, tokens: usize) -> usize {
        let (token, pair) = self.products();
        tokens + tokens * tokens * pair / token
    }

    /// Multiplications of a layer for a token, and for a pair of tokens.
    fn products(&self) -> (usize, usize) {
        let wide = 2 + usize::from(self.block().gated);
        let attention = 2 * (self.queries() + self.keys());
        let token = self.hidden * (attention + wide * self.feed_forward);
        (token, 2 * self.queries())
    }

    /// Refuses sizes that contradict each other or could overflow in products.
    pub(super) fn check_sizes(&self) -> Result<(), LoadError> {
        let sizes = [
            ("hidden_size", self.hidden, MOST),
            ("num_attention_heads", self.heads, MOST),
            ("num_key_value_heads", self.key_value_heads, MOST),
            ("head_dim", self.head, MOST),
            ("num_hidden_layers", self.layers, MOST_LAYERS),
            ("intermediate_size", self.feed_forward, MOST),
            ("vocab_size", self.vocabulary, MOST),
            ("max_position_embeddings", self.positions, MOST_POSITIONS),
            ("max_seq_length", self.max_tokens, MOST_TOKENS),
        ];
        for (member, size, most) in sizes {
            if !(1..=most).contains(&size) {
                return Err(LoadError::Config(format!(
                    "{member} is {size}, expected 1 to {most}"
                )));
            }
        }
        if self.token_types > MOST {
            return Err(LoadError::Config(format!(
                "type_vocab_size is {}, expected at most {MOST}",
                self.token_types
            )));
        }
        if self.first_position > MOST_POSITIONS {
            return Err(LoadError::Config(format!(
                "pad_token_id is {}, expected at most {MOST_POSITIONS}",
                self.first_position - 1
            )));
        }
        if !self.heads.is_multiple_of(self.key_value_heads) {
            return Err(LoadError::Config(format!(
                "num_attention_heads {} is not a multiple of num_key_value_heads {}",
                self.heads, self.key_value_heads
            )));
        }
        if self.head.saturating_mul(self.heads) > MOST {
            return Err(LoadError::Config(format!(
                "num_attention_heads {} of head_dim {} are above {MOST}",
                self.heads, self.head
            )));
        }
        let has_table = self.block().positions != Positions::Rotary;
        if has_table && self.max_tokens + self.first_position > self.positions {
            return Err(LoadError::Config(format!(
                "max_seq_length {} is above the {} of max_position_embeddings",
                self.max_tokens,
                self.positions.saturating_sub(self.first_position)
            )));
        }
        for (member, value) in [
            ("layer_norm_eps", self.norm_epsilon),
            ("rope_theta", self.rotary.theta),
            ("the local rope_theta", self.rotary.local_theta),
            ("the scale of queries", self.query_scale),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(LoadError::Config(format!(
                    "{member} is not a positive number"
                )));
            }
        }
        if self.attention.local.is_some_and(|local| local.every == 0) {
            return Err(LoadError::Config("no layer has full attention".to_owned()));
        }
        Ok(())
    }

    /// Compares the tensors with those implied by this shape.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor, what was expected and what was found.
    pub(super) fn check_tensors(
        &self,
        tensors: &BTreeMap<String, Weight>,
    ) -> Result<Naming, LoadError> {
        let naming = self.naming(tensors);
        for (name, expected) in self.tensors_of(naming.names) {
            let Some(weight) = tensors.get(&naming.tensor(&name)) else {
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
        Ok(naming)
    }

    /// The names that these tensors have: the first table and prefix whose words are there.
    fn naming(&self, tensors: &BTreeMap<String, Weight>) -> Naming {
        let tables = self.architecture.names().iter();
        let mut all = tables.flat_map(|names| {
            let prefixes = names.prefixes.iter().rev();
            prefixes.map(move |prefix| Naming { names, prefix })
        });
        // Tables of one architecture may share the name of the words, so the first layer decides too.
        let found = all.find(|naming| {
            let query = format!(
                "{}.0.{}.weight",
                naming.names.layer, naming.names.query.name
            );
            let words = format!("{}.weight", naming.names.words);
            tensors.contains_key(&naming.tensor(&words))
                && tensors.contains_key(&naming.tensor(&query))
        });
        found.unwrap_or(Naming {
            names: self.architecture.names()[0],
            prefix: "",
        })
    }

    /// Name without prefix, and dimensions, of every tensor that an encoder of this shape needs, in the newest names.
    #[must_use]
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        self.tensors_of(self.architecture.names()[0])
    }

    fn tensors_of(&self, names: &Names) -> Vec<(String, Vec<usize>)> {
        let block = self.block();
        let norm_bias = block.norm == NormKind::Layer && self.biases.norm;
        let mut list = TensorList::default();
        let hidden = self.hidden;
        list.add(names.words, &[self.vocabulary, hidden], false);
        if let Some(positions) = names.positions {
            list.add(positions, &[self.positions, hidden], false);
        }
        if let Some(token_types) = names.token_types
            && self.token_types > 0
        {
            list.add(token_types, &[self.token_types, hidden], false);
        }
        for norm in [names.embedding_norm, names.final_norm]
            .into_iter()
            .flatten()
        {
            list.add(norm, &[hidden], norm_bias);
        }
        if let Some(distances) = names.distances {
            list.add(distances, &[DISTANCE_BUCKETS, self.heads], false);
        }
        for layer in 0..self.layers {
            let name = |name: &str| format!("{}.{layer}.{name}", names.layer);
            let (attention, feed_forward) = (self.biases.attention, self.biases.feed_forward);
            for (rows, outputs, bias) in [
                (Some(names.query), self.queries(), attention),
                (Some(names.key), self.keys(), attention),
                (Some(names.value), self.keys(), attention),
                (names.gate, self.feed_forward, feed_forward),
                (Some(names.up), self.feed_forward, feed_forward),
            ] {
                if let Some(rows) = rows.filter(|rows| rows.part == 0) {
                    list.add(&name(rows.name), &[rows.of * outputs, hidden], bias);
                }
            }
            for (of, inputs, bias) in [
                (names.attention_output, self.queries(), attention),
                (names.down, self.feed_forward, feed_forward),
            ] {
                list.add(&name(of), &[hidden, inputs], bias);
            }
            for norm in [names.query_norm, names.key_norm].into_iter().flatten() {
                list.add(&name(norm), &[self.head], false);
            }
            let before = names.before_attention;
            for norm in [
                before.filter(|_| layer > 0 || !block.first_norm_missing),
                names.after_attention,
                names.before_feed_forward,
                names.after_feed_forward,
            ]
            .into_iter()
            .flatten()
            {
                list.add(&name(norm), &[hidden], norm_bias);
            }
        }
        list.0
    }
}

/// Names and dimensions of tensors.
#[derive(Default)]
struct TensorList(Vec<(String, Vec<usize>)>);

impl TensorList {
    fn add(&mut self, name: &str, dimensions: &[usize], bias: bool) {
        self.0.push((format!("{name}.weight"), dimensions.to_vec()));
        if bias {
            self.0
                .push((format!("{name}.bias"), dimensions[..1].to_vec()));
        }
    }
}

/// The names of a model's tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    pub(crate) names: &'static Names,
    pub(crate) prefix: &'static str,
}

impl Naming {
    /// The full name of a tensor.
    pub(crate) fn tensor(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name of a layer's rows.
    pub(crate) fn rows(&self, layer: usize, rows: Rows) -> String {
        self.layer(layer, rows.name)
    }

    /// The name of a layer's tensor, without suffix.
    pub(crate) fn layer(&self, layer: usize, name: &str) -> String {
        format!("{}.{layer}.{name}", self.names.layer)
    }
}

/// Rows of MPNet's table of distances, one column for each head.
pub(crate) const DISTANCE_BUCKETS: usize = 32;

/// Keeps products of two sizes far below overflow.
const MOST: usize = 1 << 20;

/// Far more than any model has: the list of tensors is created before the first is looked up.
const MOST_LAYERS: usize = 1 << 10;

/// Far more than any table of positions has.
const MOST_POSITIONS: usize = 1 << 20;

/// Memory for a text of that length is allocated in advance.
const MOST_TOKENS: usize = 1 << 16;

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
        assert_eq!((shape.head, shape.norm_epsilon), (4, 1e-12));
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
            heads: 12,
            key_value_heads: 12,
            head: 32,
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
            ("\"gelu\"", "\"mish\"", "hidden_act is `mish`"),
            ("_heads\":2", "_heads\":3", "num_attention_heads 3"),
            ("_heads\":2", "_heads\":0", "num_attention_heads 0"),
            ("_embeddings\":16", "_embeddings\":8", "max_seq_length 12"),
            (
                "_embeddings\":16",
                "_embeddings\":1048577",
                "max_position_embeddings is 1048577",
            ),
            (
                "_layers\":2",
                "_layers\":1025",
                "num_hidden_layers is 1025, expected 1 to 1024",
            ),
            ("size\":40", "size\":1099511627776", "vocab_size is"),
            ("1e-12", "0", "layer_norm_eps"),
            ("\"bert\"", "\"albert\"", "model_type is `albert`"),
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
