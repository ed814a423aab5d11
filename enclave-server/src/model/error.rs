//! Errors of loading a model.

use std::io;
use std::path::PathBuf;

use base16ct::lower::encode_string as hex;
use engine::weights;
use sealed_model::ContainerError;

use super::FetchError;

/// Why a model was refused.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ModelError {
    /// The pinned list itself cannot be used.
    #[error("the pinned list cannot be used: {0}")]
    #[coded(
        "MODEL_LOCK_INVALID",
        remedy = "Restore model.lock.json from the release."
    )]
    Lock(String),
    /// The pinned list lacks a file that the engine needs.
    #[error("`{file}` is needed, but the pinned list lacks it")]
    #[coded(
        "MODEL_FILE_NOT_PINNED",
        remedy = "Restore model.lock.json from the release."
    )]
    NotPinned {
        /// Name inside the model folder.
        file: &'static str,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}")]
    #[coded(
        "MODEL_FILE_UNREADABLE",
        remedy = "Get the model with `cargo xtask model`, or name its folder with --model."
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file is longer or shorter than the pinned one.
    #[error("{path} has {observed} bytes, the pinned file {expected}")]
    #[coded(
        "MODEL_FILE_SIZE",
        remedy = "Get the model again with `cargo xtask model`."
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Pinned size in bytes.
        expected: u64,
        /// Size found.
        observed: u64,
    },
    /// A file differs from the pinned one.
    #[error("{name} has SHA-256 {observed}, the pinned file {expected}")]
    #[coded(
        "MODEL_FILE_DIGEST",
        remedy = "Do not use it; get the model again with `cargo xtask model`."
    )]
    Digest {
        /// Name inside the model folder.
        name: String,
        /// Pinned SHA-256, hex.
        expected: String,
        /// SHA-256 found, hex.
        observed: String,
    },
    /// The container's file set differs from the pinned one.
    #[error("the sealed model is the file set {observed}, the pinned one is {expected}")]
    #[coded(
        "MODEL_SET_NOT_PINNED",
        remedy = "Do not use it, seal the pinned model."
    )]
    NotThePinnedSet {
        /// Digest of the pinned set, hex.
        expected: String,
        /// Digest of the set in the container, hex.
        observed: String,
    },
    /// The container is malformed, incomplete, or not genuine.
    #[error(transparent)]
    #[coded(transparent)]
    Container(ContainerError),
    /// The container could not be fetched.
    #[error(transparent)]
    #[coded(transparent)]
    Fetch(#[from] FetchError),
    /// The system refused a thread.
    #[error("cannot start a thread: {0}")]
    #[coded("MODEL_THREAD", remedy = "Allow more of them.")]
    Thread(io::Error),
    /// The weights are malformed.
    #[error("{source} (in {path})")]
    #[coded(from = source)]
    Weights {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: weights::WeightsError,
    },
    /// A configuration file is malformed.
    #[error("{file}: {message}")]
    #[coded(
        "MODEL_CONFIG_INVALID",
        remedy = "Get the model again with `cargo xtask model`."
    )]
    Config {
        /// Name inside the model folder.
        file: &'static str,
        /// The error of the parser.
        message: String,
    },
    /// The configuration asks for something that no engine supports.
    #[error("{file} asks for {what}")]
    #[coded(
        "MODEL_UNSUPPORTED",
        remedy = "Use a sentence-transformers BERT model with mean or first-token pooling and normalisation."
    )]
    Unsupported {
        /// Name inside the model folder.
        file: &'static str,
        /// The unsupported setting.
        what: &'static str,
    },
}

impl From<ContainerError> for ModelError {
    fn from(error: ContainerError) -> Self {
        match error {
            ContainerError::FileDigest {
                name,
                expected,
                observed,
            } => Self::Digest {
                name,
                expected: hex(&expected),
                observed: hex(&observed),
            },
            other => Self::Container(other),
        }
    }
}
