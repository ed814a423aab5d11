//! `clearseal index check`: verifies rows with their proofs, and that they are of one index.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use attestation::SignatureMemory;
use attestation::report::Verdict;
use protocol::items::{EVIDENCE_FORMAT, Input, MAX_LINE, MAX_ROW, PROOF_FORMAT, VectorRow};
use serde::{Deserialize, Serialize};

use super::identity::Identity;
use crate::args::IndexCheckArgs;
use crate::attestation::policy;
use crate::render;
use crate::shown::shown;
use crate::vector::{Lines, OTHER_RESPONSE, OTHER_ROW, lines, next, rank, unquote_vector};

/// Result of a whole index.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    verdict: Verdict,
    /// Rows that were accepted.
    rows: usize,
    /// Model of the first row.
    model: String,
    model_hash: String,
    dimensions: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refused>,
    /// Identity of the rows that were accepted.
    #[serde(skip)]
    identity: Identity,
}

/// The first row that is not of the index, or whose proof is refused.
#[derive(Serialize)]
struct Refused {
    file: String,
    /// From 1.
    line: usize,
    code: String,
    message: String,
}

pub(crate) fn check(args: &IndexCheckArgs) -> Result<ExitCode> {
    let policy = policy(&args.policy)?;
    let mut memory = SignatureMemory::new();
    let (files, mut proofs) = sort_files(args)?;
    let mut evidence = None;
    let mut report: Option<Report> = None;
    for (file, rows) in files {
        for row in rows {
            let (line, row) = row?;
            let row = VectorRow::from_json(&unquote_vector(&row))
                .with_context(|| format!("line {line} of {file}"))?;
            let (proof, evidence) = next(&mut proofs, &mut evidence)?
                .with_context(|| format!("there is no proof for line {line} of {file}"))?;
            let mut identity = Identity::read(evidence, row.embedding().len())?;
            if let Input::Tokens(_) = row.input() {
                identity.prompt = None;
            }
            let report = report.get_or_insert_with(|| Report::begin(&identity));
            // Before the signature: a policy for one model would refuse the row of another one without naming the mixture.
            let refusal = match report.identity.check(&identity) {
                Err(error) => Some((
                    error.code().to_owned(),
                    format!("{error}. {}", error.remedy()),
                )),
                Ok(()) => {
                    let judged = evidence.verify_row(&proof, &row, &policy, &mut memory)?;
                    if rank(judged.receipt.verdict) > rank(report.verdict) || report.rows == 0 {
                        report.verdict = judged.receipt.verdict;
                    }
                    let message = judged.receipt.message.unwrap_or_default();
                    let code = judged.receipt.code;
                    code.map(|code| match code == OTHER_RESPONSE {
                        true => (code, OTHER_ROW.to_owned()),
                        false => (code, message),
                    })
                }
            };
            if let Some((code, message)) = refusal {
                report.verdict = Verdict::Refused;
                report.refused = Some(Refused {
                    file,
                    line,
                    code,
                    message,
                });
                return finish(report, args);
            }
            report.rows += 1;
            if report.identity.prompt.is_none() {
                report.prompt = identity.prompt.clone().unwrap_or_default();
                report.identity.prompt = identity.prompt;
            }
        }
    }
    let report = report.context("there are no vectors to judge")?;
    if next(&mut proofs, &mut evidence)?.is_some() {
        bail!("there are more proofs than vectors: give the rows that they belong to");
    }
    finish(&report, args)
}

impl Report {
    fn begin(identity: &Identity) -> Self {
        Self {
            verdict: Verdict::Refused,
            rows: 0,
            model: identity.model.clone(),
            model_hash: identity.model_hash.clone(),
            dimensions: identity.dimension,
            prompt: identity.prompt.clone().unwrap_or_default(),
            refused: None,
            identity: identity.clone(),
        }
    }
}

/// Opens all files: those of rows with their names, and the proofs of all files after each other.
fn sort_files(args: &IndexCheckArgs) -> Result<(Vec<(String, Lines)>, Lines)> {
    let mut rows = Vec::new();
    let mut proofs: Lines = Box::new(std::iter::empty());
    for path in &args.files {
        let (is_proofs, lines) = open(path)?;
        match is_proofs {
            true => proofs = Box::new(proofs.chain(lines)),
            false => rows.push((path.display().to_string(), lines)),
        }
    }
    Ok((rows, proofs))
}

/// Opens a file, and returns whether its first line is one of proofs.
fn open(path: &Path) -> Result<(bool, Lines)> {
    #[derive(Deserialize)]
    struct Kind {
        format: String,
    }
    let mut lines = lines(path, MAX_LINE.max(MAX_ROW))?.peekable();
    let first = lines.peek().and_then(|line| line.as_ref().ok());
    let kind = first.and_then(|(_, line)| serde_json::from_str::<Kind>(line).ok());
    let is_proofs =
        kind.is_some_and(|kind| [EVIDENCE_FORMAT, PROOF_FORMAT].contains(&&*kind.format));
    Ok((is_proofs, Box::new(lines)))
}

fn finish(report: &Report, args: &IndexCheckArgs) -> Result<ExitCode> {
    if args.outcome.json {
        render::json(report)?;
    } else {
        let text = match &report.refused {
            Some(refused) => format!(
                "{} line {}: refused {}: {}",
                refused.file, refused.line, refused.code, refused.message
            ),
            None => format!(
                "{} rows: {}; {} ({}), {} dimensions{}",
                report.rows,
                report.verdict.as_str(),
                report.model,
                report.model_hash,
                report.dimensions,
                match report.prompt.is_empty() {
                    true => String::new(),
                    false => format!(", after the prompt {:?}", report.prompt),
                }
            ),
        };
        writeln!(std::io::stdout(), "{}", shown(&text))
            .context("cannot write to standard output")?;
    }
    Ok(render::status(report.verdict, args.outcome.accepted()))
}
