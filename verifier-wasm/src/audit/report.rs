//! What an audit says of what it was given.

use attestation::{AttestationReport, Verdict};
use protocol::receipt::{ClaimsView, ReceiptReport};
use serde::Serialize;
use tsify::Tsify;

/// Where the key that judged a receipt came from.
#[derive(Clone, Copy, Serialize, Tsify)]
#[serde(rename_all = "kebab-case")]
pub enum AuditBasis {
    /// Out of the evidence in its own bundle.
    Bundle,
    /// Out of evidence in another bundle, which holds the document that the receipt names.
    OtherBundle,
    /// Named by whoever asks: shows who signed, not that an enclave did.
    NamedKey,
    /// Nowhere: only its form could be judged.
    None,
}

/// What was added to an audit.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditIntake {
    /// Items to judge in all, those that cannot be read included.
    pub total: u32,
    /// The last policy that was among what was added.
    pub policy: Option<AuditPolicy>,
    /// The receipt key that was among it, hex, which now applies to receipts without evidence.
    pub key: Option<String>,
    /// How the first item was written down.
    pub encoding: Option<String>,
}

/// A policy that came with the evidence. The best verdict that it leads to is *simulated*.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditPolicy {
    /// Its name.
    pub name: String,
    /// Whether it judges. Where a policy was chosen by hand or is built in, it does not.
    pub applies: bool,
}

/// One item in a line, for lists.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditSummary {
    /// Place among the items, from 0.
    pub index: u32,
    /// Line on which it began, from 1.
    pub line: u32,
    /// The receipt's verdict; refused where it could not be read.
    pub verdict: Verdict,
    /// The attestation's verdict, where there is one.
    pub attested: Option<Verdict>,
    /// Where the key came from.
    pub basis: AuditBasis,
    /// Required checks that neither passed nor were left out in the last layer.
    pub unsettled: u32,
    /// Stable code of the refusal.
    pub code: Option<String>,
    /// SHA-256 of the receipt, hex; tells copies from repeats.
    pub sha256: Option<String>,
    /// The enclave that signed and the beginning of its key, or the key that was named. Absent where no signature passed.
    pub signer: Option<String>,
    /// Number of the receipt among those of its key, from 1. Absent where no signature passed.
    #[tsify(type = "number | null")]
    pub sequence: Option<u64>,
    /// When it was issued, Unix seconds. Absent where no signature passed.
    #[tsify(type = "number | null")]
    pub issued_at: Option<u64>,
    /// Name of the model. Absent where no signature passed.
    pub model_id: Option<String>,
}

/// Full judgement of one item.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AuditAppraisal {
    /// The item in short.
    pub summary: AuditSummary,
    /// How it was written down.
    pub encoding: String,
    /// The evidence, where there is any.
    pub attestation: Option<AttestationReport>,
    /// The receipt.
    pub receipt: ReceiptReport,
    /// What a receipt says for which there is no key: nobody has checked its signature. Absent where there was one.
    pub claimed: Option<ClaimsView>,
    /// The client's salt, hex, where the bundle holds it alone: good for comparing a text.
    pub salt: Option<String>,
    /// Request and response, where the bundle holds them and the receipt commits to them.
    pub opened: Option<OpenedContent>,
    /// `receipt.document.manifest` or the receipt alone, base64url, without any content: for a link.
    pub link: Option<String>,
}

/// What the commitments of a receipt turned out to be about.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct OpenedContent {
    /// Method of the inner request.
    pub method: String,
    /// Its path.
    pub path: String,
    /// When the client made it, Unix milliseconds.
    #[tsify(type = "number")]
    pub date_ms: u64,
    /// Its content, where that is text.
    pub request: Option<String>,
    /// The client's salt, hex.
    pub salt: String,
    /// Content of the response, where that is text.
    pub response: Option<String>,
}
