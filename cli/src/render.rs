//! Reports as text for a terminal. JSON is the report itself.

use anyhow::{Context, Result};
use attestation::report::{
    AttestationReport, CertificateView, DocumentView, Row, RowState, Verdict,
};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Prints `report` as one JSON object.
pub(crate) fn json(report: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, report).context("cannot write to standard output")?;
    writeln!(out).context("cannot write to standard output")
}

/// Exit status of a verdict.
pub(crate) fn status(verdict: Verdict, accept_simulated: bool) -> ExitCode {
    match verdict {
        Verdict::Verified | Verdict::Authentic => ExitCode::SUCCESS,
        Verdict::Simulated if accept_simulated => ExitCode::SUCCESS,
        Verdict::Simulated | Verdict::Refused => ExitCode::from(1),
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
            "  policy {} ({} root, from the {}){release}",
            policy.name, policy.root, policy.source
        ))?;
    }
    out.line("")?;
    out.rows(&report.checks)?;
    if let Some(document) = &report.document {
        out.document(document)?;
    }
    if !report.chain.is_empty() {
        out.line("\nCertificates")?;
        for certificate in &report.chain {
            out.certificate(certificate)?;
        }
    }
    out.line("\nWhat follows")?;
    for statement in &report.statements {
        let mark = if statement.holds { "yes" } else { " - " };
        out.line(&format!("  {mark}  {}", statement.text))?;
    }
    Ok(())
}

/// Prints a verdict and its rows, for reports without a document.
///
/// `said` is code, message and remedy.
pub(crate) fn ladder(verdict: Verdict, said: [Option<&str>; 3], rows: &[Row]) -> Result<()> {
    let mut out = Output::stdout();
    out.heading(verdict, said)?;
    out.line("")?;
    out.rows(rows)
}

/// Says on standard error why evidence was refused, where standard output is for something else.
pub(crate) fn refusal(report: &AttestationReport) -> Result<()> {
    let code = report.code.as_deref().unwrap_or("REFUSED");
    let said = [&report.message, &report.remedy].map(|sentence| sentence.as_deref().unwrap_or(""));
    writeln!(
        std::io::stderr(),
        "REFUSED  {code}\n  {}\n  {}",
        said[0],
        said[1]
    )
    .context("cannot write to standard error")
}

/// Prints names and values under a title.
pub(crate) fn facts(title: &str, facts: &[(&str, String)]) -> Result<()> {
    let mut out = Output::stdout();
    out.line(&format!("\n{title}"))?;
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

    fn line(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "{text}").context("cannot write to standard output")
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn heading(
        &mut self,
        verdict: Verdict,
        [code, message, remedy]: [Option<&str>; 3],
    ) -> Result<()> {
        let word = match verdict {
            Verdict::Verified => self.paint("1;32", "VERIFIED"),
            Verdict::Simulated => self.paint("1;35", "SIMULATED"),
            Verdict::Authentic => self.paint("1;36", "AUTHENTIC (image not judged)"),
            Verdict::Refused => self.paint("1;31", "REFUSED"),
        };
        let code = code.map_or_else(String::new, |code| format!("  {code}"));
        self.line(&format!("{word}{code}"))?;
        for sentence in [message, remedy].into_iter().flatten() {
            self.line(&format!("  {sentence}"))?;
        }
        Ok(())
    }

    fn rows(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let mark = match row.state {
                RowState::Passed => self.paint("32", "passed "),
                RowState::Failed => self.paint("31", "FAILED "),
                RowState::Warning => self.paint("33", "warning"),
                RowState::Skipped => self.paint("33", "skipped"),
                RowState::NotRun => self.paint("90", "not run"),
            };
            let seen = if row.observed.is_empty() {
                String::new()
            } else {
                format!("  {}", row.observed)
            };
            self.line(&format!("  {:>2}  {mark}  {}{seen}", row.id, row.title))?;
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
        self.line("\nDocument")?;
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
            let warning = self.paint("31", "debug mode: the host can read this enclave's console");
            self.line(&format!("  {warning}"))?;
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
