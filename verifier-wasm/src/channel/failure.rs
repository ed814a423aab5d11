//! Events and failures of a channel, as JavaScript sees them.

use protocol::channel::ChannelError;
use protocol::exchange::ExchangeError;
use serde::Serialize;
use tsify::Tsify;

/// An event of a channel.
#[derive(Serialize, Tsify)]
#[serde(
    tag = "status",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ChannelOutcome {
    /// The session is open. Send the event's bytes first.
    Opened,
    /// The next request in order was answered; the event holds the answer.
    Answered,
    /// The enclave closed the session and sends no more answers.
    Closed,
    /// The channel has failed.
    Failed {
        /// Stable code.
        code: String,
        /// Description, one sentence.
        message: String,
        /// Next step, one sentence.
        remedy: String,
        /// A network failure may be the cause: another connection may help.
        transient: bool,
        /// The enclave has different keys from those that were verified: verify it again first.
        stale: bool,
    },
}

/// Reason for the end of a channel.
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

    /// Same code and text as in the native client.
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
            // An expired session needs a new proof.
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
