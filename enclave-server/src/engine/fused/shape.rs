//! The numbers that describe a model, as its `config.json` has them.

use super::kernels::Pooling;
use super::panels::{MAX_PANELS, PANEL};

/// A BERT encoder: absolute positions, post-layer normalisation, exact GELU, f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// `hidden_size`: features of a token, and length of an embedding. A multiple of 32, at most 1024.
    pub hidden: usize,
    /// `num_attention_heads`; `hidden / heads` is a multiple of 32.
    pub heads: usize,
    /// `num_hidden_layers`
    pub layers: usize,
    /// `intermediate_size`, a multiple of 32.
    pub feed_forward: usize,
    /// `vocab_size`
    pub vocabulary: usize,
    /// `max_position_embeddings`: no sequence is longer.
    pub positions: usize,
    /// `type_vocab_size`; only type 0 is ever used.
    pub token_types: usize,
    /// `layer_norm_eps`
    pub norm_epsilon: f32,
    /// How rows become one embedding.
    pub pooling: Pooling,
}

impl Shape {
    /// Features of one attention head.
    pub(super) fn head(&self) -> usize {
        self.hidden / self.heads
    }

    /// What of the shape this encoder cannot run; `None` if it can run all of it.
    pub(super) fn unsupported(&self) -> Option<&'static str> {
        let sizes = [
            self.hidden,
            self.heads,
            self.layers,
            self.feed_forward,
            self.vocabulary,
            self.positions,
            self.token_types,
        ];
        if sizes.contains(&0) {
            return Some("a size is zero");
        }
        if sizes.iter().any(|size| *size > MOST) {
            return Some("a size is beyond a million");
        }
        if !self.hidden.is_multiple_of(self.heads) || !self.head().is_multiple_of(PANEL) {
            return Some("features of a head are not a multiple of 32");
        }
        if self.hidden > MAX_PANELS * PANEL {
            return Some("hidden_size is above 1024");
        }
        if !self.feed_forward.is_multiple_of(PANEL) {
            return Some("intermediate_size is not a multiple of 32");
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            return Some("layer_norm_eps is not a positive number");
        }
        None
    }
}

/// Keeps products of two sizes far from overflow.
const MOST: usize = 1 << 20;
