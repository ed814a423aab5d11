//! Selects the policy, and reports refusals from before the first check.

use attestation::{AttestationReport, CheckId, CheckLog, Policy, PolicyError, UnixMillis, Verdict};
use serde::Serialize;
use tsify::{Ts, Tsify};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};

/// The policy of this build, as JSON. None by default: then only the caller's policy can lead to *verified*.
const EMBEDDED: Option<&str> = option_env!("CLEARSEAL_TRUST_POLICY");

/// Information about this build.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct BuildInfo {
    /// Version of the verifier.
    pub version: String,
    /// Name of the embedded trust policy.
    pub policy: Option<String>,
    /// That policy as JSON.
    pub policy_json: Option<String>,
}

/// Version of this build, and its embedded policy.
#[wasm_bindgen(js_name = buildInfo)]
pub fn build_info() -> Result<Ts<BuildInfo>, JsError> {
    let embedded = EMBEDDED.map(Policy::built_in);
    let info = BuildInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy: embedded.map(|policy| {
            policy.map_or_else(
                |_| "unreadable".to_owned(),
                |policy| policy.name().to_owned(),
            )
        }),
        policy_json: EMBEDDED.map(str::to_owned),
    };
    Ok(info.into_ts()?)
}

/// A refusal that no check of the ladder made.
#[derive(Clone)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

/// Policy text that JavaScript passed, if any. Any value other than text is refused.
pub(crate) fn policy_text(policy: &JsValue) -> Result<Option<String>, Refusal> {
    if policy.is_undefined() || policy.is_null() {
        return Ok(None);
    }
    policy.as_string().map(Some).ok_or_else(|| Refusal {
        code: "POLICY_NOT_TEXT".to_owned(),
        message: "The trust policy is not JSON text.".to_owned(),
        remedy: "Pass the text of the policy; of an object, JSON.stringify gives it.".to_owned(),
    })
}

/// The caller's policy, otherwise the build's, otherwise the one in the evidence.
pub(crate) fn choose(chosen: Option<&str>, evidence: Option<&str>) -> Result<Policy, Refusal> {
    match (trusted_policy(chosen), evidence) {
        (Some(policy), _) => policy,
        (None, Some(json)) => Policy::with_evidence(json.as_bytes()).map_err(Refusal::from),
        (None, None) => Err(Refusal::no_policy()),
    }
}

/// The caller's policy, otherwise the build's. A policy in the evidence never replaces it.
pub(crate) fn trusted_policy(chosen: Option<&str>) -> Option<Result<Policy, Refusal>> {
    let policy = match (chosen, EMBEDDED) {
        (Some(json), _) => Policy::chosen_by_hand(json.as_bytes()),
        (None, Some(json)) => Policy::built_in(json),
        (None, None) => return None,
    };
    Some(policy.map_err(Refusal::from))
}

impl Refusal {
    pub(crate) fn no_policy() -> Self {
        Self {
            code: "NO_POLICY".to_owned(),
            message: "There is no trust policy, so there is nothing to judge the evidence by."
                .to_owned(),
            remedy: "Pass a trust policy, or use a build that carries one.".to_owned(),
        }
    }
}

impl From<PolicyError> for Refusal {
    fn from(error: PolicyError) -> Self {
        Self {
            code: error.code().to_owned(),
            message: error.to_string(),
            remedy: error.remedy().to_owned(),
        }
    }
}

/// A report without any check.
pub(crate) fn refusal_report(refusal: Refusal, at: UnixMillis) -> AttestationReport {
    AttestationReport {
        verdict: Verdict::Refused,
        code: Some(refusal.code),
        message: Some(refusal.message),
        remedy: Some(refusal.remedy),
        judged_at_ms: at.0,
        checks: CheckLog::<CheckId>::new().into_rows(),
        statements: Vec::new(),
        policy: None,
        document: None,
        chain: Vec::new(),
        manifest: None,
    }
}

/// Converts JavaScript's time, milliseconds with a fraction. An invalid time becomes 1970, when nothing is valid.
pub(crate) fn moment(ms: f64) -> UnixMillis {
    if !(0.0..=MAX_MOMENT).contains(&ms) {
        return UnixMillis(0);
    }
    // In range and deliberately truncated: no check needs the fraction.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    UnixMillis(ms as u64)
}

/// ECMA-262 §21.4.1.1: latest date of JavaScript.
const MAX_MOMENT: f64 = 8.64e15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_time_becomes_1970() {
        for ms in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 8.65e15] {
            assert_eq!(moment(ms), UnixMillis(0), "{ms}");
        }
        assert_eq!(moment(1_795_183_380_250.75), UnixMillis(1_795_183_380_250));
    }

    #[test]
    fn a_missing_policy_is_refused() {
        // Only in a build without an embedded policy.
        if EMBEDDED.is_none() {
            assert_eq!(choose(None, None).err().unwrap().code, "NO_POLICY");
        }
    }

    #[test]
    fn an_unreadable_policy_is_a_refusal() {
        let refusal = choose(Some("{}"), None).err().unwrap();
        assert!(!refusal.code.is_empty() && !refusal.remedy.is_empty());
        let report = refusal_report(refusal, UnixMillis(5));
        assert_eq!(report.verdict, Verdict::Refused);
        assert!(
            report
                .checks
                .iter()
                .all(|row| row.state == attestation::RowState::NotRun)
        );
    }
}
