//! Errors of the client.

use std::sync::Arc;

use attestation::report::AttestationReport;
use protocol::channel::frame::MAX_CLIENT_MESSAGE;
use protocol::exchange::ExchangeError;
use protocol::ohttp::chunked::ChunkError;

/// Code of a connection that TLS refused.
pub(crate) const CERTIFICATE_UNTRUSTED: &str = "CERTIFICATE_UNTRUSTED";

/// Failure to reach a host, or its unsealed error. Untrusted: no enclave vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// Stable code: `NETWORK`, `CERTIFICATE_UNTRUSTED`, `TIMEOUT`, `HOST_REFUSED`, `ANSWER_TOO_LARGE`, `BODY_TOO_LARGE` and `UPGRADE_REQUIRED` also where a
    /// proxy in front of the host is the reason, or the code that the host gave.
    pub code: String,
    /// Sentence that says what happened.
    pub detail: String,
    /// Sentence that says what to do next.
    pub remedy: &'static str,
    /// HTTP status of an answer without a seal; absent where no answer came.
    pub status: Option<u16>,
}

impl Problem {
    /// Returns whether the host reports that it is busy or that the request is too large; a fresh proof would not help.
    pub(crate) fn is_denial(&self) -> bool {
        match self.status {
            Some(413 | 429) => true,
            // Of the relay, and of the gateway before it opens anything.
            Some(503) => self.code == "BUSY" || self.code.ends_with("_BUSY"),
            _ => false,
        }
    }

    /// Returns whether a proxy in front of the host prevents channels. Sealed requests pass.
    pub(crate) fn is_without_upgrade(&self) -> bool {
        self.status == Some(426)
    }
}

/// Reason why a request was not answered. None contains text of the request or the answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No upstream was given.
    #[error("no upstream was given")]
    NoUpstream,
    /// An address that is not `http://…` or `https://…`.
    #[error("an upstream's address is not a URL that begins with http:// or https://")]
    UrlInvalid,
    /// The file of certificate authorities cannot be read, or is not PEM.
    #[error("the file of certificate authorities cannot be read, or holds no certificate, PEM")]
    AuthoritiesUnusable,
    /// The environment names a proxy that is not `http://…`.
    #[error("the environment names a forward proxy whose address is not http://HOST:PORT")]
    ProxyUnusable,
    /// Nothing to judge the enclave by.
    #[error("there is no trust policy to judge the enclave by")]
    NoPolicy,
    /// The simulating service's own policy cannot be read.
    #[error("the service's development policy is unusable")]
    PolicyUnusable,
    /// The host cannot be reached, or answers without a seal.
    #[error("{0}")]
    Unreachable(Arc<Problem>),
    /// The answer of the attestation endpoint is not evidence.
    #[error("the service did not answer with evidence")]
    NotEvidence,
    /// The enclave was judged and refused. Nothing was sent to it.
    #[error("{}", .0.message.as_deref().unwrap_or("the enclave was refused"))]
    Refused(Arc<AttestationReport>),
    /// The trust policy was changed while this client ran. It does not accept the enclave that was used so far, nor the one that
    /// answers now. Nothing more was sent.
    #[error(
        "the trust policy was changed and accepts no enclave of this service any more ({})",
        refusal_code(.0)
    )]
    Withdrawn(Arc<AttestationReport>),
    /// A key that was attested a moment ago is unknown to the host's enclave.
    #[error("the service does not know the keys that it has just attested")]
    KeyUnknownTwice,
    /// A fresh proof is over before it can be used.
    #[error("a fresh proof has expired already, by this machine's clock")]
    ExpiredTwice,
    /// The request cannot be sealed as it is, or the sealed answer was refused.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// No channel could be opened, or it ended.
    #[error(transparent)]
    Channel(#[from] channel::Error),
    /// A batch is longer than a channel takes in one message. Nothing of it was sent.
    #[error(
        "a batch takes {bytes} bytes, a channel takes {} at once",
        MAX_CLIENT_MESSAGE
    )]
    BatchTooLarge {
        /// Of the whole request, padding included.
        bytes: usize,
    },
    /// A text is longer than a channel takes in one message, and than any that an enclave embeds. It was not sent.
    #[error("a text has {bytes} bytes, more than one message of a channel takes; it was not sent")]
    TextTooLong {
        /// Of the text.
        bytes: usize,
    },
    /// The caller ended a run.
    #[error("the run was stopped before its end")]
    Stopped,
    /// A field of the request is not text.
    #[error("a field of the request cannot be sent inside the seal")]
    RequestInvalid,
    /// The enclave refused the request, under the seal.
    #[error("{message}")]
    Service {
        /// HTTP status inside the seal.
        status: u16,
        /// Its code.
        code: String,
        /// Its message.
        message: String,
        /// The member of the request that is to blame.
        param: Option<String>,
    },
    /// A sealed answer that is not what was asked for.
    #[error("the sealed answer is not a list of embeddings for the texts that were sent")]
    AnswerInvalid,
    /// A sealed answer that is not about the index that was asked for.
    #[error("the sealed answer is not about the index that was asked for")]
    IndexAnswerInvalid,
    /// The index does not continue the history that this client has seen.
    #[error(transparent)]
    IndexHistory(#[from] sealed_index::HistoryError),
    /// The file of the heads that this client has seen cannot be used.
    #[error(transparent)]
    IndexHeads(#[from] crate::index::HeadsError),
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes")]
    NoRandomness,
    /// A background thread ended early.
    #[error("a worker of this program ended before its work was done")]
    Internal,
}

impl Error {
    /// Stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::NoUpstream => "NO_UPSTREAM",
            Self::UrlInvalid => "URL_INVALID",
            Self::AuthoritiesUnusable => "AUTHORITIES_UNUSABLE",
            Self::ProxyUnusable => "PROXY_UNUSABLE",
            Self::NoPolicy => "POLICY_MISSING",
            Self::PolicyUnusable => "POLICY_UNUSABLE",
            Self::Unreachable(problem) => &problem.code,
            Self::NotEvidence => "EVIDENCE_MALFORMED",
            Self::Refused(report) => refusal_code(report),
            Self::Withdrawn(_) => "POLICY_WITHDRAWN",
            Self::KeyUnknownTwice => "KEY_UNKNOWN_TWICE",
            Self::ExpiredTwice => "EXPIRED_TWICE",
            Self::Exchange(error) => error.code(),
            Self::Channel(error) => error.code(),
            Self::BatchTooLarge { .. } => "BATCH_TOO_LARGE",
            Self::TextTooLong { .. } => "TEXT_TOO_LONG",
            Self::Stopped => "STOPPED",
            Self::RequestInvalid => "REQUEST_INVALID",
            Self::Service { code, .. } => code,
            Self::AnswerInvalid => "ANSWER_INVALID",
            Self::IndexAnswerInvalid => "INDEX_ANSWER_INVALID",
            Self::IndexHistory(error) => error.code(),
            Self::IndexHeads(error) => error.code(),
            Self::NoRandomness => "NO_RANDOMNESS",
            Self::Internal => "INTERNAL",
        }
    }

    /// Remedy, in one sentence.
    pub fn remedy(&self) -> &str {
        match self {
            Self::NoUpstream => "Name at least one service.",
            Self::UrlInvalid => "Write http://HOST:PORT or https://HOST.",
            Self::AuthoritiesUnusable => {
                "Check the file that `--ca` or SSL_CERT_FILE names: it lists certificates in PEM form."
            }
            Self::ProxyUnusable => {
                "Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or add the host to NO_PROXY."
            }
            Self::NoPolicy => {
                "Give a trust policy, or accept a simulated enclave by name to develop against one."
            }
            Self::PolicyUnusable => "Give a trust policy of your own.",
            Self::Unreachable(problem) => problem.remedy,
            Self::NotEvidence => "Check the address; another service may answer there.",
            Self::Refused(report) => report.remedy.as_deref().unwrap_or("Send nothing to it."),
            Self::Withdrawn(_) => {
                "Use the service again once it runs a release that the trust policy accepts; the publisher of the policy says which."
            }
            Self::KeyUnknownTwice => {
                "Try again in a minute; if it continues, the host mixes enclaves up or tampers with requests."
            }
            Self::ExpiredTwice => "Set this machine's clock; if it is right, the enclave's is not.",
            Self::Exchange(error) => error.remedy(),
            Self::Channel(error) => error.remedy(),
            Self::BatchTooLarge { .. } => "Put fewer or shorter texts into one batch.",
            Self::TextTooLong { .. } => "Split the text into parts of a few hundred words.",
            Self::Stopped => "Run it again for the rest.",
            Self::RequestInvalid => "Send fields of visible ASCII characters.",
            Self::Service {
                status: 429 | 503, ..
            } => "Try again later.",
            Self::Service { .. } => "Correct what the code names.",
            Self::IndexHistory(error) => error.remedy(),
            Self::IndexHeads(error) => error.remedy(),
            Self::AnswerInvalid | Self::IndexAnswerInvalid => {
                "Update the client, and report it if it stays."
            }
            Self::NoRandomness | Self::Internal => {
                "Restart the program, and report it if it stays."
            }
        }
    }

    /// Returns whether the same request may succeed later: no answer came, or a temporary refusal. False for an address that the
    /// host does not serve, and for errors that a network failure cannot cause.
    pub fn is_transient(&self) -> bool {
        match self {
            // Another replica answered twice: the next attempt verifies again, too.
            Self::Channel(channel::Error::Stale) | Self::KeyUnknownTwice => true,
            Self::Channel(error) => error.is_transient(),
            Self::Unreachable(problem) if problem.code == CERTIFICATE_UNTRUSTED => false,
            Self::Unreachable(problem) => problem
                .status
                .is_none_or(|status| status == 429 || status >= 500),
            Self::Service { status, .. } => matches!(status, 429 | 503),
            // The connection or the enclave was lost in the middle of a stream.
            Self::Exchange(ExchangeError::Chunk(ChunkError::CutOff)) => true,
            Self::Exchange(error) => error.is_stale(),
            _ => false,
        }
    }

    /// Returns whether a text is the reason. Without that text, the others of the request may be embedded.
    pub fn is_about_input(&self) -> bool {
        match self {
            Self::TextTooLong { .. } => true,
            Self::Service { param, .. } => param.as_deref() == Some("input"),
            _ => false,
        }
    }

    /// Copies the error for another caller that waited for the same attestation.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::NoPolicy => Self::NoPolicy,
            Self::PolicyUnusable => Self::PolicyUnusable,
            Self::Unreachable(problem) => Self::Unreachable(Arc::clone(problem)),
            Self::NotEvidence => Self::NotEvidence,
            Self::Refused(report) => Self::Refused(Arc::clone(report)),
            Self::Withdrawn(report) => Self::Withdrawn(Arc::clone(report)),
            Self::NoRandomness => Self::NoRandomness,
            // An attestation fails with nothing else.
            _ => Self::Internal,
        }
    }

    /// Returns whether another upstream may answer the request. False for requests that any enclave would refuse.
    pub(crate) fn is_local_to_upstream(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::NotEvidence
            | Self::Refused(_)
            | Self::Withdrawn(_)
            | Self::NoPolicy
            | Self::PolicyUnusable
            | Self::KeyUnknownTwice
            | Self::ExpiredTwice => true,
            // An answer that cannot be relied on is not used; another enclave's is judged by itself.
            Self::Exchange(error) => matches!(
                error,
                ExchangeError::Expired
                    | ExchangeError::NoKey
                    | ExchangeError::Seal(_)
                    | ExchangeError::Chunk(_)
                    | ExchangeError::NoReceipt
                    | ExchangeError::ReceiptRefused(_)
            ),
            _ => false,
        }
    }

    /// Selects the error to report if one upstream failed with `self` and the next one with `next`. A withdrawn policy takes precedence
    /// over all others, refused evidence over an upstream without any answer, and otherwise a transient error over a permanent one.
    pub(crate) fn then(self, next: Self) -> Self {
        let is_silent =
            |error: &Self| matches!(error, Self::Unreachable(problem) if problem.status.is_none());
        match (&self, &next) {
            (Self::Withdrawn(_), _) => self,
            (_, Self::Withdrawn(_)) => next,
            (Self::Refused(_), _) if is_silent(&next) => self,
            (_, Self::Refused(_)) if is_silent(&self) => next,
            _ if self.is_transient() && !next.is_transient() => self,
            _ => next,
        }
    }
}

fn refusal_code(report: &AttestationReport) -> &str {
    report.code.as_deref().unwrap_or("ATTESTATION_REFUSED")
}
