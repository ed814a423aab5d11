//! Failures of the deployment's log.

use crate::log::LogError;

/// A failure of the deployment's log.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum DeploymentError {
    /// `init` for files that exist.
    #[error("{0} exists already")]
    #[coded(
        "DEPLOYMENT_LOG_INITIALIZED",
        remedy = "Start the proxy with it. For a new log, name a new origin, a new file and a new key."
    )]
    Initialized(String),
    /// Not a key file that `init` wrote.
    #[error("{0} is not a key file of a deployment's log")]
    #[coded(
        "DEPLOYMENT_KEY_INVALID",
        remedy = "Name the file that `host-proxy deployment init` wrote."
    )]
    Key(String),
    /// The origin is not the name of a key.
    #[error("the origin is empty, or contains a space or +")]
    #[coded(
        "DEPLOYMENT_ORIGIN_INVALID",
        remedy = "Write a name such as log.example/deployment."
    )]
    Origin,
    /// The log's file is missing, empty or that of another key.
    #[error("the log of this key is not at {0}")]
    #[coded(
        "DEPLOYMENT_LOG_LOST",
        remedy = "Find the file itself. If it is lost, begin a new log with another origin, and have policies and witnesses name that."
    )]
    Lost(String),
    /// The file contradicts itself. It is left unchanged.
    #[error("the deployment's log is inconsistent ({0})")]
    #[coded(
        "DEPLOYMENT_LOG_CORRUPT",
        remedy = "Keep a copy of the file. Restore no older one: begin a new log with another origin."
    )]
    Corrupt(String),
    /// Another process has the file.
    #[error("another process has the deployment's log open")]
    #[coded(
        "DEPLOYMENT_LOG_IN_USE",
        remedy = "Stop it, or choose another --deployment-log."
    )]
    InUse,
    /// The disk failed, is full, or may not be written.
    #[error("the deployment's log cannot be read or written ({0})")]
    #[coded(
        "DEPLOYMENT_LOG_UNAVAILABLE",
        remedy = "Check --deployment-log and the disk."
    )]
    Unavailable(String),
    /// A record that no bundle could hold.
    #[error("a record has {0} bytes, more than {max}", max = witness::record::MAX_RECORD)]
    #[coded(
        "DEPLOYMENT_RECORD_TOO_LONG",
        remedy = "Shorten the file in --deployment-records."
    )]
    TooLong(usize),
    /// Others have a tree of this log that its file does not extend.
    #[error(
        "this file does not extend a tree of {holder}: the file is an older copy, or the log has two histories"
    )]
    #[coded(
        "DEPLOYMENT_LOG_ROLLED_BACK",
        remedy = "Find the newest file of the log. If there is none, begin a new log with another origin."
    )]
    RolledBack {
        /// Names of witnesses, or a checkpoint's file.
        holder: String,
    },
}

impl From<LogError> for DeploymentError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Corrupt(reason) => Self::Corrupt(reason),
            LogError::InUse => Self::InUse,
            LogError::Unavailable(reason) => Self::Unavailable(reason),
            other => Self::Corrupt(other.to_string()),
        }
    }
}

macro_rules! convert_through_log_error {
    ($($kind:ident),*) => { $(
        impl From<redb::$kind> for DeploymentError {
            fn from(error: redb::$kind) -> Self {
                LogError::from(error).into()
            }
        }
    )* };
}
convert_through_log_error!(
    DatabaseError,
    StorageError,
    TableError,
    TransactionError,
    CommitError
);
