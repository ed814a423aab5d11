//! What is known of an upstream.

use std::sync::Arc;

use attestation::report::AttestationReport;
use attestation::{ServiceManifest, UnixMillis, Verdict, VerifiedAttestation};

use crate::error::Problem;

/// What is known of one upstream. Nothing is sealed except in [`State::Trusted`] and, where the caller accepted that,
/// [`State::Simulated`].
#[derive(Clone, Debug, Default)]
pub enum State {
    /// Nothing was asked yet.
    #[default]
    Idle,
    /// The first evidence is on its way, or is being judged.
    Checking,
    /// Verified: every check passed, under AWS's root.
    Trusted(Arc<Session>),
    /// Every check passed under a development root. Proves nothing about hardware.
    Simulated(Arc<Session>),
    /// Judged and refused.
    Refused(Arc<AttestationReport>),
    /// No evidence came.
    Unreachable(Arc<Problem>),
}

impl State {
    /// The session, where there is one. It may be over: see [`Session::is_valid`].
    pub fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Trusted(session) | Self::Simulated(session) => Some(session),
            Self::Idle | Self::Checking | Self::Refused(_) | Self::Unreachable(_) => None,
        }
    }

    /// One word: `idle`, `checking`, `trusted`, `simulated`, `refused`, `unreachable`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Checking => "checking",
            Self::Trusted(_) => "trusted",
            Self::Simulated(_) => "simulated",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

/// An enclave that proved itself, and its evidence.
#[derive(Debug)]
pub struct Session {
    pub(crate) attestation: VerifiedAttestation,
    pub(crate) report: AttestationReport,
    pub(crate) document: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
}

impl Session {
    /// The judgement, every check a row.
    pub fn report(&self) -> &AttestationReport {
        &self.report
    }

    /// Verified or simulated.
    pub fn verdict(&self) -> Verdict {
        self.attestation.verdict()
    }

    /// What the enclave says of itself: model, keys, validity.
    pub fn manifest(&self) -> &ServiceManifest {
        self.attestation.manifest()
    }

    /// The attested enclave, for those who seal by hand.
    pub fn attestation(&self) -> &VerifiedAttestation {
        &self.attestation
    }

    /// The attestation document as it came.
    pub fn document_bytes(&self) -> &[u8] {
        &self.document
    }

    /// The service manifest as it came.
    pub fn manifest_bytes(&self) -> &[u8] {
        &self.manifest
    }

    /// The last moment at which requests are sealed under this proof, by the client's clock.
    pub fn valid_until(&self) -> UnixMillis {
        let offset = self.attestation.clock_offset();
        offset.to_local(self.attestation.valid_until())
    }

    /// Whether requests may still be sealed under this proof.
    pub fn is_valid(&self, now: UnixMillis) -> bool {
        now <= self.valid_until()
    }

    /// Hint for a load balancer: hex of the first 8 bytes of SHA-256 of the manifest.
    pub(crate) fn hint(&self) -> String {
        base16ct::lower::encode_string(&self.attestation.manifest_sha256()[..8])
    }
}
