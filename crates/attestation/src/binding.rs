//! Stage 4: do these keys belong to the enclave? Check 25. The only code that returns keys.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::appraise::AppraisedAttestation;
use crate::checks::CheckId;
use crate::claims::Claims;
use crate::error::{AttestationError, ErrorCode};
use crate::keyconfig::KeyConfig;
use crate::manifest::{MAX_MANIFEST, ManifestError, ModelPin, ServiceManifest, manifest_binding};
use crate::observed::{Observed, excerpt};
use crate::report::{CheckLog, Proof, Verdict};
use crate::time::{ClockOffset, UnixMillis};

impl AppraisedAttestation {
    /// Check 25: `manifest` is the one whose hash the enclave had signed, and it meets the policy's demands.
    pub fn bind(
        self,
        manifest: &[u8],
        log: &mut CheckLog<CheckId>,
    ) -> Result<VerifiedAttestation, AttestationError> {
        self.bind_checked(manifest, log)
            .map_err(|error| error.mark(log))
    }

    fn bind_checked(
        self,
        bytes: &[u8],
        log: &mut CheckLog<CheckId>,
    ) -> Result<VerifiedAttestation, AttestationError> {
        if bytes.len() > MAX_MANIFEST {
            let observed = Observed::Manifest(ManifestError::TooLarge);
            return Err(AttestationError::new(
                ErrorCode::ManifestMalformed,
                observed,
            ));
        }
        // Compare the hash first: unattested bytes are not parsed.
        let binding = manifest_binding(bytes);
        if self.claims().user_data.as_deref() != Some(&binding[..]) {
            let observed = Observed::Differs {
                field: "user_data",
                attested: self.claims().user_data.clone(),
                whose: "this manifest's hash",
                demanded: Some(binding.to_vec()),
            };
            return Err(AttestationError::new(ErrorCode::ManifestMismatch, observed));
        }
        let mut manifest = ServiceManifest::decode(bytes).map_err(|error| {
            AttestationError::new(ErrorCode::ManifestMalformed, Observed::Manifest(error))
        })?;
        self.check_public_key(&manifest)?;
        self.check_service(&mut manifest)?;
        self.check_manifest_time(&manifest)?;
        log.pass(
            CheckId::Binding,
            format!(
                "Manifest {}, {} keys",
                excerpt(&binding[..8]),
                manifest.sealing_keys.len()
            ),
        );
        let manifest_sha256 = Sha256::digest(bytes).into();
        // Checks 1 to 25 have run. Without a nonce to compare, 24 was skipped, so the current owner of the keys is unknown.
        let verdict = match (self.genuine, self.fresh) {
            (false, _) => Verdict::Simulated,
            (true, false) => Verdict::Authentic,
            (true, true) => Verdict::Verified(Proof::of_all_checks()),
        };
        Ok(VerifiedAttestation {
            appraised: self,
            verdict,
            manifest,
            manifest_sha256,
        })
    }

    fn check_public_key(&self, manifest: &ServiceManifest) -> Result<(), AttestationError> {
        let attested = self.claims().public_key.as_deref();
        // An empty key is well-formed (12), and is refused here, where it would be used.
        if attested.is_none_or(<[u8]>::is_empty) || attested != manifest.x25519_key() {
            let observed = Observed::Differs {
                field: "public_key",
                attested: attested.map(<[u8]>::to_vec),
                whose: "manifest",
                demanded: manifest.x25519_key().map(<[u8]>::to_vec),
            };
            return Err(AttestationError::new(
                ErrorCode::PublicKeyMismatch,
                observed,
            ));
        }
        Ok(())
    }

    /// A policy that names no model, version or mode cannot bind them, so the manifest is refused rather than assumed to fit. The
    /// policy's model becomes the manifest's first.
    fn check_service(&self, manifest: &mut ServiceManifest) -> Result<(), AttestationError> {
        let policy = &self.policy;
        let model = policy.model.as_ref();
        if !model.is_some_and(|model| manifest.choose_model(model)) {
            let observed = Observed::Model {
                service: ModelPin::of(&manifest.model),
                policy: model.cloned(),
            };
            return Err(AttestationError::new(ErrorCode::ModelMismatch, observed));
        }
        let version = policy.policy_version.as_deref();
        if version != Some(&manifest.policy_version) {
            let observed = Observed::PolicyVersion {
                service: manifest.policy_version.clone(),
                policy: version.map(str::to_owned),
            };
            return Err(AttestationError::new(
                ErrorCode::PolicyVersionMismatch,
                observed,
            ));
        }
        if policy.security_mode != Some(manifest.security_mode) {
            let observed = Observed::SecurityMode {
                service: manifest.security_mode,
                policy: policy.security_mode,
            };
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
            let observed = Observed::ManifestTime {
                from: UnixMillis::from_seconds(manifest.not_before),
                until: UnixMillis::from_seconds(manifest.not_after),
                at: self.authentic.at,
            };
            return Err(AttestationError::new(ErrorCode::ManifestNotValid, observed));
        }
        Ok(())
    }
}

/// Passed signature, freshness, measurements and key binding: the only source of keys.
#[derive(Clone, Debug)]
pub struct VerifiedAttestation {
    appraised: AppraisedAttestation,
    verdict: Verdict,
    manifest: ServiceManifest,
    manifest_sha256: [u8; 32],
}

impl VerifiedAttestation {
    /// [`Verdict::Verified`]; [`Verdict::Simulated`] where the caller accepted that.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The hypervisor's claims about the enclave.
    pub fn claims(&self) -> &Claims {
        self.appraised.claims()
    }

    /// The enclave's description of itself, with the policy's model first.
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

    /// The moment that this verdict applies to.
    pub fn judged_at(&self) -> UnixMillis {
        self.appraised.authentic.at
    }

    /// Whether the document answered the verifier's own nonce at that moment. Requests are sealed only under such an attestation. An
    /// appraisal at another moment shows who held the keys then, not who holds them now.
    pub fn is_live(&self) -> bool {
        self.appraised.live
    }

    /// The last moment at which the keys may be used, by the enclave's clock: the earliest end among manifest, leaf, every
    /// issuing certificate, release and policy, and the revocation lists where the policy requires them.
    pub fn valid_until(&self) -> UnixMillis {
        let Self { appraised, .. } = self;
        let seconds = appraised
            .authentic
            .chain_not_after
            .min(self.manifest.not_after);
        let until = UnixMillis::from_seconds(seconds);
        appraised.accepted_until.map_or(until, |end| end.min(until))
    }

    /// Ranges of the revocation lists that check 27 used, among the bytes that were given: those that cover a certificate of
    /// this chain, each once. The others are not needed to appraise it again.
    pub fn crls(&self) -> &[Range<usize>] {
        &self.appraised.authentic.revocation.lists
    }

    /// Offset of the enclave's clock from the verifier's, measured by a live check; zero if the document was appraised later.
    pub fn clock_offset(&self) -> ClockOffset {
        self.appraised.clock_offset
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

/// A public key whose private half the enclave holds. Comes only from a [`VerifiedAttestation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealingKey {
    config: KeyConfig,
}

impl SealingKey {
    /// A key that stage 4 or an endorsement has verified.
    pub(crate) fn attested(config: KeyConfig) -> Self {
        Self { config }
    }

    /// Identifier, mechanism and bytes of the key.
    pub fn config(&self) -> &KeyConfig {
        &self.config
    }

    /// A key without attestation: its maker can read the requests sealed to it. For tests and interoperability only.
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

    /// A key without attestation: a receipt under it shows who signed, not that an enclave did.
    pub fn dangerous_unattested(bytes: [u8; 32]) -> Self {
        Self { bytes }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use forge::{Contents, DevelopmentRoot, Issuer};
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::anchor::TrustAnchor;
    use crate::appraise::Freshness;
    use crate::document::AttestationDocument;
    use crate::manifest::{ModelIdentity, SecurityMode};
    use crate::policy::Policy;
    use crate::{Aead, HashScheme, Kdf, Kem, SignatureMemory};

    const NOW: UnixMillis = UnixMillis(1_800_000_000_500);

    /// AWS's key signs nothing in tests, so `genuine` is set by hand before the last check.
    #[test]
    fn verified_takes_all_checks_a_nonce_and_what_is_genuine() {
        for (genuine, nonce, expected) in [
            (true, true, "verified"),
            (true, false, "authentic"),
            (false, true, "simulated"),
            (false, false, "simulated"),
        ] {
            let (mut appraised, manifest) = appraised(nonce);
            appraised.genuine = genuine;
            let bound = appraised.bind(&manifest, &mut CheckLog::new()).unwrap();
            assert_eq!(bound.verdict().as_str(), expected);
        }
        let (mut appraised, mut manifest) = appraised(true);
        appraised.genuine = true;
        manifest[20] ^= 1;
        assert!(appraised.bind(&manifest, &mut CheckLog::new()).is_err());
    }

    fn appraised(with_nonce: bool) -> (AppraisedAttestation, Vec<u8>) {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let issuer = Issuer::new(DevelopmentRoot::generate(&mut rng, NOW.0), &mut rng, NOW.0);
        let anchor = TrustAnchor::development(issuer.root_der()).unwrap();
        let manifest = ServiceManifest {
            version: 1,
            sealing_keys: vec![KeyConfig {
                key_id: 1,
                kem: Kem::X25519,
                public_key: vec![2; 32],
                symmetric: vec![(Kdf::HkdfSha256, Aead::ChaCha20Poly1305)],
            }],
            receipt_key: [3; 32],
            model: ModelIdentity {
                id: "model".to_owned(),
                version: "1".to_owned(),
                sha256: [4; 32],
                hash_scheme: HashScheme::Sha256Manifest,
                dimension: 384,
                max_tokens: 256,
                normalised: true,
            },
            others: Vec::new(),
            policy_version: "1".to_owned(),
            security_mode: SecurityMode::Production,
            not_before: NOW.seconds() - 60,
            not_after: NOW.seconds() + 60,
        };
        let bytes = manifest.encode().unwrap();
        let contents = Contents {
            user_data: Some(manifest_binding(&bytes).to_vec()),
            public_key: Some(vec![2; 32]),
            nonce: Some(vec![5; 32]),
            ..Contents::example()
        };
        let policy = Policy::for_development(
            anchor.clone(),
            BTreeMap::from([(0, contents.pcrs[&0])]),
            &manifest,
        )
        .unwrap();
        let document = issuer.forge(&contents, NOW.0).build();
        let mut log = CheckLog::new();
        let freshness = match with_nonce {
            true => Freshness::Live {
                nonce: &[5; 32],
                now: NOW,
            },
            false => Freshness::At {
                time: NOW,
                nonce: None,
            },
        };
        let appraised = AttestationDocument::parse(&document, &mut log)
            .and_then(|document| {
                document.authenticate(&anchor, NOW, &mut SignatureMemory::new(), &mut log)
            })
            .and_then(|authentic| authentic.appraise(&policy, freshness, &mut log));
        (appraised.unwrap(), bytes)
    }
}
