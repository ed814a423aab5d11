//! `clearseal verify keys`: whether hosts publish the log of a client's keys, and give the same keys to an unknown client.
//!
//! An enclave begins the log of its receipt key with its key configuration, and signs the log. A host can run an enclave for one user
//! alone, and still show that log to everyone who names it. But it gives the keys of that enclave to that user alone. So this also asks
//! for evidence, in three steps that give the host nothing to tell it from an ordinary client:
//!
//! 1. Ask every host for evidence and revocation lists. The ordinary client asks, on connections that nothing else uses.
//! 2. Verify each answer as that client does: document, nonce, manifest, and the revocation lists that the host serves. Then compare
//!    the manifest with the keys in question.
//! 3. Only then name the log, on other connections.

use crate::args::VerifyKeysArgs;
use crate::attestation::{EvidenceFile, policy, stopwatch};
use crate::log::{between, host_at, print_log};
use crate::moment::Moment;
use crate::receipt::bundle;
use crate::{input, render};
use anyhow::{Context, Result, anyhow};
use attestation::{Appraisal, AttestationReport, Freshness, Policy, Verdict};
use base64ct::{Base64UrlUnpadded, Encoding};
use clearseal_client::blocking::{self, Host};
use clearseal_client::{Client, Error};
use merkle::head::TreeHead;
use merkle::json::{Consistency, Inclusion, MAX_JSON, from_json, hex};
use merkle::tree::keys_hash;
use protocol::log::{self, EarlierHead, Leaf, LogReport, LoggedKeys};
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
    /// Whether the log is the one that begins with these keys, and continues the others' histories.
    log: LogReport,
    /// The signed head, in base64url: two that contradict each other are the proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    /// Times that evidence was asked for until these keys came; null where they never did.
    given_at: Option<u8>,
    /// Code of the last evidence that the ordinary client refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence_refused: Option<String>,
}

/// Answers of one host to requests for evidence.
#[derive(Default)]
struct Given {
    at: Option<u8>,
    refused: Option<String>,
}

/// Answer of one host: the inclusion of the keys in its log.
struct Answer {
    host: Host,
    inclusion: Option<Inclusion>,
    given: Given,
}

pub(crate) fn verify(args: &VerifyKeysArgs) -> Result<ExitCode> {
    let file = input::read_binary(&args.file)?;
    let (evidence, manifest, mut crls) = match bundle(&file) {
        Some(bundle) => (
            EvidenceFile::parse(bundle.document),
            Some(bundle.manifest),
            bundle.crls,
        ),
        None => {
            let mut evidence = EvidenceFile::parse(file);
            let manifest = evidence.manifest.take();
            (evidence, manifest, Vec::new())
        }
    };
    crls.extend(input::read_crls(&args.crls)?);
    let manifest = manifest.context(
        "this holds no key configuration: give what GET /v1/attestation answered, or an audit bundle",
    )?;
    let policy = policy(&args.policy)?;
    let (attestation, conclusion) = Appraisal::of(&evidence.document)
        .with_manifest(&manifest)
        .with_crls(&crls)
        .with_stopwatch(stopwatch())
        .verify(
            &policy,
            Freshness::Audit {
                time: evidence.moment(Moment::Evidence),
            },
        );
    let hosts = match conclusion.including_simulated() {
        Some(attested) => ask_all(args, &policy, &manifest, &Expectations::of(&attested))?,
        // For keys that no enclave attested, the answer of a host proves nothing.
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
    print(&report, args)?;
    Ok(render::status(report.verdict, args.outcome.accepted()))
}

fn ask_all(
    args: &VerifyKeysArgs,
    policy: &Policy,
    manifest: &[u8],
    expectations: &Expectations,
) -> Result<Vec<Shown>> {
    let mut given = Vec::with_capacity(args.url.len());
    for url in &args.url {
        given.push(ask_for_evidence(url, args.requests, policy, manifest)?);
    }
    // From here on the hosts know which keys are in question, and hosts of one operator tell each other.
    let path = format!(
        "/v1/log/{}/inclusion?receipt={}",
        hex(expectations.key().bytes()),
        hex(&keys_hash(manifest))
    );
    let mut answers = Vec::with_capacity(args.url.len());
    for (url, given) in args.url.iter().zip(given) {
        let host = host_at(url)?;
        let inclusion = shown_by(&host, &path)?;
        answers.push(Answer {
            host,
            inclusion,
            given,
        });
    }
    // Hosts are asked one after the other, and a log grows meanwhile: each history has to be the start of the next longer one.
    answers.sort_by_key(|answer| answer.inclusion.as_ref().map_or(0, size));
    let mut earlier: Option<Vec<u8>> = None;
    let mut shown = Vec::new();
    for answer in answers {
        let Answer {
            host,
            inclusion,
            given,
        } = answer;
        let log = match &inclusion {
            None => LogReport::keys_not_shown(),
            Some(inclusion) => {
                // A host that forks its log cannot give a proof; its refusal must not end the command without a report.
                let consistency = earlier
                    .as_deref()
                    .and_then(|before| between(&host, before, &inclusion.head).ok().flatten());
                judge(
                    manifest,
                    inclusion,
                    expectations,
                    earlier.as_deref(),
                    consistency.as_ref(),
                )
            }
        };
        let head = inclusion.map(|inclusion| inclusion.head);
        let sound = log.verdict != Verdict::Refused;
        if sound {
            earlier.clone_from(&head);
        }
        let log = match sound && given.at.is_none() {
            true => log.keys_not_given(),
            false => log,
        };
        shown.push(Shown {
            host: host.url().to_owned(),
            log,
            head: head.map(|head| Base64UrlUnpadded::encode_string(&head)),
            given_at: given.at,
            evidence_refused: given.refused,
        });
    }
    Ok(shown)
}

/// Asks for evidence until the keys in it are these, `requests` times at most.
///
/// The ordinary client itself asks, so that its request cannot drift from an ordinary one, and judges the answer: a host that replays
/// an old document to strangers has given them nothing. Each time it is a new client, which shares neither a connection nor a TLS
/// session with another one.
fn ask_for_evidence(url: &str, requests: u8, policy: &Policy, manifest: &[u8]) -> Result<Given> {
    let mut given = Given::default();
    for asked in 1..=requests {
        let client = Client::builder(url)
            .policy(policy.clone())
            // The report says which verdict the keys have. Nothing but a nonce is sent here.
            .accept_simulated(true)
            .build()
            .and_then(blocking::Client::new)
            .map_err(|error| explain(&error))?;
        match client.connect() {
            Ok(session) if session.manifest_bytes() == manifest => {
                given.at = Some(asked);
                break;
            }
            Ok(_) => {}
            Err(error @ (Error::Refused(_) | Error::NotEvidence)) => {
                given.refused = Some(error.code().to_owned());
            }
            Err(error) => return Err(explain(&error)),
        }
    }
    Ok(given)
}

/// `None` where the host has no such log, or its log does not hold the keys.
fn shown_by(host: &Host, path: &str) -> Result<Option<Inclusion>> {
    match host.get(path, MAX_JSON) {
        Ok(answer) => from_json(&answer)
            .map(Some)
            .with_context(|| format!("the answer of {} cannot be used", host.url())),
        Err(error) if ["LOG_UNKNOWN", "RECEIPT_NOT_LOGGED"].contains(&error.code()) => Ok(None),
        Err(error) => Err(explain(&error)),
    }
}

fn explain(error: &Error) -> anyhow::Error {
    anyhow!("{error}. {}", error.remedy())
}

/// Not verified. A lie changes the order in which histories are compared, and then their comparison fails.
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
        &log::LogInput {
            expectations,
            leaf: Some(Leaf::Keys(LoggedKeys {
                manifest,
                inclusion,
            })),
            head: &inclusion.head,
            earlier: before.map(|head| EarlierHead { head, consistency }),
        },
        Some(stopwatch()),
    )
}

fn print(report: &Report, args: &VerifyKeysArgs) -> Result<()> {
    if args.outcome.json {
        return render::json(report);
    }
    for shown in &report.hosts {
        let given = match (shown.given_at, &shown.evidence_refused) {
            (Some(1), _) => "yes, at the first request".to_owned(),
            (Some(asked), _) => format!("yes, at request {asked}"),
            (None, None) => format!("no, in {} requests", args.requests),
            (None, Some(code)) => format!(
                "no, in {} requests; evidence was refused: {code}",
                args.requests
            ),
        };
        render::facts(
            "Keys",
            &[
                ("host", shown.host.clone()),
                ("gives them to a stranger", given),
            ],
        )?;
        print_log(&shown.log)?;
        render::blank()?;
    }
    render::attestation(&report.attestation)
}
