//! Sources of a trust policy, polled while a client runs.

mod file;
mod record;
mod signed;

use std::path::PathBuf;
use std::time::Duration;

use attestation::PolicyError;

use crate::error::Error;
use crate::witnesses::TrustPolicy;
use file::PolicyFile;
use signed::SignedPolicy;

/// Interval at which a file is read. A change takes effect within this time.
const FILE_EVERY: Duration = Duration::from_secs(2);
/// Interval at which a signed policy is fetched.
const SIGNED_EVERY: Duration = Duration::from_secs(60);

/// A place that trust policies come from. A change there is taken into use by [`Client::follow`](crate::Client::follow).
pub struct PolicySource {
    place: Place,
    every: Duration,
    /// Of the last [`load`](Self::load).
    problem: Option<SourceError>,
}

enum Place {
    File(PolicyFile),
    Signed(Box<SignedPolicy>),
}

/// A policy, where it is another one than before, and a problem that does not keep it from being used.
pub(crate) struct Polled {
    pub(crate) policy: Option<TrustPolicy>,
    pub(crate) problem: Option<SourceError>,
}

/// Why no policy came. The one before it stays in force.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum SourceError {
    /// The file of the trust policy is missing or cannot be read.
    #[error("the trust policy {} cannot be read ({reason})", .path.display())]
    #[coded(
        "POLICY_FILE_UNREADABLE",
        remedy = "Put the file back. Until then the trust policy that was read last stays in force."
    )]
    FileUnreadable {
        /// Its path.
        path: PathBuf,
        /// The operating system's word.
        reason: std::io::Error,
    },
    /// The bytes are not a policy that can be used.
    #[error("{place} is not a usable trust policy: {error}")]
    #[coded(from = error)]
    Unusable {
        /// Path or address.
        place: String,
        /// Why.
        error: PolicyError,
    },
    /// The publisher's key is not one.
    #[error("the key of the trust policy's publisher is not a minisign key")]
    #[coded(
        "POLICY_KEY_MALFORMED",
        remedy = "Pass the publisher's key: two lines, or the second of them, as in RW…."
    )]
    KeyMalformed,
    /// The signed policy did not come.
    #[error("the signed trust policy cannot be fetched: {reason} ({code})")]
    #[coded(
        "POLICY_NOT_FETCHED",
        remedy = "Check the address and the network. Until a policy comes the one before it stays in force, to its end."
    )]
    NotFetched {
        /// Sentence that says what happened.
        reason: String,
        /// Code of that.
        code: String,
    },
    /// The bytes at the signature's address are not a signature.
    #[error("the trust policy's signature is not a minisign signature over a hashed file")]
    #[coded(
        "POLICY_SIGNATURE_MALFORMED",
        remedy = "Serve the signature that minisign makes at the policy's address with .minisig after it."
    )]
    SignatureMalformed,
    /// Signed by somebody else.
    #[error("the trust policy is signed by another key than its publisher's")]
    #[coded(
        "POLICY_SIGNED_BY_OTHER",
        remedy = "Suspect who serves it. If the publisher has a new key, get that from where you got the first."
    )]
    OtherKey,
    /// The signature is over something else.
    #[error("the signature is not over this trust policy")]
    #[coded(
        "POLICY_SIGNATURE_INVALID",
        remedy = "If it stays, suspect who serves it; for a moment policy and signature may be of two versions."
    )]
    SignatureInvalid,
    /// A signed policy without a number.
    #[error("the signed trust policy has no sequence number")]
    #[coded(
        "POLICY_NOT_NUMBERED",
        remedy = "Add `sequence` to the policy, greater than that of the one before, and sign it again."
    )]
    NotNumbered,
    /// A signed policy that never ends could be kept back for ever.
    #[error("the signed trust policy has no end")]
    #[coded(
        "POLICY_WITHOUT_END",
        remedy = "Add `not_after` to the policy, some days from now, and sign it again."
    )]
    NoEnd,
    /// An older policy than one that was seen.
    #[error("the trust policy has the number {offered}, and number {highest} was seen already")]
    #[coded(
        "POLICY_ROLLED_BACK",
        remedy = "Suspect who serves it: an older policy may accept a release that was withdrawn."
    )]
    RolledBack {
        /// Its number.
        offered: u64,
        /// The highest that was seen.
        highest: u64,
    },
    /// Two policies under one number.
    #[error("another trust policy with the number {sequence} was seen already")]
    #[coded(
        "POLICY_SEQUENCE_REUSED",
        remedy = "Publish each policy under its own number. If its publisher did, suspect the publisher's key."
    )]
    SequenceReused {
        /// The number.
        sequence: u64,
    },
    /// The file of the highest number cannot be read.
    #[error("{} does not hold the highest policy number of this publisher", .path.display())]
    #[coded(
        "POLICY_STATE_UNREADABLE",
        remedy = "Restore the file. Remove it only if you know that no one rolled the policy back."
    )]
    StateUnreadable {
        /// Its path.
        path: PathBuf,
    },
    /// The highest number could not be written. The policy counts all the same.
    #[error("the highest policy number cannot be written to {} ({reason})", .path.display())]
    #[coded(
        "POLICY_STATE_NOT_WRITTEN",
        remedy = "Make the file writable: after a restart an older policy would be accepted."
    )]
    StateNotWritten {
        /// Its path.
        path: PathBuf,
        /// The operating system's word.
        reason: std::io::Error,
    },
    /// A background thread ended early.
    #[error("a worker of this program ended before its work was done")]
    #[coded("INTERNAL", remedy = "Restart the program, and report it if it stays.")]
    Internal,
}

impl PolicySource {
    /// A file, which its owner replaces or edits. It is looked at every two seconds. A pipe is read once.
    ///
    /// Anyone who can write the file decides whom this client trusts.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            place: Place::File(PolicyFile::new(path.into())),
            every: FILE_EVERY,
            problem: None,
        }
    }

    /// A policy that its publisher signs with minisign: `url` gives the policy, the same with `.minisig` after it the signature.
    /// It is asked for every minute, needs a `sequence` and a `not_after`, and one with a lower number than was seen is refused.
    /// `key` is the publisher's, two lines or the second of them.
    ///
    /// `state` is a file for the highest number, so that a restart does not forget it. Without one an older policy that has not
    /// ended is accepted after a restart.
    ///
    /// # Errors
    /// [`SourceError::KeyMalformed`], [`SourceError::StateUnreadable`], and [`SourceError::NotFetched`] for an address that is not
    /// one.
    pub fn signed(url: &str, key: &str, state: Option<PathBuf>) -> Result<Self, SourceError> {
        Ok(Self {
            place: Place::Signed(Box::new(SignedPolicy::new(url, key, state)?)),
            every: SIGNED_EVERY,
            problem: None,
        })
    }

    /// Looks as often as this; at least every 100 ms, at most once a day.
    #[must_use]
    pub fn every(self, time: Duration) -> Self {
        Self {
            every: time.clamp(Duration::from_millis(100), Duration::from_hours(24)),
            ..self
        }
    }

    /// The policy to begin with. See [`problem`](Self::problem), too.
    ///
    /// # Errors
    /// [`SourceError`].
    pub async fn load(&mut self) -> Result<TrustPolicy, SourceError> {
        let Polled { policy, problem } = self.poll().await?;
        self.problem = problem;
        policy.ok_or(SourceError::Internal)
    }

    /// Returns a problem that [`load`](Self::load) met and that does not prevent use of the policy.
    /// [`Client::follow`](crate::Client::follow) tells it first.
    pub fn problem(&self) -> Option<&SourceError> {
        self.problem.as_ref()
    }

    pub(crate) fn take_problem(&mut self) -> Option<SourceError> {
        self.problem.take()
    }

    pub(crate) async fn poll(&mut self) -> Result<Polled, SourceError> {
        match &mut self.place {
            Place::File(file) => Ok(Polled {
                policy: file.poll().await?,
                problem: None,
            }),
            Place::Signed(signed) => signed.poll().await,
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.every
    }
}

impl SourceError {
    fn not_fetched(error: &Error) -> Self {
        Self::NotFetched {
            reason: error.to_string(),
            code: error.code().to_owned(),
        }
    }
}
