//! A whole appraisal (RFC 9334 §1): from bytes to a report that a person can follow.

use base16ct::lower::encode_string as hex;
use sha2::{Digest, Sha256};

use crate::anchor::TrustAnchor;
use crate::appraise::Freshness;
use crate::binding::VerifiedAttestation;
use crate::certificate;
use crate::checks::CheckId;
use crate::claims::Claims;
use crate::document::{AttestationDocument, AuthenticAttestation};
use crate::error::AttestationError;
use crate::manifest::ServiceManifest;
use crate::policy::Policy;
use crate::report::{
    AttestationReport, CertificateView, CheckLog, DocumentView, ManifestView, PcrView, Row,
    RowState, Verdict,
};
use crate::signatures::SignatureMemory;
use crate::statements;
use crate::time::UnixMillis;

/// Returns microseconds since any fixed moment. Only differences between its values are used.
pub type Stopwatch = Box<dyn Fn() -> f64>;

/// Builder of an appraisal. Only the document is required.
///
/// [`inspect`](Self::inspect) checks whether the document is authentic; [`verify`](Self::verify) makes every check.
///
/// ```
/// use attestation::{Appraisal, SignatureMemory, TrustAnchor, UnixMillis, Verdict};
///
/// let mut memory = SignatureMemory::new();
/// let report = Appraisal::of(b"no document")
///     .with_memory(&mut memory)
///     .inspect(&TrustAnchor::aws_nitro_g1(), UnixMillis(1_800_000_000_000));
/// assert_eq!(report.verdict, Verdict::Refused);
/// ```
#[must_use = "call `inspect` or `verify`: the builder appraises nothing by itself"]
pub struct Appraisal<'a> {
    document: &'a [u8],
    manifest: Option<&'a [u8]>,
    crls: &'a [u8],
    stopwatch: Option<Stopwatch>,
    memory: Option<&'a mut SignatureMemory>,
}

impl<'a> Appraisal<'a> {
    /// Starts with an attestation document.
    pub fn of(document: &'a [u8]) -> Self {
        Self {
            document,
            manifest: None,
            crls: &[],
            stopwatch: None,
            memory: None,
        }
    }

    /// The service manifest that came with the document. Without one, image and age are appraised, and no keys are returned.
    pub fn with_manifest(self, manifest: &'a [u8]) -> Self {
        Self {
            manifest: Some(manifest),
            ..self
        }
    }

    /// Certificate revocation lists in DER, one after another. Lists of issuers outside the chain are ignored. Without any list,
    /// revocation is not checked, which a policy may refuse.
    pub fn with_crls(self, crls: &'a [u8]) -> Self {
        Self { crls, ..self }
    }

    /// Measures the duration of each check, if a stopwatch is given.
    pub fn with_stopwatch(self, stopwatch: impl Into<Option<Stopwatch>>) -> Self {
        Self {
            stopwatch: stopwatch.into(),
            ..self
        }
    }

    /// Skips the signatures that `memory` already knows, and adds those of this chain to it. The verdict, the code and the
    /// states of the rows do not depend on the memory's contents; rows 14 and 21 state which signatures were skipped.
    pub fn with_memory(self, memory: &'a mut SignatureMemory) -> Self {
        Self {
            memory: Some(memory),
            ..self
        }
    }

    /// Checks 1 to 21, and 27 if lists were given: is the document authentic? The image is not appraised; debug mode is reported. The
    /// report leaves out the manifest, because none of these checks binds it to the document.
    ///
    /// The verdict is [`Verdict::Authentic`] or [`Verdict::Refused`].
    pub fn inspect(self, anchor: &TrustAnchor, at: UnixMillis) -> AttestationReport {
        let Authentication {
            parts,
            mut log,
            outcome,
        } = self.authenticate(anchor, at);
        let outcome = outcome.map(|authentic| {
            log.skip(CheckId::Measurements, "No policy: the image was not judged");
            // A reader of an enclave's listing has to see this, although no policy asked for it.
            match authentic.claims().debug_mode() {
                true => log.warn(
                    CheckId::DebugMode,
                    "Debug mode: PCR0, PCR1 or PCR2 is all zero; any policy refuses it",
                ),
                false => log.skip(
                    CheckId::DebugMode,
                    "Not in debug mode; without a policy this was not judged",
                ),
            }
            log.skip(
                CheckId::Freshness,
                "No policy: age and nonce were not judged",
            );
            log.skip(CheckId::Binding, "No policy: no keys were judged");
            Verdict::Authentic
        });
        parts.report(outcome, log)
    }

    /// Makes all checks at the moment and with the nonce in `freshness`; returns the report and its conclusion.
    pub fn verify(
        self,
        policy: &Policy,
        freshness: Freshness<'_>,
    ) -> (AttestationReport, Conclusion) {
        let manifest = self.manifest;
        let Authentication {
            parts,
            mut log,
            outcome,
        } = self.authenticate(policy.anchor(), freshness.time());
        let appraised =
            outcome.and_then(|authentic| authentic.appraise(policy, freshness, &mut log));
        let release = appraised
            .as_ref()
            .ok()
            .map(|appraised| appraised.release().to_owned());
        let outcome = appraised.and_then(|appraised| match manifest {
            Some(manifest) => appraised
                .bind(manifest, &mut log)
                .map(|verified| (verified.verdict(), Some(verified))),
            None => {
                log.skip(CheckId::Binding, "No manifest: no keys were judged");
                let verdict = match appraised.genuine {
                    true => Verdict::Authentic,
                    false => Verdict::Simulated,
                };
                Ok((verdict, None))
            }
        });
        let parts = Parts {
            policy: Some(policy),
            release,
            manifest,
            ..parts
        };
        match outcome {
            Ok((verdict, verified)) => {
                let report = parts.report(Ok(verdict), log);
                // The keys and the verdict on the page never disagree. An authentic document may be old, so it yields no keys.
                let agreed = report.verdict == verdict && verdict != Verdict::Authentic;
                (report, Conclusion(verified.filter(|_| agreed)))
            }
            Err(error) => (parts.report(Err(error), log), Conclusion(None)),
        }
    }

    /// Checks 1 to 21, and the parts of a report that do not depend on later checks.
    fn authenticate(self, anchor: &TrustAnchor, at: UnixMillis) -> Authentication<'a> {
        let mut log = start_log(self.stopwatch);
        let mut none = SignatureMemory::new();
        let memory = self.memory.unwrap_or(&mut none);
        let parsed = AttestationDocument::parse(self.document, &mut log);
        let claims = parsed.as_ref().ok().map(|parsed| parsed.claims().clone());
        let authentic = parsed.and_then(|parsed| {
            parsed.authenticate_with_crls(anchor, at, self.crls, memory, &mut log)
        });
        // Clears vouched signatures, also if the document could not be read.
        memory.drop_vouched();
        let chain = authentic.as_ref().ok();
        let parts = Parts {
            document: self.document,
            claims,
            chain: chain.map(|authentic| authentic.chain().to_vec()),
            at,
            policy: None,
            release: None,
            manifest: None,
            aws: anchor.is_aws(),
        };
        Authentication {
            parts,
            log,
            outcome: authentic,
        }
    }
}

/// Result of an appraisal: an enclave with its keys, or nothing.
///
/// Nothing, unless every check was made and passed, including manifest and nonce (an audit needs no nonce). The caller gets
/// the keys only by stating which verdict is good enough.
#[must_use = "call a method to get the keys, or drop the appraisal explicitly"]
#[derive(Debug)]
pub struct Conclusion(Option<VerifiedAttestation>);

impl Conclusion {
    /// The enclave, if the verdict is [`Verdict::Verified`].
    pub fn verified(self) -> Option<VerifiedAttestation> {
        self.0
            .filter(|enclave| matches!(enclave.verdict(), Verdict::Verified(_)))
    }

    /// The enclave, if the verdict is [`Verdict::Verified`] or [`Verdict::Simulated`].
    ///
    /// The operator of a simulated enclave can read requests sealed to it. For development, and for audits, which seal nothing.
    pub fn including_simulated(self) -> Option<VerifiedAttestation> {
        self.0
    }
}

fn start_log(stopwatch: Option<Stopwatch>) -> CheckLog<CheckId> {
    let log = CheckLog::new();
    match stopwatch {
        Some(stopwatch) => log.with_stopwatch(stopwatch),
        None => log,
    }
}

/// The result of checks 1 to 21.
struct Authentication<'a> {
    parts: Parts<'a>,
    log: CheckLog<CheckId>,
    outcome: Result<AuthenticAttestation, AttestationError>,
}

/// The contents of a report, as far as they are known.
struct Parts<'a> {
    document: &'a [u8],
    claims: Option<Claims>,
    /// The verified chain, if there is one.
    chain: Option<Vec<CertificateView>>,
    at: UnixMillis,
    policy: Option<&'a Policy>,
    release: Option<String>,
    manifest: Option<&'a [u8]>,
    aws: bool,
}

impl Parts<'_> {
    fn report(
        self,
        outcome: Result<Verdict, AttestationError>,
        log: CheckLog<CheckId>,
    ) -> AttestationReport {
        let checks = log.into_rows();
        let (verdict, error) = match outcome {
            Ok(verdict) if required_rows_passed(&checks) => (verdict, None),
            // No code marked a required row: a bug in this program, and therefore not a reason to trust anyone.
            Ok(_) => (Verdict::Refused, None),
            Err(error) => (Verdict::Refused, Some(error)),
        };
        let incomplete = verdict == Verdict::Refused && error.is_none();
        let code = error
            .as_ref()
            .map(|error| error.code().code())
            .or(incomplete.then_some("CHECK_NOT_RUN"));
        let message = error.as_ref().map(|error| format!("{error}."));
        let message =
            message.or_else(|| incomplete.then(|| "A required check did not run.".to_owned()));
        let remedy = error.as_ref().map(AttestationError::remedy);
        let remedy = remedy.or(incomplete.then_some("Report this as a fault of the verifier."));
        let pinned = self
            .policy
            .zip(self.claims.as_ref())
            .and_then(|(policy, claims)| policy.closest(&claims.pcrs));
        let document = self.claims.as_ref().map(|claims| {
            document_view(self.document, claims, |index| {
                pinned.and_then(|release| release.pcrs.get(&index)).copied()
            })
        });
        let context = statements::Context {
            at: self.at,
            aws: self.aws,
            policy: self.policy,
            release: self.release.as_deref(),
            verdict,
        };
        AttestationReport {
            verdict,
            code: code.map(str::to_owned),
            message,
            remedy: remedy.map(str::to_owned),
            judged_at_ms: self.at.0,
            statements: statements::all(&context, &checks),
            checks,
            policy: self.policy.map(|policy| policy.view(self.release.clone())),
            document,
            chain: self
                .chain
                .or_else(|| self.claims.as_ref().map(certificate::views))
                .unwrap_or_default(),
            manifest: self
                .manifest
                .and_then(|bytes| manifest_view(bytes, self.policy)),
        }
    }
}

/// Whether every required row was checked and passed, or was skipped by the caller's choice.
fn required_rows_passed(rows: &[Row]) -> bool {
    let chosen = |row: &Row| {
        let optional = matches!(row.stage.as_str(), "image" | "binding");
        optional && matches!(row.state, RowState::Skipped | RowState::Warning)
    };
    rows.iter()
        .filter(|row| row.required)
        .all(|row| row.state == RowState::Passed || chosen(row))
}

fn document_view(
    bytes: &[u8],
    claims: &Claims,
    pinned: impl Fn(u8) -> Option<[u8; 48]>,
) -> DocumentView {
    DocumentView {
        sha256: hex(&Sha256::digest(bytes)),
        size: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        module_id: claims.module_id.clone(),
        timestamp_ms: claims.timestamp.0,
        debug: claims.debug_mode(),
        pcrs: claims
            .pcrs
            .iter()
            .map(|(index, value)| PcrView {
                index: *index,
                role: pcr_role(*index).to_owned(),
                value: hex(value),
                expected: pinned(*index).map(|value| hex(&value)),
                zero: *value == [0; 48],
            })
            .collect(),
        nonce: claims.nonce.as_deref().map(hex),
        user_data: claims.user_data.as_deref().map(hex),
        public_key: claims.public_key.as_deref().map(hex),
    }
}

/// AWS Nitro Enclaves, where to get an enclave's measurements.
fn pcr_role(index: u8) -> &'static str {
    match index {
        0 => "Enclave image file",
        1 => "Linux kernel and bootstrap",
        2 => "Application",
        3 => "IAM role of the parent instance",
        4 => "Instance id of the parent instance",
        8 => "Signing certificate of the image",
        _ => "",
    }
}

/// Shows the model that the policy demands, otherwise the first.
fn manifest_view(bytes: &[u8], policy: Option<&Policy>) -> Option<ManifestView> {
    let mut manifest = ServiceManifest::decode(bytes).ok()?;
    if let Some(pin) = policy.and_then(Policy::model) {
        manifest.choose_model(pin);
    }
    Some(ManifestView {
        sha256: hex(&Sha256::digest(bytes)),
        kems: manifest
            .preferred_keys()
            .map(|key| key.kem.name().to_owned())
            .collect(),
        receipt_key: hex(&manifest.receipt_key),
        model_id: manifest.model.id,
        model_version: manifest.model.version,
        model_sha256: hex(&manifest.model.sha256),
        dimension: manifest.model.dimension,
        max_tokens: manifest.model.max_tokens,
        normalised: manifest.model.normalised,
        policy_version: manifest.policy_version,
        security_mode: manifest.security_mode.as_str().to_owned(),
        not_before: manifest.not_before,
        not_after: manifest.not_after,
    })
}
