//! Sentence embeddings by BERT encoders on CPUs: texts in, unit-length vectors out.
//!
//! | part | is |
//! | --- | --- |
//! | [`Tokenizer`] | a `tokenizer.json` with a maximum sequence length |
//! | [`Encoder`] | a forward pass, with two implementations: [`FusedEncoder`], packed weights and kernels for the processor at hand; `CandleEncoder` (feature `candle`), which runs any BERT encoder and is the reference that the first is tested against |
//! | [`Pool`] | inference threads behind a bounded queue: clients take turns, and work that would miss its deadline is refused
//! immediately |
//! | [`Embedder`] | a tokenizer and a pool: what a service calls |
//!
//! The crate knows texts, weights and threads. It opens no file and no socket, and keeps no secret.
//!
//! `examples/embed.rs` embeds texts with a sentence-transformers folder. Without a model, a random one shows the calls:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::num::NonZeroUsize;
//! use engine::{EngineChoice, Pooling, Precision, Shape, Weight, Weights};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = br#"{"model_type":"bert","hidden_size":32,"num_hidden_layers":1,"num_attention_heads":1,
//!     "intermediate_size":64,"vocab_size":10,"max_position_embeddings":16,"type_vocab_size":2,
//!     "hidden_act":"gelu","layer_norm_eps":1e-12}"#;
//! let shape = Shape::parse(config, 16, Pooling::Mean)?;
//! let tensors: BTreeMap<_, _> = shape.tensors().into_iter().map(|(name, shape)| {
//!     let values = (0..shape.iter().product()).map(|n: usize| (n % 7) as f32 * 0.1 - 0.3).collect();
//!     (name, Weight { shape, values })
//! }).collect();
//! let encoder = EngineChoice::Auto.build(shape, Weights::new(tensors)?, Precision::F32, NonZeroUsize::MIN)?;
//! let row = encoder.encode(&[&[1, 5, 2]])?;
//! assert_eq!(row.len(), 32);
//! let length: f32 = row.iter().map(|value| value * value).sum();
//! assert!((length - 1.0).abs() < 1e-5);
//! # Ok(())
//! # }
//! ```

pub(crate) mod architecture;
#[cfg(feature = "candle")]
pub mod candle;
pub mod embedder;
pub mod fused;
mod head;
mod load;
pub mod pool;
pub mod recipe;
mod shape;
mod static_encoder;
pub mod tokenize;
pub mod weights;

pub use architecture::Architecture;
use std::ops::RangeInclusive;

#[cfg(feature = "candle")]
pub use candle::CandleEncoder;
pub use embedder::{EmbedError, Embedder, Embeddings, Inputs, Item, Overlong, Pairs};
pub use fused::{FusedEncoder, Precision};
pub use head::{Head, HeadActivation, HeadStep, Residual};
pub use load::{EngineChoice, LoadError};
pub use pool::{Health, Observer, Pool, PoolError, PoolLimits, Turns};
pub use recipe::{ModelFiles, Problem, Prompts, Recipe, RecipeError};
pub use shape::{Activation, Attention, Biases, Local, Pooling, Rotary, Shape};
pub use static_encoder::StaticEncoder;
pub use tokenize::{MAX_PROMPT_BYTES, MAX_TEXT_BYTES, Tokenizer, TokenizerError, Tokens};
pub use weights::{Weight, Weights, WeightsError};

/// A forward pass: token ids in, one embedding per sequence out.
///
/// Implementations are called from several threads concurrently and hold no lock during a computation.
pub trait Encoder: Send + Sync {
    /// Encodes `sequences`, special tokens included, of 1..=[`max_tokens`](Encoder::max_tokens) tokens each.
    ///
    /// Returns `sequences.len()` rows of [`dimension`](Encoder::dimension) floats, in the given order. A row does not depend on
    /// the other sequences, beyond rounding.
    ///
    /// # Errors
    /// [`EncodeError`] if a sequence is outside the limits or the computation failed; never quotes an input.
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError>;

    /// Like [`encode`](Encoder::encode), into the caller's memory: `sequences.len()` × `dimension` floats.
    ///
    /// # Errors
    /// Those of [`encode`](Encoder::encode), and [`EncodeError::Output`]; `rows` is then unspecified.
    fn encode_into(&self, sequences: &[&[u32]], rows: &mut [f32]) -> Result<(), EncodeError> {
        let encoded = self.encode(sequences)?;
        if encoded.len() != rows.len() {
            return Err(EncodeError::Output {
                expected: encoded.len(),
                found: rows.len(),
            });
        }
        rows.copy_from_slice(&encoded);
        Ok(())
    }

    /// Cost of encoding a sequence of `tokens` tokens, in units of a short sequence's token. Never zero.
    fn cost(&self, tokens: usize) -> usize {
        tokens
    }

    /// Length of an embedding.
    fn dimension(&self) -> usize;

    /// Whether embeddings have unit length (a text without a token has the zero row).
    fn is_normalised(&self) -> bool;

    /// Longest sequence in tokens.
    fn max_tokens(&self) -> usize;

    /// Number of tokens; all ids are smaller.
    fn vocabulary(&self) -> usize;

    /// Implementation and precision, as stated in the manifest and receipts: `fused-f32-avx2`, `candle-f32`.
    fn name(&self) -> &'static str;
}

/// Why sequences were not encoded. Holds positions and lengths, never an input.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum EncodeError {
    /// A sequence is empty or too long.
    #[error("sequence {index} has {length} tokens, allowed are 1 to {max}")]
    #[coded(
        "ENGINE_SEQUENCE_LENGTH",
        remedy = "Cut the sequence to the longest that the model takes."
    )]
    Length {
        /// Position in the call.
        index: usize,
        /// Its length.
        length: usize,
        /// Longest allowed.
        max: usize,
    },
    /// A token id is outside the vocabulary.
    #[error("sequence {index} holds a token id outside the vocabulary of {vocabulary}")]
    #[coded(
        "ENGINE_TOKEN_UNKNOWN",
        remedy = "Use the tokenizer that belongs to the model."
    )]
    Token {
        /// Position in the call.
        index: usize,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// The output slice has the wrong length.
    #[error("room for {found} floats, the embeddings need {expected}")]
    #[coded(
        "ENGINE_OUTPUT_LENGTH",
        remedy = "Pass room for one row of features for each sequence."
    )]
    Output {
        /// Sequences times features.
        expected: usize,
        /// Floats given.
        found: usize,
    },
    /// The weights cause a value beyond the range of f32.
    #[error("the embedding of sequence {index} is not finite")]
    #[coded(
        "ENGINE_NOT_FINITE",
        remedy = "Use another model, or a precision with a greater range: the weights overflow."
    )]
    NotFinite {
        /// Position in the call.
        index: usize,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    #[coded("ENGINE_THREADS", remedy = "Lower --threads.")]
    Threads(#[from] std::io::Error),
    /// The computation failed.
    #[error("the arithmetic failed: {0}")]
    #[coded("ENGINE_FAILED", remedy = "Report this as a defect of the engine.")]
    Arithmetic(String),
}

/// Scales `row` to Euclidean length one; a row shorter than 10⁻¹² is divided by that, like in PyTorch's `normalize`.
pub fn normalise(row: &mut [f32]) {
    const SHORTEST: f64 = 1e-12;
    let length = row
        .iter()
        .map(|value| f64::from(*value).powi(2))
        .sum::<f64>()
        .sqrt();
    let scale = (1.0 / length.max(SHORTEST)) as f32;
    for value in row {
        *value *= scale;
    }
}

/// Checks the limits that apply to every encoder.
pub(crate) fn check_sequences(shape: &Shape, sequences: &[&[u32]]) -> Result<(), EncodeError> {
    check_tokens(1..=shape.max_tokens, shape.vocabulary, sequences)
}

/// Refuses sequences of other lengths, and ids outside the vocabulary.
pub(crate) fn check_tokens(
    lengths: RangeInclusive<usize>,
    vocabulary: usize,
    sequences: &[&[u32]],
) -> Result<(), EncodeError> {
    for (index, sequence) in sequences.iter().enumerate() {
        if !lengths.contains(&sequence.len()) {
            return Err(EncodeError::Length {
                index,
                length: sequence.len(),
                max: *lengths.end(),
            });
        }
        if sequence.iter().any(|id| *id as usize >= vocabulary) {
            return Err(EncodeError::Token { index, vocabulary });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn short_rows_are_finite() {
        for (row, expected) in [
            ([3.0, 4.0], [0.6, 0.8]),
            ([0.0, 0.0], [0.0, 0.0]),
            ([3e-40, 0.0], [3e-28, 0.0]),
        ] {
            let mut row: [f32; 2] = row;
            super::normalise(&mut row);
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
            assert!(row.iter().zip(&expected).all(close), "{row:?}");
        }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
