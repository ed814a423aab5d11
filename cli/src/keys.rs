//! `clearseal verify keys`: are the keys that a client was given those that every host shows to everybody?
//!
//! An enclave begins the log of its receipt key with its key configuration. A host that had keys made for one user alone has a log
//! that it must show to that user and keep from all others, so whoever asks as one of the others finds out.

use crate::args::VerifyKeysArgs;
use crate::attestation::{EvidenceFile, policy, stopwatch};
use crate::log::{between, host_at, print_log};
use crate::moment::Moment;
use crate::receipt::bundle;
use crate::render::Accepted;
use crate::{input, render};
use anyhow::{Context, Result, anyhow, bail};
use attestation::{AttestationReport, Freshness, Question, ServiceManifest, Verdict};
use clearseal_client::blocking::Host;
use merkle::exchange::{Consistency, Inclusion, MAX_JSON, from_json, hex};
use merkle::head::TreeHead;
use merkle::tree::keys_hash;
use protocol::log::{self, Earlier, Leaf, LogReport, Published};
use protocol::receipt::Expectations;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report {
    verdict: Verdict,
    /// Data of the log's first leaf, in hex.
    keys: String,
    attestation: AttestationReport,
    /// One for each host that was asked, in the order of their histories.
    hosts: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    host: String,
    log: LogReport,
}

/// What a host showed: the keys' place in its log.
struct Answer {
    host: Host,
    inclusion: Option<Inclusion>,
}

pub(crate) fn verify(args: &VerifyKeysArgs) -> Result<ExitCode> {
    let file = input::read_binary(&args.file)?;
    let (evidence, manifest) = match bundle(&file) {
        Some(bundle) => (EvidenceFile::parse(bundle.document), Some(bundle.manifest)),
        None => {
            let mut evidence = EvidenceFile::parse(file);
            let manifest = evidence.manifest.take();
            (evidence, manifest)
        }
    };
    let manifest = manifest.context(
        "this holds no key configuration: give what GET /v1/attestation answered, or an audit bundle",
    )?;
    let policy = policy(&args.policy)?;
    let (attestation, conclusion) = attestation::verify(Question {
        document: &evidence.document,
        manifest: Some(&manifest),
        policy: &policy,
        freshness: Freshness::Audit {
            time: evidence.moment(Moment::Evidence),
        },
        stopwatch: Some(stopwatch()),
    });
    let hosts = match conclusion.including_simulated() {
        Some(attested) => ask_all(args, &manifest, &Expectations::of(&attested))?,
        // Whatever a host shows for keys of no enclave proves nothing.
        None => Vec::new(),
    };
    let refused = hosts
        .iter()
        .any(|shown| shown.log.verdict == Verdict::Refused);
    let report = Report {
        verdict: match refused {
            true => Verdict::Refused,
            false => attestation.verdict,
        },
        keys: hex(&keys_hash(&manifest)),
        attestation,
        hosts,
    };
    print(&report, args.json)?;
    let accepted = Accepted {
        simulated: args.accept_simulated,
        ..Accepted::default()
    };
    Ok(render::status(report.verdict, accepted))
}

fn ask_all(
    args: &VerifyKeysArgs,
    manifest: &[u8],
    expectations: &Expectations,
) -> Result<Vec<Shown>> {
    let log = ServiceManifest::decode(manifest)
        .map_err(|error| anyhow!("{error}"))?
        .receipt_key;
    let path = format!(
        "/v1/log/{}/inclusion?receipt={}",
        hex(&log),
        hex(&keys_hash(manifest))
    );
    let mut answers = Vec::new();
    for url in &args.url {
        let host = host_at(url)?;
        let inclusion = shown_by(&host, &path)?;
        answers.push(Answer { host, inclusion });
    }
    // Hosts are asked one after the other, and a log grows meanwhile: each history has to be the start of the next longer one.
    answers.sort_by_key(|answer| answer.inclusion.as_ref().map_or(0, size));
    let mut earlier: Option<Vec<u8>> = None;
    let mut shown = Vec::new();
    for Answer { host, inclusion } in answers {
        let log = match &inclusion {
            None => LogReport::not_shown(),
            Some(inclusion) => {
                let before = earlier.replace(inclusion.head.clone());
                let consistency = before
                    .as_deref()
                    .map(|before| between(&host, before, &inclusion.head))
                    .transpose()?
                    .flatten();
                judge(
                    manifest,
                    inclusion,
                    expectations,
                    before.as_deref(),
                    consistency.as_ref(),
                )
            }
        };
        let host = host.url().to_owned();
        shown.push(Shown { host, log });
    }
    Ok(shown)
}

/// `None` where the host has no such log, or its log does not hold the keys.
fn shown_by(host: &Host, path: &str) -> Result<Option<Inclusion>> {
    match host.get(path, MAX_JSON) {
        Ok(answer) => from_json(&answer)
            .map(Some)
            .with_context(|| format!("the answer of {} cannot be used", host.url())),
        Err(error) if ["LOG_UNKNOWN", "RECEIPT_NOT_LOGGED"].contains(&error.code()) => Ok(None),
        Err(error) => bail!("{error}. {}", error.remedy()),
    }
}

/// Not verified: whoever lies about it changes the order in which histories are compared, and their comparison fails.
fn size(inclusion: &Inclusion) -> u64 {
    TreeHead::parse(&inclusion.head).map_or(0, |(head, _)| head.size)
}

fn judge(
    manifest: &[u8],
    inclusion: &Inclusion,
    expectations: &Expectations,
    before: Option<&[u8]>,
    consistency: Option<&Consistency>,
) -> LogReport {
    log::verify(
        &log::Question {
            expectations,
            leaf: Some(Leaf::Keys(Published {
                manifest,
                inclusion,
            })),
            head: &inclusion.head,
            earlier: before.map(|head| Earlier { head, consistency }),
        },
        Some(stopwatch()),
    )
}

fn print(report: &Report, json: bool) -> Result<()> {
    if json {
        return render::json(report);
    }
    for Shown { host, log } in &report.hosts {
        render::facts("Log", &[("shown by", host.clone())])?;
        print_log(log)?;
        render::blank()?;
    }
    render::attestation(&report.attestation)
}
