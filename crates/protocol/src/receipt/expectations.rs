//! A verifier's prior knowledge, with which it compares a receipt.

use std::collections::BTreeMap;

use attestation::{HashScheme, ReceiptKey, SecurityMode, UnixMillis, Verdict, VerifiedAttestation};

use super::claims::Platform;

/// Origin of the key; limits the best verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrigin {
    /// From a verified attestation with this verdict.
    Attested(Verdict),
    /// Named by the caller: shows who signed, not that an enclave did.
    Named,
}

/// The key, and the values that the claims are compared with. A `None` is not compared, and its row states so.
#[derive(Clone, Debug)]
pub struct Expectations {
    key: ReceiptKey,
    origin: KeyOrigin,
    /// Platform that measured.
    pub platform: Option<Platform>,
    /// SHA-256 of the attestation document.
    pub document_hash: Option<[u8; 32]>,
    /// Registers of that document.
    pub registers: Option<BTreeMap<u8, [u8; 48]>>,
    /// Name of the model.
    pub model_id: Option<String>,
    /// Version of the model.
    pub model_version: Option<String>,
    /// SHA-256 of the model's artifacts.
    pub model_hash: Option<[u8; 32]>,
    /// Hash scheme of the artifacts. A receipt need not state it.
    pub model_hash_scheme: Option<HashScheme>,
    /// Version of the policy.
    pub policy_version: Option<String>,
    /// Mode of the service.
    pub security_mode: Option<SecurityMode>,
    /// Commitment to the request.
    pub request_hash: Option<[u8; 32]>,
    /// Commitment to the response.
    pub response_hash: Option<[u8; 32]>,
    /// The client's nonce.
    pub nonce: Option<Vec<u8>>,
    /// When the receipt must have been issued.
    pub window: Option<Window>,
}

/// A span of time around the appraised moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The appraised moment.
    pub at: UnixMillis,
    /// How long before it a receipt may have been issued.
    pub max_age_seconds: u64,
    /// How far after it a receipt may have been issued, because clocks differ.
    pub clock_skew_seconds: u64,
}

impl Expectations {
    /// All expectations from an attestation: key, document, registers, model, policy version, mode.
    pub fn of(attestation: &VerifiedAttestation) -> Self {
        let manifest = attestation.manifest();
        Self {
            platform: Some(Platform::NitroPcr),
            document_hash: Some(attestation.document_sha256()),
            registers: Some(attestation.claims().pcrs.clone()),
            model_id: Some(manifest.model.id.clone()),
            model_version: Some(manifest.model.version.clone()),
            model_hash: Some(manifest.model.sha256),
            model_hash_scheme: Some(manifest.model.hash_scheme),
            policy_version: Some(manifest.policy_version.clone()),
            security_mode: Some(manifest.security_mode),
            ..Self::none(
                attestation.receipt_key(),
                KeyOrigin::Attested(attestation.verdict()),
            )
        }
    }

    /// A key without other expectations: shows that its holder signed, not that an enclave did.
    pub fn dangerous_unattested(key: ReceiptKey) -> Self {
        Self::none(key, KeyOrigin::Named)
    }

    /// The key to verify with.
    pub fn key(&self) -> &ReceiptKey {
        &self.key
    }

    /// Origin of the key.
    pub fn origin(&self) -> KeyOrigin {
        self.origin
    }

    fn none(key: ReceiptKey, origin: KeyOrigin) -> Self {
        Self {
            key,
            origin,
            platform: None,
            document_hash: None,
            registers: None,
            model_id: None,
            model_version: None,
            model_hash: None,
            model_hash_scheme: None,
            policy_version: None,
            security_mode: None,
            request_hash: None,
            response_hash: None,
            nonce: None,
            window: None,
        }
    }
}
