//! Runs a verifier's adapter over questions: lines in, lines out.

use crate::kit::Question;
use crate::protocol::{Answer, Verdict};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// How a verifier answered one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Right,
    /// It took a document that it has to refuse.
    AcceptedWrongly,
    /// It refused a document that is good.
    RefusedWrongly,
    /// It refused rightly, but by breaking.
    Broke,
    /// It cannot be asked this.
    NotJudged,
}

/// Every question's outcome, by identifier, with what the verifier said.
pub type Outcomes = BTreeMap<String, (Outcome, String)>;

/// Compares an answer with what is right. Codes are a verifier's own and decide nothing.
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

/// Starts `command` once, asks everything, and waits for its end.
///
/// # Errors
/// Where it cannot be started, leaves a question open, or answers what was not asked.
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
    // A verifier may answer while it is being asked: both ends have to move.
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
            .with_context(|| format!("nobody asked {shown} about {}", answer.id))?;
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
