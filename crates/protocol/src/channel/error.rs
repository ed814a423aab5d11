//! Why a channel was not opened, or ended.

use attestation::EndorsementError;

/// Why a channel was not opened, or ended. Reveals nothing about its contents, and ends the session that raised it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ChannelError {
    /// A malformed handshake message.
    #[error("the handshake message is malformed")]
    #[coded(
        "CHANNEL_MALFORMED",
        remedy = "Update the older side, or suspect the relay."
    )]
    Malformed,
    /// Another version of the protocol.
    #[error("the peer speaks version {0} of the channel, this program version 1")]
    #[coded("CHANNEL_VERSION", remedy = "Update the older side.")]
    Version(u64),
    /// No mechanism in common.
    #[error("no key encapsulation or cipher in common")]
    #[coded("CHANNEL_NO_SUITE", remedy = "Update the older side.")]
    NoSuite,
    /// A message larger than its limit.
    #[error("the peer declares {length} bytes, at most {limit} are allowed here")]
    #[coded("CHANNEL_TOO_LARGE", remedy = "Send less at once.")]
    TooLarge {
        /// Declared length.
        length: u64,
        /// Limit.
        limit: u64,
    },
    /// A frame whose kind, flags or position are not allowed at this point.
    #[error("the frame is not allowed here ({0})")]
    #[coded("CHANNEL_UNEXPECTED", remedy = "Close the connection.")]
    Unexpected(&'static str),
    /// A repeated frame, or one after a missing frame.
    #[error("frame {found} came where {expected} was due")]
    #[coded(
        "CHANNEL_SEQUENCE",
        remedy = "Suspect the relay, which lost, repeated or reordered frames, and connect again."
    )]
    Sequence {
        /// The next number in order.
        expected: u64,
        /// The number received.
        found: u64,
    },
    /// A wrong tag, confirmation or signature.
    #[error("the message was changed, or belongs to another session")]
    #[coded("CHANNEL_FORGED", remedy = "Close the connection.")]
    Forged,
    /// A key that is not a curve point or an ML-KEM key.
    #[error("the key is not usable for encapsulation")]
    #[coded("CHANNEL_BAD_KEY", remedy = "Suspect the relay.")]
    BadKey,
    /// An endorsed key that was refused.
    #[error(transparent)]
    #[coded(transparent)]
    Endorsement(#[from] EndorsementError),
    /// An endorsement that the client did not ask for.
    #[error("the server endorsed a key under an attestation that was not verified")]
    #[coded("CHANNEL_UNASKED_ENDORSEMENT", remedy = "Ask for a document.")]
    UnaskedEndorsement,
    /// The server asks for evidence that the client does not have, or the client presented none.
    #[error("the server serves attested clients only")]
    #[coded("CHANNEL_EVIDENCE_WANTED", remedy = "Present evidence.")]
    EvidenceWanted,
    /// Too many frames under one key: the peer has to change it.
    #[error("the peer did not renew its key in time")]
    #[coded("CHANNEL_KEY_OVERUSED", remedy = "Connect again.")]
    KeyOverused,
    /// The last key was used up.
    #[error("the session has used its last key")]
    #[coded("CHANNEL_EXHAUSTED", remedy = "Connect again.")]
    Exhausted,
    /// The attestation that the session rests on has expired.
    #[error("the attestation that the session rests on is over")]
    #[coded("CHANNEL_EXPIRED", remedy = "Connect and verify again.")]
    Expired,
    /// The session has ended, by a close or by an earlier error.
    #[error("the session has ended")]
    #[coded("CHANNEL_CLOSED", remedy = "Connect again.")]
    Closed,
    /// The stream ended without an authenticated close.
    #[error("the connection ended without a close, so that what came may not be all")]
    #[coded("CHANNEL_CUT_OFF", remedy = "Connect again.")]
    CutOff,
    /// The server refused the client before a session existed. An untrusted hint: anyone on the path can send it.
    #[error("the connection was refused before a session existed ({0})")]
    #[coded("CHANNEL_TURNED_AWAY", remedy = "Try again later.")]
    Rejected(Hint),
    /// A malformed tensor frame.
    #[error("the tensor is malformed ({0})")]
    #[coded("CHANNEL_TENSOR", remedy = "Update the older side.")]
    Tensor(&'static str),
    /// A primitive refused lengths that it always accepts.
    #[error("a cryptographic primitive failed")]
    #[coded("CHANNEL_INTERNAL", remedy = "Report this.")]
    Internal,
}

/// The reason in an unauthenticated refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Too many sessions, or documents.
    Busy,
    /// Any other reason.
    Other,
}

impl std::fmt::Display for Hint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Busy => "busy",
            Self::Other => "no reason that can be trusted",
        })
    }
}

impl ChannelError {
    /// Whether a new connection may succeed: the cause may be an unreliable network, a restart or the end of a
    /// key. Every other error is an attack or a defect, and a retry would hide it.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Exhausted | Self::Expired | Self::Closed | Self::CutOff | Self::Rejected(_)
        )
    }
}
