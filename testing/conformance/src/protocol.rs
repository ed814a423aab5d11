//! The protocol between the kit and a verifier: one JSON object per line, on its standard input and output, in any order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Identifier, repeated in the answer.
    pub id: String,
    /// The attestation document, base64.
    pub document: String,
    /// Time of the appraisal, Unix milliseconds.
    pub time: u64,
    /// The only root to trust, base64 DER.
    pub root: String,
    /// Further requirements; `null` if only authenticity is checked.
    pub policy: Option<Policy>,
}

/// Requirements beyond authenticity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Registers by index, hex: all must be present and equal.
    pub pcrs: BTreeMap<u8, String>,
    /// The nonce that was sent, hex; absent where none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// Oldest document that is still fresh, seconds; absent where age is not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u64>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Identifier of the question.
    pub id: String,
    /// The outcome.
    pub verdict: Verdict,
    /// The verifier's own code or message; not judged.
    #[serde(default)]
    pub code: String,
}

/// Verdict on one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The document is valid.
    Accept,
    /// The document is not valid.
    Refuse,
    /// The verifier failed: a panic, or an exception that it does not document. Counts as a refusal, and is listed.
    Error,
    /// The verifier cannot answer this: it does not support another root than AWS's, registers, or a nonce.
    Unsupported,
}
