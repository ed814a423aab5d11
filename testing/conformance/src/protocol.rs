//! What a verifier is asked and how it answers: one JSON object a line, on its standard input and output, in any order.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// To be repeated in the answer.
    pub id: String,
    /// The attestation document, base64.
    pub document: String,
    /// The moment to judge as of, Unix milliseconds.
    pub time: u64,
    /// The only root to trust, base64 DER.
    pub root: String,
    /// What else is demanded; `null` where only authenticity is asked.
    pub policy: Option<Policy>,
}

/// Demands beyond authenticity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Registers by index, hex: all of them must be there and equal.
    pub pcrs: BTreeMap<u8, String>,
    /// The nonce that was sent, hex; absent where none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// Oldest document that is still fresh, seconds; absent where age is not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u64>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Of the question.
    pub id: String,
    /// The outcome.
    pub verdict: Verdict,
    /// The verifier's own code or message; never judged.
    #[serde(default)]
    pub code: String,
}

/// Outcome of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The document is good.
    Accept,
    /// It is not.
    Refuse,
    /// The verifier broke: a panic, an exception that it does not document. Counts as a refusal, and is named.
    Error,
    /// The verifier has no way to be asked this: another root than AWS's, a register, a nonce.
    Unsupported,
}
