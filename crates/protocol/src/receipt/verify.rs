//! Runs all four layers.

use attestation::{CheckLog, Stopwatch};

use super::claims::ReceiptClaims;
use super::error::ReceiptRefusal;
use super::expectations::Expectations;
use super::parse::ParsedReceipt;
use super::rows::ReceiptCheck;
use super::view::{self, ReceiptReport};

/// Verifies a receipt. Returns the claims only if every layer passed.
pub fn verify(
    receipt: &[u8],
    expectations: &Expectations,
    stopwatch: Option<Stopwatch>,
) -> (ReceiptReport, Option<ReceiptClaims>) {
    let mut log = CheckLog::new();
    if let Some(stopwatch) = stopwatch {
        log = log.with_stopwatch(stopwatch);
    }
    let mut seen = None;
    let outcome = run_layers(receipt, expectations, &mut log, &mut seen);
    if let Err(refusal) = &outcome {
        log.fail(refusal.row, refusal.code.code(), refusal.observed.clone());
    }
    let report = view::report(
        outcome.as_ref().err(),
        seen.as_ref(),
        expectations,
        log.into_rows(),
    );
    // The displayed verdict and the returned claims never disagree.
    let passed = report.verdict != attestation::Verdict::Refused;
    (report, outcome.ok().filter(|_| passed))
}

fn run_layers(
    receipt: &[u8],
    expectations: &Expectations,
    log: &mut CheckLog<ReceiptCheck>,
    seen: &mut Option<ReceiptClaims>,
) -> Result<ReceiptClaims, ReceiptRefusal> {
    let valid = ParsedReceipt::parse(receipt, log)?
        .authenticate(expectations, log)?
        .validate(log)?;
    *seen = Some(valid.claims.clone());
    valid.appraise(expectations, log)
}
