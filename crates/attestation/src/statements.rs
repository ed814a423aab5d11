//! The conclusions of a report: one sentence each about hardware, code, key, and the limits of the proof.

use crate::checks::CheckId;
use crate::policy::{Policy, PolicyOrigin};
use crate::report::{Row, RowId, RowState, Statement, Verdict};
use crate::time::UnixMillis;

pub(crate) struct Context<'a> {
    pub(crate) at: UnixMillis,
    pub(crate) aws: bool,
    pub(crate) policy: Option<&'a Policy>,
    pub(crate) release: Option<&'a str>,
    pub(crate) verdict: Verdict,
}

/// The four sentences. Each is true; `holds` states whether its checks passed.
pub(crate) fn all(context: &Context<'_>, rows: &[Row]) -> Vec<Statement> {
    let chain = stage_passed(rows, "document") && stage_passed(rows, "chain");
    // A check left out by choice (no nonce in an audit) does not fail the image; the sentence names its own moment.
    let image = chain
        && passed(rows, CheckId::Measurements)
        && passed(rows, CheckId::DebugMode)
        && matches!(
            state(rows, CheckId::Freshness),
            RowState::Passed | RowState::Skipped
        );
    let key = image && passed(rows, CheckId::Binding);
    // A development root or the server's own policy proves nothing.
    let proven = matches!(context.verdict, Verdict::Verified(_));
    // Without a nonce or a manifest the image was still appraised; the sentence is about the document.
    let judged = proven || context.verdict == Verdict::Authentic;
    vec![
        hardware(context, chain),
        statement("code", image && judged, code(context, image)),
        statement("key", key && proven, key_text(context, key)),
        statement(
            "limits",
            false,
            "None of this shows that the released code is free of faults, that its answers are right, or that the host \
             of this page served the page it published."
                .to_owned(),
        ),
    ]
}

fn hardware(context: &Context<'_>, chain: bool) -> Statement {
    let at = context.at;
    let text = match (chain, context.aws) {
        (true, true) => format!(
            "A Nitro hypervisor of AWS signed this document; its certificates are valid as of {at}."
        ),
        (true, false) => {
            "A development root signed this document, so it says nothing about hardware.".to_owned()
        }
        (false, _) => "Nothing shows that a Nitro hypervisor signed this document.".to_owned(),
    };
    statement("hardware", chain && context.aws, text)
}

fn code(context: &Context<'_>, image: bool) -> String {
    let Some(policy) = context.policy else {
        return "Which code the enclave runs was not judged.".to_owned();
    };
    match (image, context.release) {
        (true, Some(release)) if !context.aws => {
            format!(
                "The document names the measurements of release {release}, but no hardware vouches for them."
            )
        }
        (true, Some(release)) => {
            let name = policy.name();
            match policy.origin() {
                PolicyOrigin::WithEvidence => format!(
                    "The measurements are those of release {release} in a policy that came with the evidence itself."
                ),
                PolicyOrigin::ChosenByHand => format!(
                    "The enclave runs release {release} of policy {name}, which you chose, closed to its operator."
                ),
                PolicyOrigin::BuiltIn => format!(
                    "The enclave runs release {release} of policy {name}, which is built into this verifier, closed to \
                     its operator."
                ),
            }
        }
        _ => "Nothing shows that the enclave runs released code.".to_owned(),
    }
}

fn key_text(context: &Context<'_>, key: bool) -> String {
    match (key, context.verdict) {
        (true, Verdict::Verified(_)) => {
            "Only this enclave holds the keys that requests are sealed to.".to_owned()
        }
        (true, Verdict::Authentic) => {
            "The document names these keys; whether they are still the enclave's was not judged."
                .to_owned()
        }
        (true, _) => {
            "The keys are those of the simulated document, so anyone may hold them.".to_owned()
        }
        (false, _) => "Nothing shows who holds the keys of this service.".to_owned(),
    }
}

fn statement(about: &str, holds: bool, text: String) -> Statement {
    Statement {
        about: about.to_owned(),
        holds,
        text,
    }
}

fn stage_passed(rows: &[Row], stage: &str) -> bool {
    rows.iter()
        .filter(|row| row.stage == stage && row.required)
        .all(|row| row.state == RowState::Passed)
}

fn passed(rows: &[Row], check: CheckId) -> bool {
    state(rows, check) == RowState::Passed
}

fn state(rows: &[Row], check: CheckId) -> RowState {
    let mut rows = rows.iter();
    rows.find(|row| row.id == check.number())
        .map_or(RowState::NotRun, |row| row.state)
}
