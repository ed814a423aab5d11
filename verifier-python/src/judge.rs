//! Offline verification of a document, an audit bundle or a vector.

use attestation::{
    Appraisal, AttestationResponse, Freshness, Policy, SignatureMemory, UnixMillis, Verdict,
};
use clearseal_client::AuditBundle;
use protocol::bundle::BundleReport;
use protocol::items::{ItemsError, PairRow, VectorRow, read_proof};
use pyo3::prelude::*;

use crate::error;

/// Verifies an attestation document, or evidence as returned by `GET /v1/attestation`. Returns the report as JSON, or raises.
#[pyfunction]
#[pyo3(signature = (document, policy, nonce, manifest, crls, at_ms, allow_simulated, allow_authentic))]
#[allow(
    clippy::too_many_arguments,
    reason = "named arguments in the one place that calls it"
)]
pub(crate) fn judge_document(
    py: Python<'_>,
    document: &[u8],
    policy: &[u8],
    nonce: Option<&[u8]>,
    manifest: Option<&[u8]>,
    crls: &[u8],
    at_ms: Option<u64>,
    allow_simulated: bool,
    allow_authentic: bool,
) -> PyResult<String> {
    let policy = read_policy(py, policy)?;
    // Bytes that are not evidence are treated as a document.
    let answered = AttestationResponse::parse(document).ok();
    let (document, manifest) = match &answered {
        Some(AttestationResponse { evidence, .. }) => {
            (evidence.document, manifest.or(Some(evidence.manifest)))
        }
        None => (document, manifest),
    };
    let nonce = nonce.map(|own| match &answered {
        Some(answered) => answered.document_nonce(own),
        None => own.into(),
    });
    let nonce = nonce.as_deref();
    let now = at_ms.map_or_else(now, UnixMillis);
    let freshness = match (at_ms, nonce) {
        (None, Some(nonce)) => Freshness::Live { nonce, now },
        _ => Freshness::At { time: now, nonce },
    };
    let (report, _) = py.detach(|| {
        let mut appraisal = Appraisal::of(document).with_crls(crls);
        if let Some(manifest) = manifest {
            appraisal = appraisal.with_manifest(manifest);
        }
        appraisal.verify(&policy, freshness)
    });
    let mut report = match allow_simulated {
        true => report,
        false => report.refuse_simulation(),
    };
    let accepted = match report.verdict {
        Verdict::Verified(_) => true,
        Verdict::Simulated => allow_simulated,
        Verdict::Authentic => allow_authentic,
        Verdict::Signed | Verdict::Refused => false,
    };
    if report.verdict == Verdict::Authentic && !accepted {
        let (code, message, remedy) = NOT_JUDGED;
        report.code = Some(code.to_owned());
        report.message = Some(message.to_owned());
        report.remedy = Some(remedy.to_owned());
    }
    let json = serde_json::to_string(&report).map_err(|_| error::internal(py))?;
    match accepted {
        true => Ok(json),
        false => Err(error::refused_json(py, json)),
    }
}

/// Judges an audit bundle as one chain, as of its receipt's time. Returns both reports in JSON, or raises.
#[pyfunction]
#[pyo3(signature = (bundle, policy, allow_simulated))]
pub(crate) fn judge_bundle(
    py: Python<'_>,
    bundle: &str,
    policy: &[u8],
    allow_simulated: bool,
) -> PyResult<(String, String)> {
    let policy = read_policy(py, policy)?;
    let bundle = AuditBundle::from_json(bundle)
        .map_err(|error| error::other(py, error.code(), &error.to_string(), error.remedy()))?;
    let judged = py.detach(|| bundle.verify(&policy, || None, &mut SignatureMemory::new()));
    conclude(py, judged, allow_simulated)
}

/// Judges one row of an index, or one scored pair, by its proof, as of its receipt's time. Returns both reports in JSON, or raises.
#[pyfunction]
#[pyo3(signature = (row, proof, policy, allow_simulated))]
pub(crate) fn judge_vector(
    py: Python<'_>,
    row: &str,
    proof: &str,
    policy: &[u8],
    allow_simulated: bool,
) -> PyResult<(String, String)> {
    let policy = read_policy(py, policy)?;
    let judged = py.detach(|| {
        let (evidence, proof) = read_proof(proof)?;
        let memory = &mut SignatureMemory::new();
        match VectorRow::from_json(row) {
            Ok(row) => evidence.verify_row(&proof, &row, &policy, memory),
            Err(ItemsError::Row) => {
                let row = PairRow::from_json(row)?;
                evidence.verify_pair(&proof, &row, &policy, memory)
            }
            Err(error) => Err(error),
        }
    });
    let judged = judged.map_err(|error| error::items(py, &error))?;
    conclude(py, judged, allow_simulated)
}

/// Both reports about an accepted receipt, or the exception for a refused one.
fn conclude(
    py: Python<'_>,
    judged: BundleReport,
    allow_simulated: bool,
) -> PyResult<(String, String)> {
    let attestation = match allow_simulated {
        true => judged.attestation,
        false => judged.attestation.refuse_simulation(),
    };
    let accepted = match judged.receipt.verdict {
        Verdict::Verified(_) => true,
        Verdict::Simulated => allow_simulated,
        Verdict::Authentic | Verdict::Signed | Verdict::Refused => false,
    };
    let json = |report: serde_json::Result<String>| report.map_err(|_| error::internal(py));
    if !accepted && judged.receipt.verdict == Verdict::Simulated {
        return Err(error::refused(py, &attestation));
    }
    let receipt = json(serde_json::to_string(&judged.receipt))?;
    match accepted {
        true => Ok((receipt, json(serde_json::to_string(&attestation))?)),
        false => Err(error::refused_json(py, receipt)),
    }
}

/// Code, message and remedy for an authentic document, if the caller requires more.
const NOT_JUDGED: (&str, &str, &str) = (
    "AUTHENTIC_ONLY",
    "Genuine hardware signed the document; its age or its keys were not judged",
    "Pass nonce and manifest, or allow the verdict authentic by name.",
);

/// Parses the caller's policy.
pub(crate) fn read_policy(py: Python<'_>, json: &[u8]) -> PyResult<Policy> {
    Policy::chosen_by_hand(json).map_err(|error| error::policy(py, &error))
}

fn now() -> UnixMillis {
    clearseal_client::Clock::system().now()
}
