//! The report of a receipt: the same in the browser, in the terminal and in JSON.

use attestation::{Row, RowState, UnixMillis, Verdict};
use base16ct::lower::encode_string as hex;
use serde::Serialize;

use super::claims::{Measurements, PROFILE, ReceiptClaims};
use super::error::{ReceiptCode, ReceiptRefusal};
use super::expectations::{Expectations, KeyOrigin};
use super::rows::ReceiptCheck;

/// Verification of one receipt.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct ReceiptReport {
    /// `verified`, `simulated` (under a development attestation), `signed` (by a key that the user typed) or `refused`.
    pub verdict: Verdict,
    /// Stable code of the refusal.
    pub code: Option<String>,
    /// The outcome in one sentence.
    pub message: Option<String>,
    /// The next step for the reader, in one sentence.
    pub remedy: Option<String>,
    /// The moment at which the receipt was appraised, Unix milliseconds: its own time, unless the caller named another.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub judged_at_ms: u64,
    /// Every check, in order.
    pub checks: Vec<Row>,
    /// The claims, if signature and claims passed.
    pub claims: Option<ClaimsView>,
}

/// Every claim; byte strings in hex.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct ClaimsView {
    /// `iss`.
    pub issuer: String,
    /// `iat`, Unix seconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub issued_at: u64,
    /// `cti`, hex.
    pub id: String,
    /// `eat_nonce`, hex.
    pub nonce: Option<String>,
    /// `eat_profile`.
    pub profile: String,
    /// Name of the model.
    pub model_id: String,
    /// Version of the model.
    pub model_version: String,
    /// SHA-256 of the model's artifacts, hex.
    pub model_hash: String,
    /// Hash scheme of the artifacts.
    pub model_hash_scheme: Option<String>,
    /// Commitment to the request, hex.
    pub request_hash: String,
    /// Commitment to the response, hex.
    pub response_hash: String,
    /// SHA-256 of the attestation document, hex.
    pub attestation_doc_hash: String,
    /// `nitro-pcr` or `tdx-mrtd-rtmr`: defines the registers' meaning.
    pub measurement_type: String,
    /// The platform's measurements.
    pub measurements: MeasurementsView,
    /// Version of the policy that the service ran under.
    pub policy_version: String,
    /// Sequence number of the receipt among those of its key, from 1: its leaf in the log, whose leaf 0 is the keys.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub sequence_number: u64,
    /// Upper bound on the time that the inference took, milliseconds: this server rounds it up to a power of two.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub execution_time_ms: u64,
    /// Upper bound on the memory that the enclave had held, MiB: this server rounds it up to a multiple of 64.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub memory_peak_mb: u64,
    /// `production` or `evaluation`.
    pub security_mode: String,
}

/// Registers in hex.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct MeasurementsView {
    /// PCR0 or MRTD.
    pub pcr0: String,
    /// PCR1 or RTMR0.
    pub pcr1: String,
    /// PCR2 or RTMR1.
    pub pcr2: String,
    /// PCR3 or RTMR2.
    pub pcr3: Option<String>,
    /// PCR4 or RTMR3.
    pub pcr4: Option<String>,
    /// PCR8.
    pub pcr8: Option<String>,
}

impl ReceiptReport {
    /// A report without checks, because the attestation or another input was refused with `code`.
    pub fn refused_unchecked(code: &str, message: &str, remedy: &str, at: UnixMillis) -> Self {
        Self {
            verdict: Verdict::Refused,
            code: Some(code.to_owned()),
            message: Some(message.to_owned()),
            remedy: Some(remedy.to_owned()),
            judged_at_ms: at.0,
            checks: attestation::CheckLog::<ReceiptCheck>::new().into_rows(),
            claims: None,
        }
    }
}

impl error_codes::Coded for ReceiptReport {
    /// Code of the row that failed.
    fn code(&self) -> &str {
        self.code.as_deref().unwrap_or("RECEIPT_REFUSED")
    }

    fn remedy(&self) -> &str {
        self.remedy
            .as_deref()
            .unwrap_or("Do not rely on the answer.")
    }
}

pub(super) fn report(
    refusal: Option<&ReceiptRefusal>,
    claims: Option<&ReceiptClaims>,
    expectations: &Expectations,
    checks: Vec<Row>,
) -> ReceiptReport {
    let best = match expectations.origin() {
        KeyOrigin::Attested(verdict) => verdict,
        KeyOrigin::Named => Verdict::Signed,
    };
    // Only the caller's choice leaves out a row of the last layer; a row that did not run refuses.
    let settled = checks.iter().all(|row| match row.state {
        RowState::Passed => true,
        RowState::Skipped => row.stage == "policy",
        RowState::NotRun | RowState::Failed | RowState::Warning => false,
    });
    let judged_at = expectations
        .window
        .map(|window| window.at)
        .or_else(|| claims.map(|claims| UnixMillis::from_seconds(claims.issued_at)));
    ReceiptReport {
        verdict: if settled && refusal.is_none() {
            best
        } else {
            Verdict::Refused
        },
        code: refusal.map(|refusal| refusal.code.code().to_owned()),
        message: refusal.map(message),
        remedy: refusal.map(|refusal| refusal.code.remedy().to_owned()),
        judged_at_ms: judged_at.map_or(0, |at| at.0),
        checks,
        claims: claims.map(ClaimsView::new),
    }
}

fn message(refusal: &ReceiptRefusal) -> String {
    let what = match refusal.code {
        ReceiptCode::SigFailed => "The signature does not fit the receipt".to_owned(),
        code => format!(
            "The receipt is refused in its {} layer",
            match code.layer() {
                super::Layer::Parse => "parse",
                super::Layer::Signature => "signature",
                super::Layer::Claims => "claims",
                super::Layer::Policy => "policy",
            }
        ),
    };
    format!("{what}: {}.", refusal.observed)
}

impl ClaimsView {
    pub(super) fn new(claims: &ReceiptClaims) -> Self {
        Self {
            issuer: claims.issuer.clone(),
            issued_at: claims.issued_at,
            id: hex(&claims.id),
            nonce: claims.nonce.as_deref().map(hex),
            profile: PROFILE.to_owned(),
            model_id: claims.model_id.clone(),
            model_version: claims.model_version.clone(),
            model_hash: hex(&claims.model_hash),
            model_hash_scheme: claims
                .model_hash_scheme
                .map(|scheme| scheme.as_str().to_owned()),
            request_hash: hex(&claims.request_hash),
            response_hash: hex(&claims.response_hash),
            attestation_doc_hash: hex(&claims.document_hash),
            measurement_type: claims.measurements.platform.as_str().to_owned(),
            measurements: MeasurementsView::new(&claims.measurements),
            policy_version: claims.policy_version.clone(),
            sequence_number: claims.sequence_number,
            execution_time_ms: claims.execution_time_ms,
            memory_peak_mb: claims.memory_peak_mb,
            security_mode: claims.security_mode.as_str().to_owned(),
        }
    }
}

impl MeasurementsView {
    fn new(measurements: &Measurements) -> Self {
        let optional = |value: &Option<[u8; 48]>| value.as_ref().map(|value| hex(value));
        Self {
            pcr0: hex(&measurements.pcr0),
            pcr1: hex(&measurements.pcr1),
            pcr2: hex(&measurements.pcr2),
            pcr3: optional(&measurements.pcr3),
            pcr4: optional(&measurements.pcr4),
            pcr8: optional(&measurements.pcr8),
        }
    }
}
