//! Why a channel could not be opened, or ended.

use protocol::channel::ChannelError;

/// Why a channel could not be opened, or ended.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[coded(borrowed)]
#[non_exhaustive]
pub enum Error {
    /// The stream failed, or ended too early.
    #[error("the connection failed ({0})")]
    #[coded("CHANNEL_IO", remedy = "Connect again.")]
    Io(#[from] std::io::Error),
    /// The peer did nothing for too long.
    #[error("the peer was silent for too long")]
    #[coded("CHANNEL_SILENT", remedy = "Connect again.")]
    Silent,
    /// The protocol was broken, or the session is over.
    #[error(transparent)]
    #[coded(transparent)]
    Channel(#[from] ChannelError),
    /// The server's evidence is not good enough. Never a reason to try again.
    #[error(transparent)]
    #[coded(transparent)]
    Refused(Refused),
    /// The server no longer holds the receipt key that was verified: keys were replaced, or another replica answers.
    #[error("the enclave does not hold the key that was verified any more")]
    #[coded("CHANNEL_STALE", remedy = "Verify it again.")]
    Stale,
    /// A send was abandoned half-way: what the peer would read next is no frame.
    #[error("an earlier send was not completed")]
    #[coded("CHANNEL_HALF_SENT", remedy = "Connect again.")]
    HalfSent,
    /// The application on the other side answered something else than was asked.
    #[error("the peer answered out of turn")]
    #[coded("CHANNEL_OUT_OF_TURN", remedy = "Report this to its operator.")]
    OutOfTurn,
}

impl Error {
    /// Whether a network that is merely bad explains it. Refused evidence and forged bytes are never that.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Io(_) | Self::Silent | Self::HalfSent => true,
            Self::Channel(error) => error.is_transient(),
            Self::Refused(_) | Self::Stale | Self::OutOfTurn => false,
        }
    }
}

/// Why a server's evidence was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's evidence was refused: {message}")]
pub struct Refused {
    /// Code of the check that refused it.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to do next.
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
