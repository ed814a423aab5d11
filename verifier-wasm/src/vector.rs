//! Verifies one row of an index: was this vector computed from this text, by the model and image that its receipt names?

use attestation::{AttestationReport, SignatureMemory, UnixMillis};
use protocol::items::{ItemsError, VectorRow, read_proof};
use protocol::receipt::ReceiptReport;
use serde::Serialize;
use tsify::{Ts, Tsify};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};

use crate::policy::{Refusal, choose, policy_text};

/// Appraisal of one vector, as of its receipt's time.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct VectorAppraisal {
    /// The attestation; absent if row or proof could not be read.
    pub attestation: Option<AttestationReport>,
    /// The receipt. Refused with `RESPONSE_HASH_MISMATCH` if it is about a different text or vector.
    pub receipt: ReceiptReport,
    /// Index of the item in its answer, from 0; absent if the proof could not be read.
    #[tsify(type = "number | null")]
    pub index: Option<u64>,
    /// The prompt that the model read before the text, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[tsify(optional)]
    pub prompt: Option<String>,
    /// Number of tokens of the text that the model read, special ones included.
    pub tokens: Option<u32>,
    /// Whether the text had more tokens.
    pub truncated: Option<bool>,
}

/// Verifies one row of an index with its proof. `row` is a line that `clearseal embed` wrote; `proof` is the evidence line and
/// the line of this row, both from the file of proofs. `policy` defaults to the policy of this build; `serverPolicy` is used
/// only if there is neither, and then no verdict is better than *simulated*.
#[wasm_bindgen(js_name = verifyVector)]
pub fn verify_vector(
    row: &str,
    proof: &str,
    #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
    server_policy: Option<String>,
) -> Result<Ts<VectorAppraisal>, JsError> {
    let judged =
        policy_text(&policy).and_then(|policy| judge(row, proof, policy.as_deref(), server_policy));
    let judgement = judged.unwrap_or_else(|refusal| VectorAppraisal {
        attestation: None,
        receipt: refused_unchecked(&refusal),
        index: None,
        prompt: None,
        tokens: None,
        truncated: None,
    });
    Ok(judgement.into_ts()?)
}

fn judge(
    row: &str,
    proof: &str,
    policy: Option<&str>,
    server_policy: Option<String>,
) -> Result<VectorAppraisal, Refusal> {
    let policy = choose(policy, server_policy.as_deref())?;
    let row = VectorRow::from_json(row)?;
    let (evidence, proof) = read_proof(proof)?;
    let report = evidence.verify_row(&proof, &row, &policy, &mut SignatureMemory::new())?;
    Ok(VectorAppraisal {
        attestation: Some(report.attestation),
        receipt: report.receipt,
        index: Some(proof.index),
        prompt: Some(evidence.prompt).filter(|prompt| !prompt.is_empty()),
        tokens: Some(proof.read.tokens),
        truncated: Some(proof.read.truncated),
    })
}

fn refused_unchecked(refusal: &Refusal) -> ReceiptReport {
    ReceiptReport::refused_unchecked(
        &refusal.code,
        &refusal.message,
        &refusal.remedy,
        UnixMillis(0),
    )
}

impl From<ItemsError> for Refusal {
    fn from(error: ItemsError) -> Self {
        Self {
            code: error.code().to_owned(),
            message: format!("{error}."),
            remedy: error.remedy().to_owned(),
        }
    }
}
