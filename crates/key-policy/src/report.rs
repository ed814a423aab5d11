//! The report of a verification: one row for each question.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bypass::Bypass;

/// Result of verifying a key policy, as a whole and row by row.
#[derive(Clone, Debug, Serialize)]
pub struct KeyPolicyReport {
    /// Whether every required row passed.
    pub holds: bool,
    /// Name of the trust policy.
    pub policy: String,
    /// The moment as of which releases count as ended, in Unix milliseconds.
    pub judged_at_ms: u64,
    /// One row for each question.
    pub checks: Vec<Row>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Stable kebab-case name.
    pub name: &'static str,
    /// The question.
    pub title: &'static str,
    /// Its outcome.
    pub state: RowState,
    /// Stable code, where the row did not pass.
    pub code: Option<&'static str>,
    /// The observation.
    pub observed: String,
    /// Faults of statements that let it happen.
    #[serde(rename = "ways")]
    pub bypasses: Vec<Bypass>,
    /// A request that may succeed, where the row failed.
    pub example: Option<Example>,
}

/// A request that must not succeed, and may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The operation, such as `kms:Decrypt`.
    pub action: &'static str,
    /// Platform of its attestation document.
    pub attested: Attested,
    /// Values of the registers and condition keys that the policy or the trust policy names, by name; a description where the
    /// value is another one. Keys that are left out may have any value.
    pub facts: BTreeMap<String, String>,
}

/// Platform of the attestation document that a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attested {
    /// None.
    Nothing,
    /// That of a Nitro enclave.
    Enclave,
    /// That of an EC2 instance's NitroTPM.
    Instance,
}

/// State of a [`Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowState {
    /// It cannot happen.
    Passed,
    /// It can.
    Failed,
    /// Needs attention, and does not refuse the policy.
    Warning,
}
