//! Runs a verifier's adapter with questions, one line each.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::kit::Question;
use crate::protocol::{Answer, Verdict};

/// How a verifier answered one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As expected.
    Right,
    /// It accepted a document that it must refuse.
    AcceptedWrongly,
    /// It refused a valid document.
    RefusedWrongly,
    /// It refused an invalid document, but by failing.
    Broke,
    /// It does not support the question.
    NotJudged,
}

/// The outcome of each question by identifier, with the verifier's message.
pub type Outcomes = BTreeMap<String, (Outcome, String)>;

/// Compares an answer with the expected verdict. Codes are specific to a verifier and are ignored.
pub fn outcome(expected: Verdict, given: Verdict) -> Outcome {
    match (expected, given) {
        (_, Verdict::Unsupported) => Outcome::NotJudged,
        (Verdict::Accept, Verdict::Accept) => Outcome::Right,
        (Verdict::Accept, _) => Outcome::RefusedWrongly,
        (_, Verdict::Accept) => Outcome::AcceptedWrongly,
        (_, Verdict::Error) => Outcome::Broke,
        _ => Outcome::Right,
    }
}

/// Starts `command`, asks all questions, and waits for its end.
///
/// # Errors
/// If it cannot be started, leaves a question unanswered, or answers a question that was not asked.
pub fn run(mut command: Command, questions: &[Question]) -> Result<Outcomes> {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let mut input = child.stdin.take().context("no standard input")?;
    let output = child.stdout.take().context("no standard output")?;
    let lines: Vec<String> = questions
        .iter()
        .map(|question| serde_json::to_string(&question.request))
        .collect::<Result<_, _>>()?;
    // A verifier may answer before all questions are written, so write them on another thread.
    let asking = std::thread::spawn(move || {
        for line in lines {
            if writeln!(input, "{line}").is_err() {
                return;
            }
        }
    });
    let mut outcomes = Outcomes::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        let answer: Answer = serde_json::from_str(&line)
            .with_context(|| format!("{shown} answered with {line:?}"))?;
        let question = questions
            .iter()
            .find(|question| question.request.id == answer.id)
            .with_context(|| {
                format!(
                    "{shown} answered a question that was not asked: {}",
                    answer.id
                )
            })?;
        let outcome = outcome(question.expected, answer.verdict);
        let before = outcomes.insert(answer.id, (outcome, answer.code));
        ensure!(before.is_none(), "{shown} answered twice: {line}");
    }
    asking
        .join()
        .ok()
        .context("the questions cannot be asked")?;
    let status = child.wait()?;
    let open = questions
        .iter()
        .find(|question| !outcomes.contains_key(&question.request.id));
    ensure!(
        open.is_none(),
        "{shown} ended ({status}) without an answer about {}",
        open.map_or("", |question| question.request.id.as_str())
    );
    Ok(outcomes)
}
