//! `clearseal verify receipt` and `clearseal verify bundle`.

use crate::args::{VerifyBundleArgs, VerifyReceiptArgs};
use crate::moment::Moment;
use crate::{attestation::policy, attestation::stopwatch, input, render};
use anyhow::{Context, Result, bail};
use attestation::{AttestationReport, ReceiptKey, SignatureMemory, is_same_model};
use protocol::bundle::AuditBundle;
use protocol::receipt::{self, Expectations, ReceiptReport, Window};
use serde::Serialize;
use std::process::ExitCode;

/// Clocks differ by less than this, in seconds.
const CLOCK_SKEW_SECONDS: u64 = 60;

/// The receipt's report, and that of the attestation its key came from.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    receipt: ReceiptReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    attestation: Option<AttestationReport>,
}

/// Verifies a receipt: format, signature, claims and policy.
pub(crate) fn verify(args: &VerifyReceiptArgs) -> Result<ExitCode> {
    let file = input::read_binary(&args.file)?;
    let own_bundle = bundle(&file);
    let report = match (&args.key, &args.bundle, own_bundle) {
        (Some(_), _, Some(_)) => bail!(
            "a bundle holds the attestation of its receipt's key: leave --key out, and give --policy FILE; a key that was typed judges a receipt alone"
        ),
        (Some(key), _, None) => with_key(args, &file, key)?,
        (None, None, Some(bundle)) => with_bundle(args, bundle)?,
        (None, Some(path), own) => {
            let receipt = own.map_or(file, |bundle| bundle.receipt);
            let attested = bundle(&input::read(path)?)
                .with_context(|| format!("{} is not an audit bundle", path.display()))?;
            // The content of the bundle is that of its own receipt; another receipt has other commitments.
            let content = attested.content.filter(|_| attested.receipt == receipt);
            with_bundle(
                args,
                AuditBundle {
                    receipt,
                    content,
                    ..attested
                },
            )?
        }
        (None, None, None) => bail!(
            "a receipt alone names no key: give --key HEX, or --bundle FILE and --policy FILE"
        ),
    };
    print(&report, args.outcome.json)?;
    Ok(render::status(
        report.receipt.verdict,
        args.outcome.accepted(),
    ))
}

/// Verifies attestation and receipt as one chain.
pub(crate) fn verify_bundle(args: &VerifyBundleArgs) -> Result<ExitCode> {
    let mut bundle = std::str::from_utf8(&input::read(&args.file)?)
        .context("the file is not text")
        .and_then(|json| Ok(AuditBundle::from_json(json)?))
        .with_context(|| format!("{} is not an audit bundle", args.file.display()))?;
    bundle.crls.extend(input::read_crls(&args.crls)?);
    let judged = bundle.verify(
        &policy(&args.policy)?,
        || Some(stopwatch()),
        &mut SignatureMemory::new(),
    );
    let report = Report {
        receipt: judged.receipt,
        attestation: Some(judged.attestation),
    };
    print(&report, args.outcome.json)?;
    Ok(render::status(
        report.receipt.verdict,
        args.outcome.accepted(),
    ))
}

fn with_key(args: &VerifyReceiptArgs, receipt: &[u8], key: &str) -> Result<Report> {
    let key: [u8; 32] = input::hex("--key", key)?
        .try_into()
        .ok()
        .context("--key is not 32 bytes: an Ed25519 key is")?;
    let mut expectations =
        Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
    expectations.nonce = args
        .nonce
        .as_deref()
        .map(|nonce| input::hex("--nonce", nonce))
        .transpose()?;
    expectations.window = window(args);
    if let Some(path) = &args.policy {
        let policy = policy(path)?;
        expectations.policy_version = policy.policy_version().map(str::to_owned);
        expectations.security_mode = policy.security_mode();
        expectations.model_id = policy.model().map(|model| model.id.clone());
        expectations.model_hash = policy.model().map(|model| model.sha256);
    }
    let (mut report, _) = receipt::verify(receipt, &expectations, Some(stopwatch()));
    // A policy may name the model with organisation, the receipt without it, or the reverse.
    if let (Some(expected), Some(claims)) = (&mut expectations.model_id, &report.claims)
        && is_same_model(expected, &claims.model_id)
        && *expected != claims.model_id
    {
        expected.clone_from(&claims.model_id);
        (report, _) = receipt::verify(receipt, &expectations, Some(stopwatch()));
    }
    Ok(Report {
        receipt: report,
        attestation: None,
    })
}

fn with_bundle(args: &VerifyReceiptArgs, mut bundle: AuditBundle) -> Result<Report> {
    let Some(path) = &args.policy else {
        bail!("the attestation in a bundle is judged against a policy: give --policy FILE");
    };
    if args.at != Moment::Evidence {
        bail!("a bundle is judged as of its receipt's own time: leave --at out");
    }
    bundle.crls.extend(input::read_crls(&args.crls)?);
    let report = bundle.verify(
        &policy(path)?,
        || Some(stopwatch()),
        &mut SignatureMemory::new(),
    );
    Ok(Report {
        receipt: report.receipt,
        attestation: Some(report.attestation),
    })
}

fn window(args: &VerifyReceiptArgs) -> Option<Window> {
    let at = match args.at {
        // Judged at its own time, a receipt is as old as it should be.
        Moment::Evidence => return None,
        Moment::Now | Moment::At(_) => args.at.resolve(None),
    };
    Some(Window {
        at,
        max_age_seconds: args.max_age,
        clock_skew_seconds: CLOCK_SKEW_SECONDS,
    })
}

/// Parses an audit bundle; returns `None` for any other file.
pub(crate) fn bundle(bytes: &[u8]) -> Option<AuditBundle> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| AuditBundle::from_json(text).ok())
}

fn print(report: &Report, json: bool) -> Result<()> {
    if json {
        return render::json(report);
    }
    print_receipt(&report.receipt)?;
    if let Some(attestation) = &report.attestation {
        render::blank()?;
        render::attestation(attestation)?;
    }
    Ok(())
}

/// Prints a receipt's rows and claims.
pub(crate) fn print_receipt(report: &ReceiptReport) -> Result<()> {
    let ReceiptReport {
        verdict,
        code,
        message,
        remedy,
        checks,
        claims,
        judged_at_ms,
    } = report;
    render::print_checks(
        *verdict,
        [code, message, remedy].map(Option::as_deref),
        checks,
    )?;
    if let Some(claims) = claims {
        render::facts(
            "Claims",
            &[
                ("issuer", claims.issuer.clone()),
                (
                    "issued at",
                    render::time(claims.issued_at.saturating_mul(1000)),
                ),
                ("judged for", render::time(*judged_at_ms)),
                ("sequence", claims.sequence_number.to_string()),
                (
                    "model",
                    format!(
                        "{} {} ({})",
                        claims.model_id, claims.model_version, claims.model_hash
                    ),
                ),
                (
                    "execution",
                    format!(
                        "at most {} ms, peak memory at most {} MiB",
                        claims.execution_time_ms, claims.memory_peak_mb
                    ),
                ),
                (
                    "mode",
                    format!("{}, policy {}", claims.security_mode, claims.policy_version),
                ),
                ("document", claims.attestation_doc_hash.clone()),
                ("request", claims.request_hash.clone()),
                ("response", claims.response_hash.clone()),
            ],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bundle_is_a_bundle() {
        for bytes in [&b"{}"[..], b"", b"\xd2\x84", b"[1,2]"] {
            assert!(bundle(bytes).is_none());
        }
    }
}
