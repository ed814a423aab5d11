//! `clearseal policy check`.

use crate::args::PolicyCheckArgs;
use crate::moment::Moment;
use crate::{input, render};
use anyhow::{Result, bail};
use attestation::{Acceptance, Policy, PolicyReview, ReleaseReview};
use serde::Serialize;
use std::process::ExitCode;

/// Exit status if the policy accepts nothing.
const REFUSED: u8 = 1;

/// Reason why a file is not a usable policy.
#[derive(Serialize)]
struct Refusal {
    usable: bool,
    code: &'static str,
    message: String,
    remedy: &'static str,
}

/// Explains what a trust policy accepts.
pub(crate) fn check(args: &PolicyCheckArgs) -> Result<ExitCode> {
    let at = match args.at {
        // A policy does not say when it was made.
        Moment::Evidence => {
            bail!("--at document is for evidence: a policy states no time; give `now` or RFC 3339")
        }
        at => at.resolve(None),
    };
    let policy = match Policy::chosen_by_hand(&input::read(&args.file)?) {
        Ok(policy) => policy,
        Err(error) => {
            let refusal = Refusal {
                usable: false,
                code: error.code(),
                message: error.to_string(),
                remedy: error.remedy(),
            };
            if args.json {
                render::json(&refusal)?;
            } else {
                render::lines(&[
                    format!("REFUSED  {}", refusal.code),
                    format!("  {}", refusal.message),
                    format!("  {}", refusal.remedy),
                ])?;
            }
            return Ok(ExitCode::from(REFUSED));
        }
    };
    let review = policy.review(at);
    if args.json {
        render::json(&review)?;
    } else {
        render::lines(&explain(&review))?;
    }
    Ok(if review.usable {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(REFUSED)
    })
}

fn explain(review: &PolicyReview) -> Vec<String> {
    let word = if review.usable { "USABLE" } else { "REFUSED" };
    let mut lines = vec![
        format!("{word}  policy {}", review.name),
        format!("  as of {}", render::time(review.judged_at_ms)),
        match review.best_verdict.as_str() {
            "verified" => "  root: AWS Nitro Enclaves; a service can be verified".to_owned(),
            verdict => format!(
                "  root: {}; a service can be {verdict} at best",
                review.root
            ),
        },
    ];
    if let Some(end) = review.not_after_ms {
        lines.push(format!("  the policy ends {}", render::time(end)));
    }
    lines.extend(title("Releases"));
    lines.extend(review.releases.iter().flat_map(release));
    lines.extend(title("Demands"));
    lines.push(format!(
        "  documents at most {} s old, clocks at most {} s apart",
        review.max_age_seconds, review.clock_skew_seconds
    ));
    let revocation = match review.revocation_required {
        true => "required",
        false => "judged when given",
    };
    lines.push(format!("  {:<14} {revocation}", "CRLs"));
    for (name, value) in [
        ("mode", &review.security_mode),
        ("model", &review.model),
        ("policy version", &review.policy_version),
    ] {
        let value = value.as_deref().unwrap_or("none named");
        lines.push(format!("  {name:<14} {value}"));
    }
    if !review.warnings.is_empty() {
        lines.extend(title("Look at"));
        let warnings = review.warnings.iter();
        lines.extend(warnings.map(|warning| format!("  {}  {}", warning.code, warning.text)));
    }
    lines
}

/// An empty line before a title: each entry is printed as one line.
fn title(title: &str) -> [String; 2] {
    [String::new(), title.to_owned()]
}

fn release(release: &ReleaseReview) -> [String; 2] {
    let mark = match release.accepted {
        Acceptance::Now => "accepted now",
        Acceptance::NotYet => "not yet     ",
        Acceptance::Ended => "ended       ",
    };
    let span = match (release.not_before_ms, release.not_after_ms) {
        (None, None) => "without end".to_owned(),
        (None, Some(end)) => format!("until {}", render::time(end)),
        (Some(start), None) => format!("from {}", render::time(start)),
        (Some(start), Some(end)) => {
            format!("from {} until {}", render::time(start), render::time(end))
        }
    };
    let registers = |indices: &[u8]| {
        let names: Vec<_> = indices.iter().map(|index| format!("PCR{index}")).collect();
        names.join(", ")
    };
    let open = match registers(&release.unpinned) {
        open if open.is_empty() => String::new(),
        open => format!("; open: {open}"),
    };
    let pinned = registers(&release.pinned);
    [
        format!("  {mark}  {}  {span}", release.name),
        format!("                pinned: {pinned}{open}"),
    ]
}
