//! `clearseal embed --proofs` and `clearseal verify vector`: proofs that a vector was computed from a text.

use crate::args::VerifyVectorArgs;
use crate::attestation::policy;
use crate::render;
use crate::shown::shown;
use anyhow::{Context, Result, bail};
use attestation::SignatureMemory;
use attestation::report::Verdict;
use protocol::items::{
    EVIDENCE_FORMAT, Evidence, ItemsError, MAX_LINE, MAX_ROW, PairRow, VectorProof, VectorRow,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Appends the proofs of one answer: a line of evidence, then a line for each item.
pub(crate) fn write_proofs(
    file: &mut BufWriter<File>,
    evidence: &Evidence,
    proofs: &[VectorProof],
) -> Result<()> {
    let lines = std::iter::once(evidence.to_json()).chain(proofs.iter().map(VectorProof::to_json));
    for line in lines {
        writeln!(file, "{line}").context("cannot write the proofs")?;
    }
    Ok(())
}

/// Result of one row.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Judgement {
    /// Line of the file of vectors, from 1.
    line: usize,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Model that the receipt names, if the receipt was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    /// The prompt before the text.
    #[serde(skip_serializing_if = "String::is_empty")]
    prompt: String,
    /// How much of the text was read.
    tokens: u32,
    truncated: bool,
}

/// Judges the rows of the file of vectors against the proofs, in their order.
pub(crate) fn verify(args: &VerifyVectorArgs) -> Result<ExitCode> {
    let policy = policy(&args.policy)?;
    let mut memory = SignatureMemory::new();
    let mut evidence: Option<Evidence> = None;
    let mut proofs = lines(&args.proofs, MAX_LINE)?;
    let mut judged = Vec::new();
    for row in lines(&args.vectors, MAX_ROW)? {
        let (line, row) = row?;
        let row = Row::read(&row).with_context(|| format!("line {line} of the vectors"))?;
        let (proof, evidence) = next(&mut proofs, &mut evidence)?
            .with_context(|| format!("there is no proof for line {line} of the vectors"))?;
        let report = match &row {
            Row::Vector(row) => evidence.verify_row(&proof, row, &policy, &mut memory)?,
            Row::Pair(row) => evidence.verify_pair(&proof, row, &policy, &mut memory)?,
        };
        let attestation = &report.attestation;
        let is_other_row = report.receipt.code.as_deref() == Some(OTHER_RESPONSE);
        judged.push(Judgement {
            line,
            verdict: report.receipt.verdict,
            code: report.receipt.code,
            message: match is_other_row {
                true => Some(OTHER_ROW.to_owned()),
                false => report.receipt.message,
            },
            model: report.receipt.claims.map(|claims| claims.model_id),
            release: attestation
                .policy
                .as_ref()
                .and_then(|policy| policy.release.clone()),
            prompt: evidence.prompt.clone(),
            tokens: proof.read.tokens,
            truncated: proof.read.truncated,
        });
    }
    let Some(worst) = judged.iter().max_by_key(|one| rank(one.verdict)) else {
        bail!("there are no vectors to judge");
    };
    if next(&mut proofs, &mut evidence)?.is_some() {
        bail!("there are more proofs than vectors: give the rows that they belong to");
    }
    let status = render::status(worst.verdict, args.outcome.accepted());
    match args.outcome.json {
        true => render::json(&judged)?,
        false => print(&judged)?,
    }
    Ok(status)
}

/// A row of `embed`, or of `rerank`.
enum Row {
    Vector(VectorRow),
    Pair(PairRow),
}

impl Row {
    fn read(json: &str) -> Result<Self, ItemsError> {
        match PairRow::from_json(json) {
            Ok(row) => Ok(Self::Pair(row)),
            Err(_) => VectorRow::from_json(&unquote_vector(json)).map(Self::Vector),
        }
    }
}

/// Code of a receipt that is of another answer: the row is not one of its items.
pub(crate) const OTHER_RESPONSE: &str = "RESPONSE_HASH_MISMATCH";
pub(crate) const OTHER_ROW: &str = "this row's text or vector is not what was computed; stores must return float32 bit for bit (docs/RECEIPTS.md lists them)";

/// A row whose vector is a string of numbers in brackets, as pgvector's `json_build_object` writes it, with a list instead. Returns
/// every other row unchanged.
pub(crate) fn unquote_vector(row: &str) -> Cow<'_, str> {
    #[derive(Deserialize, Serialize)]
    struct Quoted<E> {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        truncated: Option<Value>,
        embedding: E,
    }
    let Ok(quoted) = serde_json::from_str::<Quoted<String>>(row) else {
        return row.into();
    };
    let Ok(embedding) = serde_json::from_str::<Vec<Value>>(&quoted.embedding) else {
        return row.into();
    };
    let listed = Quoted {
        text: quoted.text,
        tokens: quoted.tokens,
        truncated: quoted.truncated,
        embedding,
    };
    serde_json::to_string(&listed).map_or(row.into(), Cow::from)
}

/// Worst last.
pub(crate) fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Verified(_) => 0,
        Verdict::Signed => 1,
        Verdict::Authentic => 2,
        Verdict::Simulated => 3,
        Verdict::Refused => 4,
    }
}

fn print(judged: &[Judgement]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut put =
        |line: &str| writeln!(out, "{}", shown(line)).context("cannot write to standard output");
    for one in judged {
        let cut = match one.truncated {
            true => ", and the text was longer",
            false => "",
        };
        let after = match one.prompt.is_empty() {
            true => String::new(),
            false => format!(" after the prompt {:?}", one.prompt),
        };
        match &one.code {
            Some(code) => put(&format!(
                "line {}: {} {code}: {}",
                one.line,
                one.verdict.as_str(),
                one.message.as_deref().unwrap_or_default()
            ))?,
            None => put(&format!(
                "line {}: {}; {} of {} tokens{cut}{after}, release {}",
                one.line,
                one.verdict.as_str(),
                one.model.as_deref().unwrap_or("?"),
                one.tokens,
                one.release.as_deref().unwrap_or("not named"),
            ))?,
        }
    }
    Ok(())
}

pub(crate) type Lines = Box<dyn Iterator<Item = Result<(usize, String)>> + Send>;

/// The lines of a file that are not empty, with their numbers from 1; none is longer than `limit` bytes.
pub(crate) fn lines(path: &Path, limit: usize) -> Result<Lines> {
    let name = path.display().to_string();
    let mut reader: Box<dyn BufRead + Send> = match path.as_os_str() == "-" {
        true => Box::new(BufReader::new(std::io::stdin())),
        false => Box::new(BufReader::new(
            File::open(path).with_context(|| format!("cannot read {name}"))?,
        )),
    };
    let mut number = 0;
    Ok(Box::new(std::iter::from_fn(move || {
        loop {
            number += 1;
            match bounded_line(&mut reader, limit) {
                Ok(None) => return None,
                Ok(Some(line)) => {
                    // An editor may have written a byte order mark, and put together files hold several.
                    let text = intake::strip_bom(&line);
                    if !text.trim().is_empty() {
                        return Some(Ok((number, text.to_owned())));
                    }
                }
                Err(error) => {
                    return Some(Err(error.context(format!("line {number} of {name}"))));
                }
            }
        }
    })))
}

fn bounded_line(reader: &mut dyn BufRead, limit: usize) -> Result<Option<String>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    reader
        .take(limit as u64 + 1)
        .read_until(b'\n', &mut bytes)?;
    if bytes.len() > limit {
        bail!("it is longer than {limit} bytes");
    }
    match bytes.is_empty() {
        true => Ok(None),
        false => Ok(Some(
            String::from_utf8(bytes).ok().context("it is not UTF-8")?,
        )),
    }
}

/// Returns the next proof with its evidence, which precedes it.
pub(crate) fn next<'a>(
    lines: &mut Lines,
    evidence: &'a mut Option<Evidence>,
) -> Result<Option<(VectorProof, &'a Evidence)>> {
    #[derive(Deserialize)]
    struct Kind {
        format: String,
    }
    for line in lines {
        let (number, line) = line?;
        let what = || format!("line {number} of the proofs");
        let kind: Kind = serde_json::from_str(&line).with_context(what)?;
        if kind.format == EVIDENCE_FORMAT {
            *evidence = Some(Evidence::from_json(&line).with_context(what)?);
        } else {
            let proof = VectorProof::from_json(&line).with_context(what)?;
            let evidence = evidence
                .as_ref()
                .context("the proofs begin without a line of evidence")?;
            return Ok(Some((proof, evidence)));
        }
    }
    Ok(None)
}
