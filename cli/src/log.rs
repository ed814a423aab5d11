//! `clearseal verify log`: whether a receipt is in the log that its enclave signed, and whether two tree heads are consistent.

use crate::args::VerifyLogArgs;
use crate::receipt::{bundle, print_receipt};
use crate::{attestation::policy, attestation::stopwatch, input, render};
use anyhow::{Context, Result, anyhow, bail};
use attestation::{AttestationReport, ReceiptKey, SignatureMemory, Verdict};
use clearseal_client::blocking::Host;
use merkle::head::TreeHead;
use merkle::json::{
    Consistency, Inclusion, MAX_JSON, Message, SignedHead, from_json, hex, to_json,
};
use merkle::tree::receipt_hash;
use protocol::log::{self, EarlierHead, Leaf, LogInput, LogReport, LoggedReceipt};
use protocol::receipt::{self, Expectations, ReceiptReport};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Report of the log, and of the receipt and attestation that it depends on.
#[derive(Serialize)]
struct Report {
    log: LogReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<ReceiptReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attestation: Option<AttestationReport>,
}

/// Verifies tree heads, inclusion and consistency.
pub(crate) fn verify(args: &VerifyLogArgs) -> Result<ExitCode> {
    let host = args.url.as_deref().map(host_at).transpose()?;
    let (report, head) = match &args.file {
        Some(path) => with_receipt(args, path, host.as_ref())?,
        None => with_heads(args, host.as_ref())?,
    };
    print(&report, args.outcome.json)?;
    let refused = [
        Some(report.log.verdict),
        report.receipt.as_ref().map(|receipt| receipt.verdict),
    ]
    .contains(&Some(Verdict::Refused));
    if refused {
        // The head that was kept before is half of a proof against the host.
        return Ok(ExitCode::from(1));
    }
    if let Some(path) = &args.keep_head {
        keep(head, host.as_ref(), path)?;
    }
    Ok(render::status(report.log.verdict, args.outcome.accepted()))
}

/// A head that was judged, with the evidence for its key where that is known already.
enum Judged {
    Signed(SignedHead),
    Bare(Vec<u8>),
}

fn with_receipt(
    args: &VerifyLogArgs,
    path: &Path,
    host: Option<&Host>,
) -> Result<(Report, Judged)> {
    let file = input::read_binary(path)?;
    let own = bundle(&file);
    let bytes = own.as_ref().map_or(&file, |bundle| &bundle.receipt);
    let key = match (&args.key, &own) {
        (Some(key), _) => self::key(key)?,
        // The bundle's manifest names the log; whether it is to be believed is judged below.
        (None, Some(bundle)) => attestation::ServiceManifest::decode(&bundle.manifest)
            .map(|manifest| manifest.receipt_key)
            .unwrap_or_default(),
        (None, None) => {
            bail!("a receipt alone names no key: give --key HEX, or a bundle and --policy FILE")
        }
    };
    let inclusion: Inclusion = match (&args.proof, host) {
        (Some(path), _) => message(path)?,
        (None, Some(host)) => {
            let receipt = hex(&receipt_hash(bytes));
            ask(
                host,
                &format!("/v1/log/{}/inclusion?receipt={receipt}", hex(&key)),
            )?
        }
        (None, None) => bail!("give the proof with --proof FILE, or a host to ask with --url URL"),
    };
    let kept = Kept::read(args, host, &inclusion.head)?;
    let report = match (&args.key, &own, &args.policy) {
        (Some(_), ..) => {
            let expectations =
                Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
            let (receipt, claims) = receipt::verify(bytes, &expectations, Some(stopwatch()));
            let log = match &claims {
                Some(claims) => log::verify(
                    &LogInput {
                        expectations: &expectations,
                        leaf: Some(Leaf::Receipt(LoggedReceipt {
                            bytes,
                            claims,
                            inclusion: &inclusion,
                        })),
                        head: &inclusion.head,
                        earlier: kept.earlier(),
                    },
                    Some(stopwatch()),
                ),
                None => LogReport::receipt_refused(
                    "The receipt is refused, so that its place in a log proves nothing.",
                ),
            };
            Report {
                log,
                receipt: Some(receipt),
                attestation: None,
            }
        }
        (None, Some(bundle), Some(path)) => {
            let (judged, log) = bundle.verify_logged(
                &policy(path)?,
                &inclusion,
                kept.earlier(),
                || Some(stopwatch()),
                &mut SignatureMemory::new(),
            );
            Report {
                log,
                receipt: Some(judged.receipt),
                attestation: Some(judged.attestation),
            }
        }
        _ => bail!("the attestation in a bundle is judged against a policy: give --policy FILE"),
    };
    Ok((report, Judged::Bare(inclusion.head)))
}

fn with_heads(args: &VerifyLogArgs, host: Option<&Host>) -> Result<(Report, Judged)> {
    let path = args
        .head
        .as_deref()
        .context("give a receipt, or --head FILE")?;
    let head: SignedHead = message(path)?;
    let kept = Kept::read(args, host, &head.head)?;
    let (attestation, expectations) = match (&args.key, &args.policy) {
        (Some(key), _) => {
            let key = ReceiptKey::dangerous_unattested(self::key(key)?);
            (None, Some(Expectations::dangerous_unattested(key)))
        }
        (None, Some(path)) => {
            let crls = input::read_crls(&args.crls)?;
            let (report, found) = log::attest(&head, &crls, &policy(path)?, Some(stopwatch()));
            (Some(report), found)
        }
        (None, None) => bail!("a head is judged under its key: give --key HEX or --policy FILE"),
    };
    let log = match &expectations {
        Some(expectations) => log::verify(
            &LogInput {
                expectations,
                leaf: None,
                head: &head.head,
                earlier: kept.earlier(),
            },
            Some(stopwatch()),
        ),
        None => LogReport::receipt_refused(
            "The attestation of the log's key is refused, so that its heads prove nothing.",
        ),
    };
    let report = Report {
        log,
        receipt: None,
        attestation,
    };
    Ok((report, Judged::Signed(head)))
}

/// Tree head of an earlier run, and its consistency proof.
struct Kept {
    head: Option<Vec<u8>>,
    consistency: Option<Consistency>,
}

impl Kept {
    fn read(args: &VerifyLogArgs, host: Option<&Host>, head: &[u8]) -> Result<Self> {
        let Some(path) = &args.earlier else {
            return Ok(Self {
                head: None,
                consistency: None,
            });
        };
        let earlier = message::<SignedHead>(path)?.head;
        let consistency = match (&args.consistency, host) {
            (Some(path), _) => Some(message(path)?),
            (None, Some(host)) => between(host, &earlier, head)?,
            (None, None) => None,
        };
        Ok(Self {
            head: Some(earlier),
            consistency,
        })
    }

    fn earlier(&self) -> Option<EarlierHead<'_>> {
        Some(EarlierHead {
            head: self.head.as_deref()?,
            consistency: self.consistency.as_ref(),
        })
    }
}

/// Fetches the consistency proof between two heads. The heads are not trusted here: their sizes only form the request.
pub(crate) fn between(host: &Host, earlier: &[u8], head: &[u8]) -> Result<Option<Consistency>> {
    let (Ok((earlier, _)), Ok((head, _))) = (TreeHead::parse(earlier), TreeHead::parse(head))
    else {
        return Ok(None);
    };
    if earlier.size >= head.size {
        return Ok(None);
    }
    let path = format!(
        "/v1/log/{}/consistency?from={}&to={}",
        hex(&head.log),
        earlier.size,
        head.size
    );
    ask(host, &path).map(Some)
}

/// Writes a judged head for the next run. Replaces an earlier file atomically.
fn keep(head: Judged, host: Option<&Host>, path: &Path) -> Result<()> {
    let signed = match head {
        Judged::Signed(signed) => signed,
        Judged::Bare(head) => {
            let host = host.context("--keep-head asks a host for the evidence: give --url URL")?;
            let (parsed, _) = TreeHead::parse(&head)?;
            let (log, size) = (hex(&parsed.log), parsed.size);
            let signed: SignedHead = ask(host, &format!("/v1/log/{log}/head?size={size}"))?;
            // Evidence alone is taken from this answer: its head was not judged.
            SignedHead { head, ..signed }
        }
    };
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    std::fs::write(new, to_json(&signed)?)
        .and_then(|()| std::fs::rename(new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn key(text: &str) -> Result<[u8; 32]> {
    input::hex("--key", text)?
        .try_into()
        .ok()
        .context("--key is not 32 bytes: an Ed25519 key is")
}

fn message<T: Message>(path: &Path) -> Result<T> {
    from_json(&input::read(path)?).with_context(|| format!("{} cannot be used", path.display()))
}

pub(crate) fn ask<T: Message>(host: &Host, path: &str) -> Result<T> {
    let answer = host
        .get(path, MAX_JSON)
        .map_err(|error| anyhow!("{error}"))?;
    from_json(&answer).context("the host's answer cannot be used")
}

pub(crate) fn host_at(url: &str) -> Result<Host> {
    Host::new(url, TIMEOUT).map_err(|error| anyhow!("{error}. {}", error.remedy()))
}

const TIMEOUT: Duration = Duration::from_secs(120);

fn print(report: &Report, json: bool) -> Result<()> {
    if json {
        return render::json(report);
    }
    print_log(&report.log)?;
    if let Some(receipt) = &report.receipt {
        render::blank()?;
        print_receipt(receipt)?;
    }
    if let Some(attestation) = &report.attestation {
        render::blank()?;
        render::attestation(attestation)?;
    }
    Ok(())
}

/// The report of a log as a person reads it.
pub(crate) fn print_log(report: &LogReport) -> Result<()> {
    let LogReport {
        verdict,
        code,
        message,
        remedy,
        checks,
        head,
    } = report;
    render::print_checks(
        *verdict,
        [code, message, remedy].map(Option::as_deref),
        checks,
    )?;
    if let Some(head) = head {
        render::facts(
            "Tree head",
            &[
                ("log", head.log.clone()),
                ("leaves", head.size.to_string()),
                ("root", head.root.clone()),
                ("signed at", render::time(head.time.saturating_mul(1000))),
                ("document", head.document.clone()),
            ],
        )?;
    }
    Ok(())
}
