//! `clearseal policy kms` and `clearseal verify kms-policy`.

use crate::args::{PolicyKmsArgs, VerifyKmsPolicyArgs};
use crate::moment::Moment;
use crate::shown::ascii_json;
use crate::{input, render};
use anyhow::{Context, Result, bail, ensure};
use attestation::{Policy, UnixMillis};
use key_policy::{
    Accepted, Attested, Deployment, Example, Instance, KeyPolicy, KeyPolicyReport, Row, RowState,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit status if someone may decrypt without attestation.
const REFUSED: u8 = 1;

/// Prints the key policy of a trust policy.
pub(crate) fn write(args: &PolicyKmsArgs) -> Result<ExitCode> {
    for arn in [Some(&args.role), args.sealer.as_ref(), args.keeper.as_ref()]
        .into_iter()
        .flatten()
    {
        ensure!(
            is_role(arn),
            "{arn} is not the ARN of a role; write it as arn:aws:iam::111122223333:role/name"
        );
    }
    let deployment = Deployment {
        parent: &args.role,
        sealer: args.sealer.as_deref(),
        keeper: args.keeper.as_deref(),
    };
    let (trust, instances) = (trust(&args.policy)?, instances(&args.instance)?);
    let accepted = Accepted {
        trust: &trust,
        instances: &instances,
    };
    let policy = key_policy::write(accepted, deployment, at(args.at)?)?;
    // Printed in the form that KMS has room for.
    writeln!(std::io::stdout().lock(), "{}", ascii_json(&policy))
        .context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Judges a key policy.
pub(crate) fn verify(args: &VerifyKmsPolicyArgs) -> Result<ExitCode> {
    let (trust, instances) = (trust(&args.policy)?, instances(&args.instance)?);
    let at = at(args.at)?;
    if let Some(arn) = &args.key_arn {
        ensure!(
            is_key(arn),
            "{arn} is not the ARN of a key; write it as arn:aws:kms:REGION:111122223333:key/ID"
        );
    }
    let policy = match KeyPolicy::parse(&input::read_json(&args.file)?) {
        Ok(policy) => policy,
        Err(error) => {
            // A policy that is not understood may allow a bypass, so it is refused.
            let report = serde_json::json!({ "holds": false, "code": error.code(), "message": error.to_string() });
            if args.json {
                render::json(&report)?;
            } else {
                render::lines(&[format!("REFUSED  {}", error.code()), format!("  {error}")])?;
            }
            return Ok(ExitCode::from(REFUSED));
        }
    };
    let accepted = Accepted {
        trust: &trust,
        instances: &instances,
    };
    let report = key_policy::verify(&policy, accepted, args.key_arn.as_deref(), at);
    if args.json {
        render::json(&report)?;
    } else {
        render::lines(&explain(&report))?;
    }
    Ok(match report.holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REFUSED),
    })
}

fn explain(report: &KeyPolicyReport) -> Vec<String> {
    let word = match report.holds {
        true => "HOLDS    only what is accepted decrypts with this key",
        false => {
            "REFUSED  somebody can decrypt, or come to decrypt, without being an accepted image"
        }
    };
    let mut lines = vec![
        word.to_owned(),
        format!("  trust policy {}", report.policy),
        format!("  as of {}", render::time(report.judged_at_ms)),
        String::new(),
    ];
    lines.extend(report.checks.iter().flat_map(row));
    lines.extend([
        String::new(),
        "A key policy says what KMS will do. It does not say what was decrypted before, or where the key material came from"
            .to_owned(),
        "(docs/KEY-RELEASE.md).".to_owned(),
    ]);
    lines
}

fn row(row: &Row) -> Vec<String> {
    let mark = match row.state {
        RowState::Passed => "pass",
        RowState::Failed => "FAIL",
        RowState::Warning => "look",
    };
    let code = row.code.unwrap_or_default();
    let mut lines = vec![format!("  {mark}  {}  {}  {code}", row.title, row.observed)];
    lines.extend(row.bypasses.iter().map(|bypass| {
        let place = match bypass.statement.as_str() {
            "" => String::new(),
            name => format!(" (statement {name})"),
        };
        format!(
            "        {}: {}{place}",
            bypass.code.code(),
            bypass.code.text()
        )
    }));
    lines.extend(row.example.iter().map(describe));
    lines
}

fn describe(example: &Example) -> String {
    let attested = match example.attested {
        Attested::Nothing => "without attestation",
        Attested::Enclave => "from an enclave",
        Attested::Instance => "from an instance with NitroTPM",
    };
    let facts: Vec<_> = example
        .facts
        .iter()
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    let with = if facts.is_empty() { "" } else { ", with " };
    format!(
        "        for example {} {attested}{with}{}",
        example.action,
        facts.join("; ")
    )
}

fn instances(files: &[PathBuf]) -> Result<Vec<Instance>> {
    let read = |file: &PathBuf| {
        let name = file.display().to_string();
        Instance::parse(&name, &input::read_json(file)?).with_context(|| name)
    };
    files.iter().map(read).collect()
}

fn trust(file: &Path) -> Result<Policy> {
    Policy::chosen_by_hand(&input::read(file)?)
        .with_context(|| format!("{} is not a usable trust policy", file.display()))
}

fn at(moment: Moment) -> Result<UnixMillis> {
    match moment {
        Moment::Evidence => {
            bail!("--at document is for evidence: a policy states no time; give `now` or RFC 3339")
        }
        at => Ok(at.resolve(None)),
    }
}

/// Returns whether `arn` names a key. An alias is refused, because requests always name the key itself.
fn is_key(arn: &str) -> bool {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    match parts.as_slice() {
        ["arn", partition, "kms", region, account, key] => {
            partition.starts_with("aws")
                && !region.is_empty()
                && account.len() == 12
                && account.bytes().all(|byte| byte.is_ascii_digit())
                && key
                    .strip_prefix("key/")
                    .is_some_and(|id| !id.is_empty() && !id.contains(['/', ':']))
                && !arn.contains(['*', '?', '$'])
        }
        _ => false,
    }
}

/// Returns whether `arn` names a role, not an account or everyone.
fn is_role(arn: &str) -> bool {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    match parts.as_slice() {
        ["arn", partition, "iam", "", account, name] => {
            partition.starts_with("aws")
                && account.len() == 12
                && account.bytes().all(|byte| byte.is_ascii_digit())
                && name
                    .strip_prefix("role/")
                    .is_some_and(|name| !name.is_empty())
                && !arn.contains(['*', '?', '$'])
        }
        _ => false,
    }
}
