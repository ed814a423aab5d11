//! Reports as text for a terminal. JSON is the report itself.

use crate::shown::{ascii_json, shown};
use anyhow::{Context, Result};
use attestation::report::{
    AttestationReport, CertificateView, DocumentView, Row, RowState, Verdict,
};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Prints `report` as one JSON object.
pub(crate) fn json(report: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(report)?;
    writeln!(std::io::stdout().lock(), "{}", ascii_json(&json))
        .context("cannot write to standard output")
}

/// Verdicts below *verified* that the user named as good enough.
#[derive(Clone, Copy)]
pub(crate) struct Accepted {
    pub(crate) simulated: bool,
    pub(crate) authentic: bool,
}

/// Exit status of a verdict. *Signed* answers a question about a key that the user named, and so is a success.
pub(crate) fn status(verdict: Verdict, accepted: Accepted) -> ExitCode {
    match verdict {
        Verdict::Verified(_) | Verdict::Signed => ExitCode::SUCCESS,
        Verdict::Simulated if accepted.simulated => ExitCode::SUCCESS,
        Verdict::Authentic if accepted.authentic => ExitCode::SUCCESS,
        Verdict::Simulated | Verdict::Authentic | Verdict::Refused => ExitCode::from(1),
    }
}

/// Prints a whole attestation report.
pub(crate) fn attestation(report: &AttestationReport) -> Result<()> {
    let mut out = Output::stdout();
    out.heading(
        report.verdict,
        [&report.code, &report.message, &report.remedy].map(Option::as_deref),
    )?;
    out.line(&format!("  judged for {}", time(report.judged_at_ms)))?;
    if let Some(policy) = &report.policy {
        let release = policy
            .release
            .as_deref()
            .map_or_else(String::new, |name| format!(", release {name}"));
        out.line(&format!(
            "  policy {} ({} root, {}){release}",
            policy.name,
            policy.root,
            who_chose(&policy.origin)
        ))?;
    }
    out.line("")?;
    out.rows(&report.checks)?;
    if let Some(document) = &report.document {
        out.document(document)?;
    }
    if !report.chain.is_empty() {
        out.title("Certificates")?;
        for certificate in &report.chain {
            out.certificate(certificate)?;
        }
    }
    out.title("What follows")?;
    for statement in &report.statements {
        let mark = if statement.holds { "yes" } else { " - " };
        out.line(&format!("  {mark}  {}", statement.text))?;
    }
    Ok(())
}

/// Describes who chose a policy.
fn who_chose(origin: &str) -> &'static str {
    match origin {
        "built-in" => "built into this verifier",
        "chosen" => "chosen by you",
        _ => "came with the evidence",
    }
}

/// Prints a verdict and its checks, for reports without a document.
///
/// `texts` is code, message and remedy.
pub(crate) fn print_checks(verdict: Verdict, texts: [Option<&str>; 3], rows: &[Row]) -> Result<()> {
    let mut out = Output::stdout();
    out.heading(verdict, texts)?;
    out.line("")?;
    out.rows(rows)
}

/// Prints on standard error why evidence was refused, for commands that use standard output for results.
pub(crate) fn refusal(report: &AttestationReport) -> Result<()> {
    let code = report.code.as_deref().unwrap_or("REFUSED");
    let texts =
        [&report.message, &report.remedy].map(|sentence| shown(sentence.as_deref().unwrap_or("")));
    writeln!(
        std::io::stderr(),
        "REFUSED  {code}\n  {}\n  {}",
        texts[0],
        texts[1]
    )
    .context("cannot write to standard error")
}

/// Prints names and values under a title.
pub(crate) fn facts(title: &str, facts: &[(&str, String)]) -> Result<()> {
    let mut out = Output::stdout();
    out.title(title)?;
    for (name, value) in facts {
        out.line(&format!("  {name:<10} {value}"))?;
    }
    Ok(())
}

/// Prints lines as they are.
pub(crate) fn lines(lines: &[String]) -> Result<()> {
    let mut out = Output::stdout();
    lines.iter().try_for_each(|line| out.line(line))
}

/// Prints an empty line.
pub(crate) fn blank() -> Result<()> {
    Output::stdout().line("")
}

/// A point in time, RFC 3339 in UTC.
pub(crate) fn time(millis: u64) -> String {
    i64::try_from(millis)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
        .map_or_else(
            || format!("{millis} ms after 1970"),
            |time| time.to_string(),
        )
}

struct Output {
    out: std::io::StdoutLock<'static>,
    colour: bool,
}

impl Output {
    fn stdout() -> Self {
        // https://no-color.org: any value that is not empty turns colour off.
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let out = std::io::stdout();
        let colour = out.is_terminal() && !plain;
        Self {
            out: out.lock(),
            colour,
        }
    }

    /// One line, made harmless: whatever it quotes may be unverified.
    fn line(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "{}", shown(text)).context("cannot write to standard output")
    }

    /// An empty line, and the title of what follows: a line break within a line would be made harmless.
    fn title(&mut self, title: &str) -> Result<()> {
        self.line("")?;
        self.line(title)
    }

    /// A line with one word of ours in colour; the rest is made harmless.
    fn painted(&mut self, before: &str, colour: &str, word: &str, after: &str) -> Result<()> {
        let [before, after] = [before, after].map(shown);
        let outcome = if self.colour {
            writeln!(self.out, "{before}\x1b[{colour}m{word}\x1b[0m{after}")
        } else {
            writeln!(self.out, "{before}{word}{after}")
        };
        outcome.context("cannot write to standard output")
    }

    fn heading(
        &mut self,
        verdict: Verdict,
        [code, message, remedy]: [Option<&str>; 3],
    ) -> Result<()> {
        let (colour, word) = match verdict {
            Verdict::Verified(_) => ("1;32", "VERIFIED"),
            Verdict::Simulated => ("1;35", "SIMULATED"),
            Verdict::Authentic => ("1;36", "AUTHENTIC (image, age or keys not judged)"),
            Verdict::Signed => ("1;36", "SIGNED (by the key that you named, not attested)"),
            Verdict::Refused => ("1;31", "REFUSED"),
        };
        let code = code.map_or_else(String::new, |code| format!("  {code}"));
        self.painted("", colour, word, &code)?;
        for sentence in [message, remedy].into_iter().flatten() {
            self.line(&format!("  {sentence}"))?;
        }
        Ok(())
    }

    fn rows(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let (colour, mark) = match row.state {
                RowState::Passed => ("32", "passed "),
                RowState::Failed => ("31", "FAILED "),
                RowState::Warning => ("33", "warning"),
                RowState::Skipped => ("33", "skipped"),
                RowState::NotRun => ("90", "not run"),
            };
            let seen = if row.observed.is_empty() {
                String::new()
            } else {
                format!("  {}", row.observed)
            };
            let number = format!("  {:>2}  ", row.id);
            self.painted(&number, colour, mark, &format!("  {}{seen}", row.title))?;
            if row.state == RowState::Failed {
                self.line(&format!(
                    "               expected: {}  ({})",
                    row.expected, row.clause
                ))?;
            }
        }
        Ok(())
    }

    fn document(&mut self, document: &DocumentView) -> Result<()> {
        self.title("Document")?;
        self.line(&format!("  SHA-256    {}", document.sha256))?;
        self.line(&format!("  module     {}", document.module_id))?;
        self.line(&format!("  made at    {}", time(document.timestamp_ms)))?;
        for (name, value) in [
            ("nonce", &document.nonce),
            ("user data", &document.user_data),
            ("public key", &document.public_key),
        ] {
            let value = match value.as_deref() {
                None => "null",
                Some("") => "(no bytes)",
                Some(value) => value,
            };
            self.line(&format!("  {name:<10} {value}"))?;
        }
        if document.debug {
            let warning = "debug mode: the host can read this enclave's console";
            self.painted("  ", "31", warning, "")?;
        }
        for pcr in document
            .pcrs
            .iter()
            .filter(|pcr| !pcr.zero || pcr.index < 3)
        {
            self.line(&format!(
                "  PCR{:<2} {}  {}",
                pcr.index, pcr.value, pcr.role
            ))?;
        }
        let zero = document
            .pcrs
            .iter()
            .filter(|pcr| pcr.zero && pcr.index >= 3)
            .count();
        if zero > 0 {
            self.line(&format!("  {zero} further registers are zero"))?;
        }
        Ok(())
    }

    fn certificate(&mut self, certificate: &CertificateView) -> Result<()> {
        let span = |seconds: u64| time(seconds.saturating_mul(1000));
        self.line(&format!(
            "  {:<9} {}",
            certificate.role, certificate.subject
        ))?;
        self.line(&format!(
            "            {} to {}  SHA-256 {}",
            span(certificate.not_before),
            span(certificate.not_after),
            certificate.sha256
        ))
    }
}
