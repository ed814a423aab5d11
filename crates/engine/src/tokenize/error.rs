//! Errors of building and using a tokenizer.

/// Why a tokenizer could not be built or used.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The description cannot be used.
    #[error("the tokenizer is not usable: {0}")]
    #[coded(
        "TOKENIZER_MALFORMED",
        remedy = "Get the model again with `cargo xtask model`."
    )]
    Malformed(String),
    /// A text could not be tokenized.
    #[error("the text could not be split into tokens")]
    #[coded(
        "TOKENIZER_FAILED",
        remedy = "Send another text, and report this one as a defect of the tokenizer."
    )]
    Failed,
    /// A text is longer than any model reads.
    #[error("a text has {bytes} bytes; at most {MAX_TEXT_BYTES} are taken")]
    #[coded(
        "TEXT_TOO_LONG",
        remedy = "Split the text into parts of a few hundred words."
    )]
    TextTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Token ids have the special tokens at one end only.
    #[error("the token ids have the model's special tokens at one end and not at the other")]
    #[coded(
        "TOKENS_HALF_WRAPPED",
        remedy = "Send ids with the special tokens at both ends, as a tokenizer adds them by itself, or without any (add_special_tokens=False)."
    )]
    HalfWrapped,
    /// A text has no token, and the model adds none.
    #[error("the text has no token, and the model adds none")]
    #[coded("TEXT_WITHOUT_TOKENS", remedy = "Leave out items without a text.")]
    NoToken,
    /// All token ids are padding.
    #[error("the token ids are padding alone")]
    #[coded("TOKENS_ONLY_PADDING", remedy = "Leave out items without a text.")]
    OnlyPadding,
    /// A token id is outside the vocabulary.
    #[error("a token id is outside the vocabulary of {vocabulary} tokens")]
    #[coded("TOKEN_UNKNOWN", remedy = "Send token ids of this model's tokenizer.")]
    UnknownToken {
        /// See [`Tokenizer::vocabulary`](super::Tokenizer::vocabulary).
        vocabulary: u32,
    },
}

/// Longest prompt in bytes.
pub const MAX_PROMPT_BYTES: usize = 4 * 1024;

/// Longest text in bytes. The library cannot be interrupted while it tokenizes one.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
