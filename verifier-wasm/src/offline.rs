//! Offline verification of documents, bundles, receipts and recorded evidence.

use attestation::{
    Appraisal, AttestationReport, CheckId, CheckLog, ReceiptKey, Row, SignatureMemory, TrustAnchor,
    UnixMillis,
};
use merkle::json::{Consistency, Inclusion, Message, SignedHead, from_json};
use protocol::bundle::{AuditBundle, BundleReport};
use protocol::log::{EarlierHead, LogReport};
use protocol::receipt::{self, Expectations, ReceiptReport};
use serde::Serialize;
use tsify::{Ts, Tsify};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};
use web_sys::SubtleCrypto;

use crate::accelerate::{compute_ahead, with_memory};
use crate::challenge::judge_again;
use crate::policy::{Refusal, choose, moment, policy_text, refusal_report};
use crate::stopwatch::stopwatch;

/// Appraisal of an audit bundle, as of the receipt's time.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct BundleAppraisal {
    /// The attestation.
    pub attestation: AttestationReport,
    /// The receipt; refused if the attestation is.
    pub receipt: ReceiptReport,
}

/// Every check of an attestation, in the state `not-run`.
#[wasm_bindgen]
pub fn questions() -> Result<Vec<Ts<Row>>, JsError> {
    let rows = CheckLog::<CheckId>::new().into_rows();
    rows.iter().map(|row| Ok(row.into_ts()?)).collect()
}

/// Runs checks 1 to 21 under AWS's root: is this document authentic, and what does it contain? The image is not appraised.
#[wasm_bindgen(js_name = inspectDocument)]
pub fn inspect_document(document: &[u8], at_ms: f64) -> Result<Ts<AttestationReport>, JsError> {
    let anchor = TrustAnchor::aws_nitro_g1();
    let report = with_memory(|memory| {
        Appraisal::of(document)
            .with_stopwatch(stopwatch())
            .with_memory(memory)
            .inspect(&anchor, moment(at_ms))
    });
    Ok(report.into_ts()?)
}

/// Inspects like [`inspect_document`], and verifies signatures with `subtle` if available: faster, with the same report.
#[wasm_bindgen(js_name = inspectDocumentFast)]
pub async fn inspect_document_fast(
    document: Vec<u8>,
    at_ms: f64,
    subtle: Option<SubtleCrypto>,
) -> Result<Ts<AttestationReport>, JsError> {
    let anchor = TrustAnchor::aws_nitro_g1();
    compute_ahead(&document, &anchor, moment(at_ms), subtle.as_ref()).await;
    inspect_document(&document, at_ms)
}

/// Appraises recorded, possibly altered, evidence: as of `atMs`, with the nonce (hex) that was sent, and with the
/// revocation lists (DER, concatenated) of that time. Pure; returns no enclave.
#[wasm_bindgen(js_name = judgeEvidence)]
pub fn judge_evidence(
    evidence: &[u8],
    nonce_hex: &str,
    #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
    server_policy: Option<String>,
    at_ms: f64,
    crls: &[u8],
) -> Result<Ts<AttestationReport>, JsError> {
    let at = moment(at_ms);
    let outcome = match base16ct::mixed::decode_vec(nonce_hex) {
        Ok(nonce) => policy_text(&policy)
            .and_then(|policy| {
                judge_again(
                    evidence,
                    crls,
                    policy.as_deref(),
                    server_policy.as_deref(),
                    &nonce,
                    at,
                )
            })
            .map(|(report, _)| report),
        Err(_) => Err(Refusal {
            code: "NONCE_UNREADABLE".to_owned(),
            message: "The nonce is not hex.".to_owned(),
            remedy: "Pass the nonce as it was recorded with the evidence.".to_owned(),
        }),
    };
    Ok(outcome
        .unwrap_or_else(|refusal| refusal_report(refusal, at))
        .into_ts()?)
}

/// Verifies an audit bundle (receipt and attestation), as of the receipt's time. `policy` defaults to the policy of this build.
#[wasm_bindgen(js_name = verifyBundle)]
pub fn verify_bundle(
    json: &str,
    #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
) -> Result<Ts<BundleAppraisal>, JsError> {
    let judged = policy_text(&policy).and_then(|policy| bundle_report(json, policy.as_deref()));
    let judgement = match judged {
        Ok(BundleReport {
            attestation,
            receipt,
        }) => BundleAppraisal {
            attestation,
            receipt,
        },
        Err(refusal) => {
            let nowhen = UnixMillis(0);
            let receipt = ReceiptReport::refused_unchecked(
                &refusal.code,
                &refusal.message,
                &refusal.remedy,
                nowhen,
            );
            BundleAppraisal {
                attestation: refusal_report(refusal, nowhen),
                receipt,
            }
        }
    };
    Ok(judgement.into_ts()?)
}

fn bundle_report(json: &str, policy: Option<&str>) -> Result<BundleReport, Refusal> {
    let policy = choose(policy, None)?;
    let bundle = AuditBundle::from_json(json).map_err(|error| Refusal {
        code: error.code().to_owned(),
        message: error.to_string(),
        remedy: error.remedy().to_owned(),
    })?;
    Ok(bundle.verify(&policy, || Some(stopwatch()), &mut SignatureMemory::new()))
}

/// Verifies a receipt under a key (32 bytes) that the caller passes. The verdict is *signed* at best: it shows which key
/// signed, not that an enclave holds it.
#[wasm_bindgen(js_name = verifyReceipt)]
pub fn verify_receipt(receipt: &[u8], key: &[u8]) -> Result<Ts<ReceiptReport>, JsError> {
    let report = match <[u8; 32]>::try_from(key) {
        Ok(key) => {
            let expectations =
                Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
            receipt::verify(receipt, &expectations, Some(stopwatch())).0
        }
        Err(_) => ReceiptReport::refused_unchecked(
            "BAD_KEY",
            "The key is not 32 bytes.",
            "Pass the Ed25519 receipt key of the service manifest.",
            UnixMillis(0),
        ),
    };
    Ok(report.into_ts()?)
}

/// Appraisal of a receipt's inclusion in the transparency log, and of its bundle.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct LoggedAppraisal {
    /// The log.
    pub log: LogReport,
    /// The attestation.
    pub attestation: AttestationReport,
    /// The receipt; refused if the attestation is.
    pub receipt: ReceiptReport,
}

/// Verifies an audit bundle together with the proof (the host's JSON) that its receipt is in the log. `earlierHead`
/// is a head that was stored earlier, `consistency` the proof that the log extends it.
#[wasm_bindgen(js_name = verifyLogged)]
pub fn verify_logged(
    bundle: &str,
    inclusion: &str,
    earlier_head: Option<String>,
    consistency: Option<String>,
    #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
) -> Result<Ts<LoggedAppraisal>, JsError> {
    let proofs = LogProofs {
        inclusion,
        earlier: earlier_head.as_deref(),
        consistency: consistency.as_deref(),
    };
    let judgement = policy_text(&policy)
        .and_then(|policy| proofs.judge(bundle, policy.as_deref()))
        .unwrap_or_else(|refusal| {
            let nowhen = UnixMillis(0);
            let Refusal {
                code,
                message,
                remedy,
            } = &refusal;
            LoggedAppraisal {
                log: LogReport::refused_unchecked(code, message, remedy),
                receipt: ReceiptReport::refused_unchecked(code, message, remedy, nowhen),
                attestation: refusal_report(refusal, nowhen),
            }
        });
    Ok(judgement.into_ts()?)
}

/// Unparsed proofs that a receipt is in the log.
struct LogProofs<'a> {
    inclusion: &'a str,
    earlier: Option<&'a str>,
    consistency: Option<&'a str>,
}

impl LogProofs<'_> {
    fn judge(&self, bundle: &str, policy: Option<&str>) -> Result<LoggedAppraisal, Refusal> {
        let policy = choose(policy, None)?;
        let bundle = AuditBundle::from_json(bundle).map_err(|error| Refusal {
            code: error.code().to_owned(),
            message: error.to_string(),
            remedy: error.remedy().to_owned(),
        })?;
        let inclusion: Inclusion = read(self.inclusion)?;
        let earlier: Option<SignedHead> = self.earlier.map(read).transpose()?;
        let consistency: Option<Consistency> = self.consistency.map(read).transpose()?;
        let earlier = earlier.as_ref().map(|earlier| EarlierHead {
            head: &earlier.head,
            consistency: consistency.as_ref(),
        });
        let (report, log) = bundle.verify_logged(
            &policy,
            &inclusion,
            earlier,
            || Some(stopwatch()),
            &mut SignatureMemory::new(),
        );
        Ok(LoggedAppraisal {
            log,
            attestation: report.attestation,
            receipt: report.receipt,
        })
    }
}

pub(crate) fn read<T: Message>(json: &str) -> Result<T, Refusal> {
    from_json(json.as_bytes()).map_err(|error| Refusal {
        code: error.code().to_owned(),
        message: format!("{error}."),
        remedy: "Check that all of it was copied, and nothing else.".to_owned(),
    })
}
