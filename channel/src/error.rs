//! Why a channel could not be opened, or ended.

use protocol::channel::ChannelError;

/// Why a channel could not be opened, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream failed, or ended too early.
    #[error("the connection failed ({0}); connect again")]
    Io(#[from] std::io::Error),
    /// The peer did nothing for too long.
    #[error("the peer was silent for too long; connect again")]
    Silent,
    /// The protocol was broken, or the session is over.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The server's evidence is not good enough. Never a reason to try again.
    #[error("the server's evidence was refused ({code}): {message}")]
    Refused {
        /// Code of the check that refused it.
        code: String,
        /// What happened.
        message: String,
    },
    /// A send was abandoned half-way: what the peer would read next is no frame.
    #[error("an earlier send was not completed; connect again")]
    HalfSent,
    /// The application on the other side answered something else than was asked.
    #[error("the peer answered out of turn; report this to its operator")]
    OutOfTurn,
}

impl Error {
    /// Stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::Io(_) => "CHANNEL_IO",
            Self::Silent => "CHANNEL_SILENT",
            Self::Channel(error) => error.code(),
            Self::Refused { code, .. } => code,
            Self::HalfSent => "CHANNEL_HALF_SENT",
            Self::OutOfTurn => "CHANNEL_OUT_OF_TURN",
        }
    }

    /// Whether a network that is merely bad explains it. Refused evidence and forged bytes are never that.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Io(_) | Self::Silent | Self::HalfSent => true,
            Self::Channel(error) => error.is_transient(),
            Self::Refused { .. } | Self::OutOfTurn => false,
        }
    }
}
