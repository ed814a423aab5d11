//! Status page and health check.

use clearseal_client::{Client, PolicyStatus, State};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of requests and bytes since the start.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) answered: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) sealed_bytes: AtomicU64,
    /// Texts of which the model read the beginning only.
    pub(super) truncated: AtomicU64,
    /// Empty texts that were not sent.
    pub(super) skipped: AtomicU64,
}

/// Renders the status page, without scripts.
pub(super) fn page(client: &Client, counts: &Counts) -> String {
    let mut rows = String::new();
    for (url, state) in client.states() {
        let (policy, end) = match state.session() {
            Some(session) => {
                let policy = session.report().policy.as_ref();
                let name = policy.map_or("", |policy| policy.name.as_str());
                (name.to_owned(), session.valid_until().to_string())
            }
            None => (String::new(), String::new()),
        };
        let code = match &state {
            State::Refused(report) | State::Withdrawn(report) => {
                report.code.clone().unwrap_or_default()
            }
            State::Unreachable(problem) => problem.code.clone(),
            _ => String::new(),
        };
        let [url, policy, end, code] = [url, policy, end, code].map(|text| escape_html(&text));
        // Writing to a string does not fail.
        let _ = write!(
            rows,
            "<tr><td>{url}</td><td>{}</td><td>{policy}</td><td>{end}</td><td>{code}</td></tr>",
            if client.is_over(&state) {
                "ended: nothing is sealed until it is verified again"
            } else {
                verdict(&state)
            }
        );
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>clearseal proxy</title><h1>clearseal proxy</h1>\
         <table border=\"1\"><tr><th>upstream</th><th>verdict</th><th>policy</th><th>proof ends</th><th>code</th></tr>{rows}</table>{}\
         <p>{} answered, {} refused by the enclave, {} failed on the way, {} bytes of content sealed and sent.</p>\
         <p>{} texts were longer than the model reads, and were truncated; <code>--refuse-long</code> refuses them.</p>\
         <p>{} texts were empty, and were not sent (<code>--empty skip</code>).</p>\
         <p>Base URL for an OpenAI client: <code>/v1</code> on this port.</p></html>",
        render_policy(&client.policy_status()),
        count(&counts.answered),
        count(&counts.refused),
        count(&counts.failed),
        count(&counts.sealed_bytes),
        count(&counts.truncated),
        count(&counts.skipped),
    )
}

/// Renders the policy in force, and the reason why the next one could not be used.
fn render_policy(status: &PolicyStatus) -> String {
    let Some(name) = &status.name else {
        return String::new();
    };
    let mut text = format!("<p>Trust policy <strong>{}</strong>", escape_html(name));
    if let Some(end) = status.not_after {
        let _ = write!(text, ", until {end}");
    }
    text.push_str(".</p>");
    if let Some(problem) = &status.problem {
        let _ = write!(
            text,
            "<p>The next trust policy could not be taken since {}: {} ({}). {}</p>",
            problem.since,
            escape_html(&problem.message),
            escape_html(&problem.code),
            escape_html(&problem.remedy),
        );
    }
    text
}

/// Formats the status as JSON, for a monitor.
pub(super) fn json(client: &Client, counts: &Counts) -> serde_json::Value {
    let upstreams: Vec<_> = client
        .states()
        .iter()
        .map(|(url, state)| {
            serde_json::json!({
                "url": url,
                "state": if client.is_over(state) { "ended" } else { state.word() },
                "valid_until": state.session().map(|session| session.valid_until().to_string()),
            })
        })
        .collect();
    let policy = client.policy_status();
    let problem = policy.problem.map(|problem| {
        serde_json::json!({
            "code": problem.code,
            "message": problem.message,
            "since": problem.since.to_string(),
        })
    });
    serde_json::json!({
        "ready": client.is_ready(),
        "upstreams": upstreams,
        "policy": {
            "name": policy.name,
            "not_after": policy.not_after.map(|end| end.to_string()),
            "problem": problem,
        },
        "answered": counts.answered.load(Ordering::Relaxed),
        "refused": counts.refused.load(Ordering::Relaxed),
        "failed": counts.failed.load(Ordering::Relaxed),
        "sealed_bytes": counts.sealed_bytes.load(Ordering::Relaxed),
        "truncated": counts.truncated.load(Ordering::Relaxed),
        "skipped": counts.skipped.load(Ordering::Relaxed),
    })
}

fn verdict(state: &State) -> &'static str {
    match state {
        State::Trusted(_) => "VERIFIED",
        State::Simulated(_) => "SIMULATED: proves nothing about hardware",
        State::Refused(_) => "REFUSED",
        State::Withdrawn(_) => "WITHDRAWN: the trust policy was changed and refuses it",
        State::Unreachable(_) => "unreachable",
        State::Idle => "not asked yet",
        State::Checking => "being checked",
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
