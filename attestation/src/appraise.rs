//! Stages 3 and 4: is it the released image, now, and are these its keys? Checks 17 and 22 to 25.

use crate::document::{AuthenticAttestation, Claims, excerpt};
use crate::error::{AttestationError, ErrorCode};
use crate::keyconfig::KeyConfig;
use crate::manifest::{MAX_MANIFEST, SecurityMode, ServiceManifest, manifest_binding};
use crate::policy::{Policy, Release};
use crate::report::{Ladder, Verdict};
use crate::time::UnixMillis;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Fewest bytes of a nonce that nobody can have foreseen.
const MIN_NONCE: usize = 16;

/// At which moment a document is judged, and whether it must be an answer to us.
#[derive(Clone, Copy, Debug)]
pub enum Freshness<'a> {
    /// A live connection: the document must answer our nonce, and be young.
    Live {
        /// What we sent: at least 16 random bytes, used once.
        nonce: &'a [u8],
        /// The verifier's own clock.
        now: UnixMillis,
    },
    /// An audit: the document is judged as of a past moment, which the verdict names. Its age is not asked.
    At {
        /// The moment, for one the receipt's time.
        time: UnixMillis,
        /// The nonce of that connection, where it is known.
        nonce: Option<&'a [u8]>,
    },
}

impl Freshness<'_> {
    /// The judged moment.
    pub fn time(&self) -> UnixMillis {
        match self {
            Self::Live { now, .. } => *now,
            Self::At { time, .. } => *time,
        }
    }
}

impl AuthenticAttestation {
    /// Checks 22 to 24 against `policy`, and that the chain was judged at the same moment (17).
    pub fn appraise(
        self,
        policy: &Policy,
        freshness: Freshness<'_>,
        ladder: &mut Ladder,
    ) -> Result<AppraisedAttestation, AttestationError> {
        self.appraise_checked(policy, freshness, ladder)
            .map_err(|error| error.mark(ladder))
    }

    fn appraise_checked(
        self,
        policy: &Policy,
        freshness: Freshness<'_>,
        ladder: &mut Ladder,
    ) -> Result<AppraisedAttestation, AttestationError> {
        self.check_judged_time(&freshness, ladder)?;
        let debug = self.claims().debug_mode();
        check_debug_mode(debug, policy, ladder)?;
        let release = check_measurements(self.claims(), policy, freshness.time(), ladder)?;
        check_freshness(self.claims(), policy, freshness, ladder)?;
        // The anchor that the chain was verified under decides, not the one that the policy names.
        let proves = policy.proves() && self.aws && !debug;
        Ok(AppraisedAttestation {
            verdict: if proves {
                Verdict::Verified
            } else {
                Verdict::Simulated
            },
            release: release.name.clone(),
            policy: policy.clone(),
            authentic: self,
        })
    }

    /// Check 17: whoever verified the chain at the document's own time cannot call it live.
    fn check_judged_time(
        &self,
        freshness: &Freshness<'_>,
        ladder: &mut Ladder,
    ) -> Result<(), AttestationError> {
        let (asked, judged) = (freshness.time(), self.at);
        if asked != judged {
            let observed = format!("chain as of {judged}, freshness as of {asked}");
            return Err(AttestationError::new(
                ErrorCode::JudgedTimeMismatch,
                observed,
            ));
        }
        ladder.pass(
            17,
            match freshness {
                Freshness::Live { .. } => format!("Now, {judged}"),
                Freshness::At { .. } => {
                    format!("As of {judged}, which is not a statement about now")
                }
            },
        );
        Ok(())
    }
}

/// Check 23.
fn check_debug_mode(
    debug: bool,
    policy: &Policy,
    ladder: &mut Ladder,
) -> Result<(), AttestationError> {
    match (debug, policy.allows_debug_mode()) {
        (false, _) => ladder.pass(23, "PCR0, PCR1 and PCR2 are measurements"),
        (true, true) => ladder.warn(
            23,
            "Debug mode, which this development build was told to accept",
        ),
        (true, false) => {
            return Err(AttestationError::new(
                ErrorCode::DebugMode,
                "PCR0, PCR1 or PCR2 is all zero",
            ));
        }
    }
    Ok(())
}

/// Check 22. One release has to match as a whole.
fn check_measurements<'p>(
    claims: &Claims,
    policy: &'p Policy,
    at: UnixMillis,
    ladder: &mut Ladder,
) -> Result<&'p Release, AttestationError> {
    let matching = || {
        policy
            .releases()
            .iter()
            .filter(|release| release.differences(&claims.pcrs).next().is_none())
    };
    let current = |release: &&Release| release.not_after.is_none_or(|end| at <= end);
    if let Some(release) = matching().find(current) {
        let pinned: Vec<_> = release
            .pcrs
            .keys()
            .map(|index| format!("PCR{index}"))
            .collect();
        ladder.expect(
            22,
            format!(
                "Release {} of policy {}: {}",
                release.name,
                policy.name(),
                pinned.join(", ")
            ),
        );
        ladder.pass(22, format!("Release {}", release.name));
        return Ok(release);
    }
    if let Some(Release {
        name,
        not_after: Some(end),
        ..
    }) = matching().next()
    {
        let observed = format!("release {name}, accepted until {end}, judged as of {at}");
        return Err(AttestationError::new(ErrorCode::ReleaseExpired, observed));
    }
    let observed = match policy
        .closest(&claims.pcrs)
        .map(|release| (release, release.differences(&claims.pcrs).next()))
    {
        Some((release, Some((index, measured, pinned)))) => {
            let measured = measured.map_or("absent".to_owned(), |value| excerpt(value));
            format!(
                "PCR{index} is {measured}, release {} has {}",
                release.name,
                excerpt(pinned)
            )
        }
        _ => "no release".to_owned(),
    };
    Err(AttestationError::new(ErrorCode::PcrMismatch, observed))
}

/// Check 24 (RFC 9334 §10). A nonce shows that the document was made for us; the time, that the clock agrees.
fn check_freshness(
    claims: &Claims,
    policy: &Policy,
    freshness: Freshness<'_>,
    ladder: &mut Ladder,
) -> Result<(), AttestationError> {
    let (now, nonce) = match freshness {
        Freshness::Live { nonce, now } => (now, Some(nonce)),
        Freshness::At { time, nonce } => (time, nonce),
    };
    let live = matches!(freshness, Freshness::Live { .. });
    if let Some(nonce) = nonce {
        if live && nonce.len() < MIN_NONCE {
            return Err(AttestationError::new(
                ErrorCode::NonceTooShort,
                format!("{} bytes", nonce.len()),
            ));
        }
        if claims.nonce.as_deref() != Some(nonce) {
            let theirs = claims.nonce.as_deref().map_or("null".to_owned(), excerpt);
            let observed = format!("nonce {theirs}, ours {}", excerpt(nonce));
            return Err(AttestationError::new(ErrorCode::NonceMismatch, observed));
        }
    }
    // A timestamp in the future has a small age too: asked first, and on its own.
    let latest = UnixMillis(now.0.saturating_add(policy.clock_skew_seconds * 1000));
    if claims.timestamp > latest {
        let observed = format!("made at {}, judged as of {now}", claims.timestamp);
        return Err(AttestationError::new(
            ErrorCode::DocumentFromFuture,
            observed,
        ));
    }
    let age = now.0.saturating_sub(claims.timestamp.0);
    if live && age > policy.max_age_seconds * 1000 {
        let observed = format!(
            "{} s old, the policy allows {}",
            age.div_ceil(1000),
            policy.max_age_seconds
        );
        return Err(AttestationError::new(ErrorCode::DocumentStale, observed));
    }
    let age = format!("made {}.{:03} s before", age / 1000, age % 1000);
    match (live, nonce) {
        (true, _) => {
            ladder.expect(
                24,
                format!("Our nonce, at most {} s old", policy.max_age_seconds),
            );
            ladder.pass(24, format!("Our nonce, {age}"));
        }
        (false, Some(_)) => ladder.pass(
            24,
            format!("The nonce that was asked for, {age} the judged moment"),
        ),
        (false, None) => ladder.skip(24, format!("No nonce to compare; {age} the judged moment")),
    }
    Ok(())
}

/// A released image, judged at a named moment; nobody has said yet which keys are its own.
#[derive(Clone, Debug)]
pub struct AppraisedAttestation {
    authentic: AuthenticAttestation,
    policy: Policy,
    pub(crate) verdict: Verdict,
    pub(crate) release: String,
}

impl AppraisedAttestation {
    /// What the hypervisor says about the enclave.
    pub fn claims(&self) -> &Claims {
        self.authentic.claims()
    }

    /// Name of the release whose measurements matched.
    pub fn release(&self) -> &str {
        &self.release
    }

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
            let named =
                |id: &str, sha256: &[u8]| format!("{id:?} {}…", HEXLOWER.encode(&sha256[..8]));
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
        let mut keys = self.manifest.sealing_keys.clone();
        keys.sort_by_key(|key| key.kem);
        keys.into_iter()
            .map(|config| SealingKey { config })
            .collect()
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
