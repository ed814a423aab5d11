//! How a channel's events end up in JavaScript, and why one is over.

use protocol::channel::ChannelError;
use protocol::exchange::ExchangeError;
use serde::Serialize;
use tsify::Tsify;

/// What came of a channel's bytes.
#[derive(Serialize, Tsify)]
#[serde(
    tag = "status",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ChannelOutcome {
    /// The session exists. The event's bytes have to be sent first.
    Opened,
    /// The next request in order was answered; the event holds the answer.
    Answered,
    /// The enclave closed the session, and has answered all that it will.
    Closed,
    /// The channel is over.
    Failed {
        /// Stable code.
        code: String,
        /// What happened, in one sentence.
        message: String,
        /// What to do next, in one sentence.
        remedy: String,
        /// An unreliable network explains it, so that another connection may help.
        transient: bool,
        /// The enclave has other keys than the ones that were verified: verify it again first.
        stale: bool,
    },
}

/// Why a channel came to its end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) code: String,
    message: String,
    remedy: String,
    pub(super) transient: bool,
    pub(super) stale: bool,
}

impl Failure {
    fn new(code: &str, message: &str, remedy: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
            transient: false,
            stale: false,
        }
    }

    /// As the native client names it.
    pub(super) fn stale() -> Self {
        Self {
            stale: true,
            ..Self::new(
                "CHANNEL_STALE",
                "the enclave does not hold the key that was verified any more",
                "Verify it again.",
            )
        }
    }

    pub(super) fn out_of_turn() -> Self {
        Self::new(
            "CHANNEL_OUT_OF_TURN",
            "the peer answered out of turn",
            "Report this to its operator.",
        )
    }

    pub(super) fn outcome(&self) -> ChannelOutcome {
        ChannelOutcome::Failed {
            code: self.code.clone(),
            message: self.message.clone(),
            remedy: self.remedy.clone(),
            transient: self.transient,
            stale: self.stale,
        }
    }
}

impl From<ChannelError> for Failure {
    fn from(error: ChannelError) -> Self {
        Self {
            transient: error.is_transient(),
            // Another proof is what a session needs whose own is over.
            stale: error == ChannelError::Expired,
            ..Self::new(error.code(), &error.to_string(), error.remedy())
        }
    }
}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Self {
        Self {
            stale: error.is_stale(),
            ..Self::new(error.code(), &error.to_string(), error.remedy())
        }
    }
}
