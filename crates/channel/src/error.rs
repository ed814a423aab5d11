//! Errors of a channel.

use protocol::channel::ChannelError;

/// A channel could not be opened, or has ended.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[coded(borrowed)]
#[non_exhaustive]
pub enum Error {
    /// The stream failed, or ended too early.
    #[error("the connection failed ({0})")]
    #[coded("CHANNEL_IO", remedy = "Connect again.")]
    Io(#[from] std::io::Error),
    /// The peer sent or read nothing for too long.
    #[error("the peer was silent for too long")]
    #[coded("CHANNEL_SILENT", remedy = "Connect again.")]
    Silent,
    /// The protocol was broken, or the session is over.
    #[error(transparent)]
    #[coded(transparent)]
    Channel(#[from] ChannelError),
    /// The server's evidence was refused. A retry cannot help.
    #[error(transparent)]
    #[coded(transparent)]
    Refused(Refused),
    /// The server does not hold the receipt key that was verified: keys were replaced, or another replica answers.
    #[error("the enclave does not hold the key that was verified any more")]
    #[coded("CHANNEL_STALE", remedy = "Verify it again.")]
    Stale,
    /// A send was not completed: the next bytes would not be a frame to the peer.
    #[error("an earlier send was not completed")]
    #[coded("CHANNEL_HALF_SENT", remedy = "Connect again.")]
    HalfSent,
    /// The application on the other side answered another item than the next one.
    #[error("the peer answered out of turn")]
    #[coded("CHANNEL_OUT_OF_TURN", remedy = "Report this to its operator.")]
    OutOfTurn,
}

impl Error {
    /// Whether an unreliable network explains the error. It never explains refused evidence or forged bytes.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Io(_) | Self::Silent | Self::HalfSent => true,
            Self::Channel(error) => error.is_transient(),
            Self::Refused(_) | Self::Stale | Self::OutOfTurn => false,
        }
    }
}

/// A refusal of a server's evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's evidence was refused: {message}")]
pub struct Refused {
    /// Code of the check that refused it.
    pub code: String,
    /// Message of that check.
    pub message: String,
    /// Remedy of that check.
    pub remedy: String,
}

impl error_codes::Coded for Refused {
    fn code(&self) -> &str {
        &self.code
    }

    fn remedy(&self) -> &str {
        &self.remedy
    }
}
