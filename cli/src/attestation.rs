//! `clearseal inspect attestation` and `clearseal verify attestation`.

use crate::args::{InspectArgs, VerifyAttestationArgs};
use crate::input;
use crate::moment::Moment;
use crate::render::{self, Accepted};
use anyhow::{Context, Result};
use attestation::{
    Appraisal, AttestationDocument, AttestationReport, AttestationResponse, CheckLog, Evidence,
    Freshness, Policy, TrustAnchor, UnixMillis,
};
use std::path::Path;
use std::process::ExitCode;

/// Authentic or not, and the contents.
pub(crate) fn inspect(args: &InspectArgs) -> Result<ExitCode> {
    let file = EvidenceFile::read(&args.file)?;
    let anchor = match &args.root {
        None => TrustAnchor::aws_nitro_g1(),
        Some(path) => TrustAnchor::development(&input::read_certificate(path)?)
            .with_context(|| format!("{} is not a usable root certificate", path.display()))?,
    };
    let crls = input::read_crls(&args.crls)?;
    let report = Appraisal::of(&file.document)
        .with_crls(&crls)
        .with_stopwatch(stopwatch())
        .inspect(&anchor, file.moment(args.at));
    // The image is not asked about here, so authentic is all that a document can be.
    let accepted = Accepted {
        authentic: true,
        simulated: false,
    };
    finish(&report, args.json, accepted)
}

/// Every check, against a policy.
pub(crate) fn verify(args: &VerifyAttestationArgs) -> Result<ExitCode> {
    let file = EvidenceFile::read(&args.file)?;
    let policy = policy(&args.policy)?;
    let manifest = match &args.manifest {
        Some(path) => Some(input::read_binary(path)?),
        None => file.manifest.clone(),
    };
    let nonce = args
        .nonce
        .as_deref()
        .map(|nonce| input::hex("--nonce", nonce))
        .transpose()?;
    let time = file.moment(args.at);
    let nonce = nonce.map(|nonce| file.document_nonce(nonce));
    let freshness = match (args.at, nonce.as_deref()) {
        (Moment::Now, Some(nonce)) => Freshness::Live { nonce, now: time },
        (_, nonce) => Freshness::At { time, nonce },
    };
    let crls = input::read_crls(&args.crls)?;
    let mut appraisal = Appraisal::of(&file.document)
        .with_crls(&crls)
        .with_stopwatch(stopwatch());
    if let Some(manifest) = &manifest {
        appraisal = appraisal.with_manifest(manifest);
    }
    let (report, _) = appraisal.verify(&policy, freshness);
    let accepted = Accepted {
        authentic: args.accept_authentic,
        ..args.outcome.accepted()
    };
    finish(&report, args.outcome.json, accepted)
}

/// Reads a policy that the user named.
pub(crate) fn policy(path: &Path) -> Result<Policy> {
    Policy::chosen_by_hand(&input::read(path)?)
        .with_context(|| format!("{} is not a usable trust policy", path.display()))
}

/// Microseconds since the call.
pub(crate) fn stopwatch() -> attestation::Stopwatch {
    let start = std::time::Instant::now();
    Box::new(move || start.elapsed().as_secs_f64() * 1e6)
}

fn finish(report: &AttestationReport, json: bool, accepted: Accepted) -> Result<ExitCode> {
    if json {
        render::json(report)?;
    } else {
        render::attestation(report)?;
    }
    Ok(render::status(report.verdict, accepted))
}

/// A document as the NSM gives it, or together with its manifest as the attestation endpoint does.
pub(crate) struct EvidenceFile {
    bytes: Vec<u8>,
    pub(crate) document: Vec<u8>,
    pub(crate) manifest: Option<Vec<u8>>,
}

impl EvidenceFile {
    fn read(path: &Path) -> Result<Self> {
        input::read_binary(path).map(Self::parse)
    }

    pub(crate) fn parse(bytes: Vec<u8>) -> Self {
        let (document, manifest) = match Evidence::parse(&bytes) {
            Ok(Evidence { document, manifest }) => (document.to_vec(), Some(manifest.to_vec())),
            // Whatever is not evidence is judged as a document, and refused as one.
            Err(_) => (bytes.clone(), None),
        };
        Self {
            bytes,
            document,
            manifest,
        }
    }

    /// The nonce that the document has to carry: other clients may share it.
    fn document_nonce(&self, own: Vec<u8>) -> Vec<u8> {
        match AttestationResponse::parse(&self.bytes) {
            Ok(answered) => answered.document_nonce(&own).into_owned(),
            Err(_) => own,
        }
    }

    pub(crate) fn moment(&self, at: Moment) -> UnixMillis {
        let made = AttestationDocument::parse(&self.document, &mut CheckLog::new())
            .ok()
            .map(|document| document.claims().timestamp);
        at.resolve(made)
    }
}
