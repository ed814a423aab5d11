//! Results of an audit.

use attestation::{AttestationReport, Verdict};
use protocol::receipt::{ClaimsView, ReceiptReport};
use serde::Serialize;
use tsify::Tsify;

/// Source of the key that verified a receipt.
#[derive(Clone, Copy, Serialize, Tsify)]
#[serde(rename_all = "kebab-case")]
pub enum AuditBasis {
    /// The evidence in the same bundle.
    Bundle,
    /// The evidence in another bundle with the document that the receipt names.
    OtherBundle,
    /// The user: shows which key signed, not that an enclave holds it.
    NamedKey,
    /// There is none: only the format was checked.
    None,
}

/// Result of adding input to an audit.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditIntake {
    /// Total number of items, including unreadable ones.
    pub total: u32,
    /// The last policy in the input.
    pub policy: Option<AuditPolicy>,
    /// The receipt key in the input, hex, which now applies to receipts without evidence.
    pub key: Option<String>,
    /// Encoding of the first item.
    pub encoding: Option<String>,
}

/// A policy from the input. Leads to *simulated* at best.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditPolicy {
    /// Its name.
    pub name: String,
    /// Whether it is used: not if a policy was chosen by hand or is built in.
    pub applies: bool,
}

/// Summary of one item, for lists.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditSummary {
    /// Index of the item, from 0.
    pub index: u32,
    /// Line at which it begins, from 1.
    pub line: u32,
    /// The receipt's verdict; refused if it could not be read.
    pub verdict: Verdict,
    /// The attestation's verdict, if there is one.
    pub attested: Option<Verdict>,
    /// Source of the key.
    pub basis: AuditBasis,
    /// Number of required checks that did not pass and were not skipped in the last stage.
    pub unsettled: u32,
    /// Stable code of the refusal.
    pub code: Option<String>,
    /// SHA-256 of the receipt, hex, to find copies.
    pub sha256: Option<String>,
    /// The enclave that signed and the beginning of its key, or the given key. Absent without a valid signature.
    pub signer: Option<String>,
    /// Sequence number of the receipt under its key, from 1. Absent without a valid signature.
    #[tsify(type = "number | null")]
    pub sequence: Option<u64>,
    /// Issue time, Unix seconds. Absent without a valid signature.
    #[tsify(type = "number | null")]
    pub issued_at: Option<u64>,
    /// Name of the model. Absent without a valid signature.
    pub model_id: Option<String>,
}

/// Full appraisal of one item.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditAppraisal {
    /// Summary of the item.
    pub summary: AuditSummary,
    /// Encoding of the item.
    pub encoding: String,
    /// The attestation, if there is evidence.
    pub attestation: Option<AttestationReport>,
    /// The receipt.
    pub receipt: ReceiptReport,
    /// Unverified claims of a receipt without a key. Absent if there was a key.
    pub claimed: Option<ClaimsView>,
    /// The client's salt, hex, if the bundle has it without content: for comparison with a text.
    pub salt: Option<String>,
    /// Request and response, if the bundle contains them and the receipt commits to them.
    pub opened: Option<OpenedContent>,
    /// `receipt.document.manifest` or the receipt alone, base64url, without any content: for a link.
    pub link: Option<String>,
}

/// Request and response that the receipt commits to.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct OpenedContent {
    /// Method of the inner request.
    pub method: String,
    /// Its path.
    pub path: String,
    /// Date of the request, Unix milliseconds.
    #[tsify(type = "number")]
    pub date_ms: u64,
    /// Content of the request, if that is text.
    pub request: Option<String>,
    /// The client's salt, hex.
    pub salt: String,
    /// Content of the response, if that is text.
    pub response: Option<String>,
}
