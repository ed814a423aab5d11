//! Errors of loading a model.

use std::io;
use std::path::PathBuf;

use base16ct::lower::encode_string as hex;
use engine::{RecipeError, weights};
use sealed_model::{ContainerError, LockError};

use super::{FetchError, SelfTestFault};

/// Why a model was refused.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ModelError {
    /// See [`LockError`].
    #[error(transparent)]
    #[coded(transparent)]
    Lock(#[from] LockError),
    /// The lock cannot be read.
    #[error("the model's lock {path} cannot be read: {source}")]
    #[coded(
        "MODEL_LOCK_UNREADABLE",
        remedy = "Name an existing lock with --model-lock; write one with `clearseal model lock`."
    )]
    LockUnreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The lock lacks a file that the engine needs.
    #[error("`{file}` is needed, but the lock lacks it")]
    #[coded(
        "MODEL_FILE_NOT_PINNED",
        remedy = "Use a sentence-transformers folder that has the file, and write its lock again: `clearseal model lock`."
    )]
    NotPinned {
        /// Name inside the model folder.
        file: &'static str,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}")]
    #[coded(
        "MODEL_FILE_UNREADABLE",
        remedy = "Name the model's folder with --model, and its lock with --model-lock; get all-MiniLM-L6-v2, the model without --model-lock, with `cargo xtask model`."
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file is longer or shorter than the lock states.
    #[error("{path} has {observed} bytes, the lock states {expected}")]
    #[coded(
        "MODEL_FILE_SIZE",
        remedy = "Name the folder's own lock with --model-lock (`clearseal model lock` writes it), or get the locked model again; all-MiniLM-L6-v2 with `cargo xtask model`."
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Pinned size in bytes.
        expected: u64,
        /// Size found.
        observed: u64,
    },
    /// A file has another digest than the lock states.
    #[error("{name} has SHA-256 {observed}, the lock states {expected}")]
    #[coded(
        "MODEL_FILE_DIGEST",
        remedy = "Find out why it changed. Name the folder's own lock with --model-lock (`clearseal model lock` writes it), or get the locked model again; all-MiniLM-L6-v2 with `cargo xtask model`."
    )]
    Digest {
        /// Name inside the model folder.
        name: String,
        /// Pinned SHA-256, hex.
        expected: String,
        /// SHA-256 found, hex.
        observed: String,
    },
    /// The container's file set differs from the lock's.
    #[error("the sealed model is the file set {observed}, the lock's is {expected}")]
    #[coded(
        "MODEL_SET_NOT_PINNED",
        remedy = "Seal the files of the enclave's lock alone (`clearseal model seal --model-lock`), or build an image with the lock of this model."
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
    /// The folder has settings that no engine obeys.
    #[error(transparent)]
    #[coded(transparent)]
    Recipe(#[from] RecipeError),
    /// The engine computes another vector than the lock states.
    #[error("self-test {number} of {count}: {fault}")]
    #[coded(
        "MODEL_SELF_TEST",
        remedy = "Compare the model with its original in sentence-transformers. If it is right, renew the lock's `self_test` with `enclave-server check-model --print-self-test`."
    )]
    SelfTest {
        /// Number of the text in the lock, from 1.
        number: usize,
        /// Number of texts.
        count: usize,
        /// The fault.
        fault: SelfTestFault,
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
