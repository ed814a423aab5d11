//! Adapter for this project's verifier.

use anyhow::{Context, Result};
use attestation::{Appraisal, AttestationReport, Freshness, PolicyError, TrustAnchor, UnixMillis};
use base64ct::{Base64, Encoding};
use serde_json::json;

use crate::protocol::{Answer, Policy, Request, Verdict};

/// Answers a question.
pub fn answer(request: &Request) -> Answer {
    let (verdict, code) = match judge(request) {
        Ok(report) => match report.verdict {
            attestation::Verdict::Refused => (Verdict::Refuse, report.code.unwrap_or_default()),
            _ => (Verdict::Accept, String::new()),
        },
        Err(error) => match error.downcast_ref::<PolicyError>() {
            Some(refused) if refused.code() != "POLICY_UNREADABLE" => {
                (Verdict::Refuse, refused.code().to_owned())
            }
            _ => (Verdict::Error, format!("{error:#}")),
        },
    };
    Answer {
        id: request.id.clone(),
        verdict,
        code,
    }
}

fn judge(request: &Request) -> Result<AttestationReport> {
    let base64 = |text: &str| Base64::decode_vec(text).context("no base64");
    let document = base64(&request.document)?;
    let anchor = TrustAnchor::development(&base64(&request.root)?).context("no certificate")?;
    let time = UnixMillis(request.time);
    let Some(demand) = &request.policy else {
        return Ok(Appraisal::of(&document).inspect(&anchor, time));
    };
    let policy = policy(demand, &request.root, &anchor)?;
    let nonce = demand
        .nonce
        .as_deref()
        .map(|nonce| base16ct::lower::decode_vec(nonce).context("the nonce is not hex"));
    let nonce = nonce.transpose()?;
    let (report, _) = Appraisal::of(&document).verify(
        &policy,
        Freshness::At {
            time,
            nonce: nonce.as_deref(),
        },
    );
    Ok(report)
}

fn policy(demand: &Policy, root: &str, anchor: &TrustAnchor) -> Result<attestation::Policy> {
    let root = if anchor.is_aws() {
        json!("aws-nitro-enclaves-g1")
    } else {
        json!({ "development": root })
    };
    let policy = json!({
        "format": "clearseal-trust-policy/1",
        "name": "conformance",
        "root": root,
        "releases": [{ "name": "demanded", "pcrs": demand.pcrs }],
        // If no maximum age is required, the longest that a policy allows.
        "max_age_seconds": demand.max_age_seconds.unwrap_or(86_400),
    });
    attestation::Policy::chosen_by_hand(policy.to_string().as_bytes())
        .context("the requirements are not a valid policy")
}
