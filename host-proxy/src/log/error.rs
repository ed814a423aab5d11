//! Why the log cannot be kept, or a part of it not taken.

use merkle::head::HeadError;

/// A failure of the log. Every code is stable, and is what metrics and log lines say.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum LogError {
    /// The file does not agree with itself. It is left as it is, for it may be the only evidence of what happened.
    #[error("the log file does not agree with itself ({0})")]
    #[coded(
        "LOG_CORRUPT",
        remedy = "Keep a copy of it, then restore a backup or begin a new one with --receipt-log."
    )]
    Corrupt(String),
    /// Another process has the file.
    #[error("another process has the log file open")]
    #[coded("LOG_IN_USE", remedy = "Stop it, or choose another --receipt-log.")]
    InUse,
    /// The disk, or the right to write to it.
    #[error("the log file cannot be read or written ({0})")]
    #[coded("LOG_UNAVAILABLE", remedy = "Check --receipt-log and the disk.")]
    Unavailable(String),
    /// The enclave's head is no head, or no head of the log that was asked for.
    #[error(transparent)]
    #[coded(transparent)]
    Head(#[from] HeadError),
    /// A head of another log than the one that was asked for.
    #[error("the enclave answered with the head of another log")]
    #[coded(
        "HEAD_OTHER_LOG",
        remedy = "Check what answers at the --enclave address; keep the refused head."
    )]
    OtherLog,
    /// Fewer leaves than were stored before.
    #[error("the enclave signed a head of {size} leaves after one of {stored}")]
    #[coded("LOG_ROLLED_BACK", remedy = "Keep both heads: history was taken back.")]
    RolledBack {
        /// Size of the refused head.
        size: u64,
        /// Size of the stored tree.
        stored: u64,
    },
    /// The leaves, appended to those that are stored, do not give the signed root.
    #[error("the signed root of {size} leaves is not that of the stored leaves and the new ones")]
    #[coded("LOG_FORKED", remedy = "Keep both heads: their histories differ.")]
    Forked {
        /// Size of the refused head.
        size: u64,
    },
    /// The document that came with the head is not the one that the head names.
    #[error("the document beside the head is not the one that the head names")]
    #[coded(
        "HEAD_EVIDENCE_MISMATCH",
        remedy = "Check what answers at the --enclave address; keep the refused head."
    )]
    Evidence,
    /// Leaves that the enclave no longer has were never stored.
    #[error("the enclave no longer has the leaves from {from} on")]
    #[coded(
        "LOG_INCOMPLETE",
        remedy = "Nothing needs to be done: the log stays as it is, with a gap that cannot be filled."
    )]
    Incomplete {
        /// First leaf that is missing.
        from: u64,
    },
    /// The enclave does not answer as it should.
    #[error("the enclave's log could not be read ({0})")]
    #[coded(
        "LOG_PULL_FAILED",
        remedy = "Wait: it is tried again. If it stays, check the enclave."
    )]
    Pull(&'static str),
}

impl LogError {
    /// Whether it shows that the enclave, or whatever answers in its place, is not honest: then the refused head is kept
    /// in the log lines, signed as it is.
    pub fn is_misbehaviour(&self) -> bool {
        matches!(
            self,
            Self::Head(_)
                | Self::OtherLog
                | Self::RolledBack { .. }
                | Self::Forked { .. }
                | Self::Evidence
        )
    }
}

impl From<redb::Error> for LogError {
    fn from(error: redb::Error) -> Self {
        use redb::Error;
        match error {
            Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => Self::InUse,
            // Not what a file of this library begins with, or shorter than it says.
            Error::Io(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof
                ) =>
            {
                Self::Corrupt(error.to_string())
            }
            Error::Io(error) => Self::Unavailable(error.to_string()),
            Error::PreviousIo => Self::Unavailable("an earlier write failed".to_owned()),
            // What is left says that the file is not what this program wrote.
            other => Self::Corrupt(other.to_string()),
        }
    }
}

macro_rules! through {
    ($($kind:ident),*) => { $(
        impl From<redb::$kind> for LogError {
            fn from(error: redb::$kind) -> Self {
                redb::Error::from(error).into()
            }
        }
    )* };
}
through!(
    DatabaseError,
    StorageError,
    TableError,
    TransactionError,
    CommitError
);
