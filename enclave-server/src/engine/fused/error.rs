//! Why weights were refused, or sequences.

use safetensors::Dtype;

/// Why weights were refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The model is not of a shape that this encoder has kernels for.
    #[error("FUSED_SHAPE_UNSUPPORTED: {reason}; choose another engine for this model")]
    Unsupported {
        /// Which number, and what it should be.
        reason: &'static str,
    },
    /// A tensor is not in the file.
    #[error(
        "FUSED_TENSOR_MISSING: no tensor `{name}`, with or without the prefix `bert.`; use the safetensors file of a BERT encoder"
    )]
    Missing {
        /// Its name without prefix.
        name: String,
    },
    /// A tensor has another shape than `config.json` implies.
    #[error(
        "FUSED_TENSOR_SHAPE: tensor `{name}` is {found:?}, expected {expected:?}; config.json and the weights belong to different models"
    )]
    Shape {
        /// Its name without prefix.
        name: String,
        /// Shape that follows from `config.json`.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// A tensor is stored in another number format.
    #[error("FUSED_TENSOR_DTYPE: tensor `{name}` is {found:?}, expected F32; convert the model")]
    Dtype {
        /// Its name without prefix.
        name: String,
        /// Format in the file.
        found: Dtype,
    },
    /// A weight is NaN or infinite.
    #[error(
        "FUSED_TENSOR_NOT_FINITE: tensor `{name}` holds NaN or infinity at element {at}; the file is damaged, fetch it again"
    )]
    NotFinite {
        /// Its name without prefix.
        name: String,
        /// Index of the first such element, row by row.
        at: usize,
    },
    /// Helper threads could not be started.
    #[error("FUSED_THREADS: cannot start a thread: {0}; lower the number of threads")]
    Threads(std::io::Error),
}

/// Why sequences were not encoded. Holds positions and lengths, never an input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FusedError {
    /// A sequence has no token, or too many.
    #[error("FUSED_SEQUENCE_LENGTH: sequence {index} has {length} tokens, allowed are 1 to {max}")]
    Length {
        /// Position in the call.
        index: usize,
        /// Its length.
        length: usize,
        /// Longest allowed.
        max: usize,
    },
    /// A token does not exist.
    #[error(
        "FUSED_TOKEN_UNKNOWN: sequence {index} holds a token id outside the vocabulary of {vocabulary}"
    )]
    Token {
        /// Position in the call.
        index: usize,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// The place for the embeddings has the wrong size.
    #[error("FUSED_OUTPUT_LENGTH: room for {found} floats, the embeddings need {expected}")]
    Output {
        /// Sequences times features.
        expected: usize,
        /// Floats given.
        found: usize,
    },
    /// The weights drove a value beyond what f32 can hold.
    #[error("FUSED_NOT_FINITE: the embedding of sequence {index} is not finite; check the weights")]
    NotFinite {
        /// Position in the call.
        index: usize,
    },
    /// Helper threads could not be started.
    #[error("FUSED_THREADS: cannot start a thread: {0}; lower the number of threads")]
    Threads(#[from] std::io::Error),
}
