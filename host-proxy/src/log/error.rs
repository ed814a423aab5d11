//! Failures to store or pull the log.

use merkle::head::HeadError;

/// A failure of the log. Codes are stable, and are the values in metrics and log lines.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum LogError {
    /// The file is inconsistent. It is left unchanged, because it may be the only evidence of what happened.
    #[error("the log file is inconsistent ({0})")]
    #[coded(
        "LOG_CORRUPT",
        remedy = "Keep a copy of it, then restore a backup or start a new file with --receipt-log."
    )]
    Corrupt(String),
    /// Another process has the file.
    #[error("another process has the log file open")]
    #[coded("LOG_IN_USE", remedy = "Stop it, or choose another --receipt-log.")]
    InUse,
    /// The disk failed, is full, or may not be written.
    #[error("the log file cannot be read or written ({0})")]
    #[coded("LOG_UNAVAILABLE", remedy = "Check --receipt-log and the disk.")]
    Unavailable(String),
    /// The enclave's head is malformed, or its signature is invalid.
    #[error(transparent)]
    #[coded(transparent)]
    Head(#[from] HeadError),
    /// The head is of another log than the requested one.
    #[error("the enclave answered with the head of another log")]
    #[coded(
        "HEAD_OTHER_LOG",
        remedy = "Check what answers at the --enclave address; keep the refused head."
    )]
    OtherLog,
    /// Fewer leaves than were stored before.
    #[error("the enclave signed a head of {size} leaves after one of {stored}")]
    #[coded("LOG_ROLLED_BACK", remedy = "Keep both heads: leaves were removed.")]
    RolledBack {
        /// Size of the refused head.
        size: u64,
        /// Size of the stored tree.
        stored: u64,
    },
    /// The leaves, appended to those that are stored, do not give the signed root.
    #[error("the signed root of {size} leaves is not the root of the stored and the new leaves")]
    #[coded("LOG_FORKED", remedy = "Keep both heads: their histories differ.")]
    Forked {
        /// Size of the refused head.
        size: u64,
    },
    /// The document that came with the head is not the one that the head names.
    #[error("the document sent with the head is not the one that the head names")]
    #[coded(
        "HEAD_EVIDENCE_MISMATCH",
        remedy = "Check what answers at the --enclave address; keep the refused head."
    )]
    Evidence,
    /// Leaves that the enclave no longer has were never stored.
    #[error("the enclave no longer has the leaves from {from} on")]
    #[coded(
        "LOG_INCOMPLETE",
        remedy = "No action is needed: the log keeps its stored leaves, and the gap cannot be filled."
    )]
    Incomplete {
        /// First leaf that is missing.
        from: u64,
    },
    /// The enclave's answer is not the expected one.
    #[error("the enclave's log could not be read ({0})")]
    #[coded(
        "LOG_PULL_FAILED",
        remedy = "Wait: the proxy retries. If this lasts, check the enclave."
    )]
    Pull(&'static str),
}

impl LogError {
    /// Whether the error shows that the enclave, or a server in its place, is dishonest. Then the refused head is written to the log
    /// with its signature.
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
            // The file does not start like one of this library, or is shorter than it states.
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
            // The file's contents are not those that this program writes.
            error @ (Error::Corrupted(_)
            | Error::TableTypeMismatch { .. }
            | Error::TableIsMultimap(_)
            | Error::TableIsNotMultimap(_)
            | Error::TypeDefinitionChanged { .. }
            | Error::TableDoesNotExist(_)) => Self::Corrupt(error.to_string()),
            // The remaining errors are about this process, and not about the file: it was closed after a failed write, for example.
            other => Self::Unavailable(other.to_string()),
        }
    }
}

macro_rules! convert_through_redb_error {
    ($($kind:ident),*) => { $(
        impl From<redb::$kind> for LogError {
            fn from(error: redb::$kind) -> Self {
                redb::Error::from(error).into()
            }
        }
    )* };
}
convert_through_redb_error!(
    DatabaseError,
    StorageError,
    TableError,
    TransactionError,
    CommitError
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_in_the_file_is_corrupt() {
        use redb::Error;
        for (error, code) in [
            (Error::Corrupted("x".to_owned()), "LOG_CORRUPT"),
            (Error::TableDoesNotExist("x".to_owned()), "LOG_CORRUPT"),
            (Error::DatabaseAlreadyOpen, "LOG_IN_USE"),
            (Error::DatabaseClosed, "LOG_UNAVAILABLE"),
            (Error::TransactionPoisoned, "LOG_UNAVAILABLE"),
            (Error::UpgradeRequired(1), "LOG_UNAVAILABLE"),
            (Error::PreviousIo, "LOG_UNAVAILABLE"),
            (
                Error::Io(std::io::ErrorKind::StorageFull.into()),
                "LOG_UNAVAILABLE",
            ),
        ] {
            assert_eq!(LogError::from(error).code(), code);
        }
    }
}
