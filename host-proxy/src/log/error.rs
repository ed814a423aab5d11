//! Why the log cannot be kept, or a part of it not taken.

use merkle::head::HeadError;

/// A failure of the log. Every code is stable, and is what metrics and log lines say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file does not agree with itself. It is left as it is, for it may be the only evidence of what happened.
    #[error(
        "LOG_CORRUPT: the log file does not agree with itself ({0}); keep a copy of it, then restore a backup or begin a new one with --receipt-log"
    )]
    Corrupt(String),
    /// Another process has the file.
    #[error(
        "LOG_IN_USE: another process has the log file open; stop it, or choose another --receipt-log"
    )]
    InUse,
    /// The disk, or the right to write to it.
    #[error(
        "LOG_UNAVAILABLE: the log file cannot be read or written ({0}); check --receipt-log and the disk"
    )]
    Unavailable(String),
    /// The enclave's head is no head, or no head of the log that was asked for.
    #[error("{code}: {0}", code = .0.code())]
    Head(#[from] HeadError),
    /// A head of another log than the one that was asked for.
    #[error("HEAD_OTHER_LOG: the enclave answered with the head of another log")]
    OtherLog,
    /// Fewer leaves than were stored before.
    #[error("LOG_ROLLED_BACK: the enclave signed a head of {size} leaves after one of {stored}")]
    RolledBack {
        /// Size of the refused head.
        size: u64,
        /// Size of the stored tree.
        stored: u64,
    },
    /// The leaves, appended to those that are stored, do not give the signed root.
    #[error(
        "LOG_FORKED: the signed root of {size} leaves is not that of the stored leaves and the new ones"
    )]
    Forked {
        /// Size of the refused head.
        size: u64,
    },
    /// The document that came with the head is not the one that the head names.
    #[error(
        "HEAD_EVIDENCE_MISMATCH: the document beside the head is not the one that the head names"
    )]
    Evidence,
    /// Leaves that the enclave no longer has were never stored.
    #[error(
        "LOG_INCOMPLETE: the enclave no longer has the leaves from {from} on; the log stays as it is, with a gap that cannot be filled"
    )]
    Incomplete {
        /// First leaf that is missing.
        from: u64,
    },
    /// The enclave does not answer as it should.
    #[error("LOG_PULL_FAILED: the enclave's log could not be read ({0}); it is tried again")]
    Pull(&'static str),
}

impl LogError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Corrupt(_) => "LOG_CORRUPT",
            Self::InUse => "LOG_IN_USE",
            Self::Unavailable(_) => "LOG_UNAVAILABLE",
            Self::Head(error) => error.code(),
            Self::OtherLog => "HEAD_OTHER_LOG",
            Self::RolledBack { .. } => "LOG_ROLLED_BACK",
            Self::Forked { .. } => "LOG_FORKED",
            Self::Evidence => "HEAD_EVIDENCE_MISMATCH",
            Self::Incomplete { .. } => "LOG_INCOMPLETE",
            Self::Pull(_) => "LOG_PULL_FAILED",
        }
    }

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
