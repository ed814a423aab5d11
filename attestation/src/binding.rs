//! Stage 4: are these the keys of that enclave? Check 25. The only place that hands out keys.

use crate::appraise::AppraisedAttestation;
use crate::document::{Claims, excerpt};
use crate::error::{AttestationError, ErrorCode};
use crate::keyconfig::KeyConfig;
use crate::manifest::{MAX_MANIFEST, SecurityMode, ServiceManifest, manifest_binding};
use crate::report::{Ladder, Verdict};
use crate::time::UnixMillis;
use base16ct::lower::encode_string as hex;
use sha2::{Digest, Sha256};

impl AppraisedAttestation {
    /// Check 25: `manifest` is the one that the enclave had signed, and what it says is what the policy demands.
    pub fn bind(
        self,
        manifest: &[u8],
        ladder: &mut Ladder,
    ) -> Result<VerifiedAttestation, AttestationError> {
        self.bind_checked(manifest, ladder)
            .map_err(|error| error.mark(ladder))
    }

    fn bind_checked(
        self,
        bytes: &[u8],
        ladder: &mut Ladder,
    ) -> Result<VerifiedAttestation, AttestationError> {
        if bytes.len() > MAX_MANIFEST {
            let observed = format!("{} bytes, at most {MAX_MANIFEST}", bytes.len());
            return Err(AttestationError::new(
                ErrorCode::ManifestMalformed,
                observed,
            ));
        }
        // The hash first: what nobody attested is not worth parsing.
        let binding = manifest_binding(bytes);
        if self.claims().user_data.as_deref() != Some(&binding[..]) {
            let theirs = self
                .claims()
                .user_data
                .as_deref()
                .map_or("null".to_owned(), excerpt);
            let observed = format!(
                "user_data {theirs}, this manifest's hash {}",
                excerpt(&binding)
            );
            return Err(AttestationError::new(ErrorCode::ManifestMismatch, observed));
        }
        let manifest = ServiceManifest::decode(bytes).map_err(|error| {
            AttestationError::new(ErrorCode::ManifestMalformed, error.to_string())
        })?;
        self.check_public_key(&manifest)?;
        self.check_service(&manifest)?;
        self.check_manifest_time(&manifest)?;
        ladder.pass(
            25,
            format!(
                "Manifest {}, {} keys",
                excerpt(&binding[..8]),
                manifest.sealing_keys.len()
            ),
        );
        let manifest_sha256 = Sha256::digest(bytes).into();
        Ok(VerifiedAttestation {
            appraised: self,
            manifest,
            manifest_sha256,
        })
    }

    fn check_public_key(&self, manifest: &ServiceManifest) -> Result<(), AttestationError> {
        let attested = self.claims().public_key.as_deref();
        // An empty key is well-formed (12), and refused here, where it would be used.
        if attested.is_none_or(<[u8]>::is_empty) || attested != manifest.x25519_key() {
            let attested = attested.map_or("null".to_owned(), excerpt);
            let named = manifest.x25519_key().map_or("none".to_owned(), excerpt);
            let observed = format!("public_key {attested}, manifest {named}");
            return Err(AttestationError::new(
                ErrorCode::PublicKeyMismatch,
                observed,
            ));
        }
        Ok(())
    }

    /// A policy that does not name model, version or mode binds nothing to them: it refuses rather than assumes.
    fn check_service(&self, manifest: &ServiceManifest) -> Result<(), AttestationError> {
        let policy = &self.policy;
        let model = policy.model.as_ref();
        if model.is_none_or(|model| {
            model.id != manifest.model.id || model.sha256 != manifest.model.sha256
        }) {
            let named = |id: &str, sha256: &[u8]| format!("{id:?} {}…", hex(&sha256[..8]));
            let observed = format!(
                "model {}, policy {}",
                named(&manifest.model.id, &manifest.model.sha256),
                model.map_or("names none".to_owned(), |model| named(
                    &model.id,
                    &model.sha256
                ))
            );
            return Err(AttestationError::new(ErrorCode::ModelMismatch, observed));
        }
        let version = policy.policy_version.as_deref();
        if version != Some(&manifest.policy_version) {
            let observed = format!(
                "{:?}, policy {:?}",
                manifest.policy_version,
                version.unwrap_or("names none")
            );
            return Err(AttestationError::new(
                ErrorCode::PolicyVersionMismatch,
                observed,
            ));
        }
        if policy.security_mode != Some(manifest.security_mode) {
            let observed = format!(
                "{}, policy {}",
                manifest.security_mode.as_str(),
                policy
                    .security_mode
                    .map_or("names none", SecurityMode::as_str)
            );
            return Err(AttestationError::new(
                ErrorCode::SecurityModeMismatch,
                observed,
            ));
        }
        Ok(())
    }

    fn check_manifest_time(&self, manifest: &ServiceManifest) -> Result<(), AttestationError> {
        let now = self.authentic.at.seconds();
        let early = now.saturating_add(self.policy.clock_skew_seconds) < manifest.not_before;
        if early || now > manifest.not_after {
            let [from, until] =
                [manifest.not_before, manifest.not_after].map(UnixMillis::from_seconds);
            let observed = format!(
                "valid from {from} until {until}, judged as of {}",
                self.authentic.at
            );
            return Err(AttestationError::new(ErrorCode::ManifestNotValid, observed));
        }
        Ok(())
    }
}

/// Passed signature, freshness, measurements and key binding: the only source of keys.
#[derive(Clone, Debug)]
pub struct VerifiedAttestation {
    appraised: AppraisedAttestation,
    manifest: ServiceManifest,
    manifest_sha256: [u8; 32],
}

impl VerifiedAttestation {
    /// [`Verdict::Verified`], or [`Verdict::Simulated`] under a development root or a policy that the server supplied.
    pub fn verdict(&self) -> Verdict {
        self.appraised.verdict
    }

    /// What the hypervisor says about the enclave.
    pub fn claims(&self) -> &Claims {
        self.appraised.claims()
    }

    /// What the enclave says about itself.
    pub fn manifest(&self) -> &ServiceManifest {
        &self.manifest
    }

    /// SHA-256 of the manifest's bytes.
    pub fn manifest_sha256(&self) -> [u8; 32] {
        self.manifest_sha256
    }

    /// SHA-256 of the document's bytes, as receipts name it.
    pub fn document_sha256(&self) -> [u8; 32] {
        self.appraised.authentic.sha256
    }

    /// Name of the release whose measurements matched.
    pub fn release(&self) -> &str {
        &self.appraised.release
    }

    /// The moment that this verdict speaks of.
    pub fn judged_at(&self) -> UnixMillis {
        self.appraised.authentic.at
    }

    /// The last moment at which the keys may be used: when leaf or manifest end, whichever is first.
    pub fn valid_until(&self) -> UnixMillis {
        UnixMillis::from_seconds(
            self.appraised
                .authentic
                .leaf_not_after
                .min(self.manifest.not_after),
        )
    }

    /// Keys to seal requests to, X-Wing first.
    pub fn sealing_keys(&self) -> Vec<SealingKey> {
        let keys = self.manifest.preferred_keys().cloned();
        keys.map(|config| SealingKey { config }).collect()
    }

    /// The key that receipts are signed with.
    pub fn receipt_key(&self) -> ReceiptKey {
        ReceiptKey {
            bytes: self.manifest.receipt_key,
        }
    }
}

/// A public key that an enclave holds the other half of. Comes from a [`VerifiedAttestation`], and from nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealingKey {
    config: KeyConfig,
}

impl SealingKey {
    /// Identifier, mechanism and bytes of the key.
    pub fn config(&self) -> &KeyConfig {
        &self.config
    }

    /// A key that nobody attested: whoever made it reads what is sealed to it. For tests and interoperability only.
    pub fn dangerous_unattested(config: KeyConfig) -> Self {
        Self { config }
    }
}

/// The Ed25519 key that an enclave signs receipts with. Comes from a [`VerifiedAttestation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptKey {
    bytes: [u8; 32],
}

impl ReceiptKey {
    /// The key.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// A key that nobody attested: a receipt under it shows who signed, not that an enclave did.
    pub fn dangerous_unattested(bytes: [u8; 32]) -> Self {
        Self { bytes }
    }
}
