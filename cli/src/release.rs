//! `clearseal release verify`: whether the publisher currently vouches for a release, and whether files match it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ::release::{
    FileHash, Manifest, ManifestError, NotFresh, PublicKey, Signature, SignatureError,
};
use anyhow::{Context, Result, bail};
use clearseal_client::Error;
use clearseal_client::blocking::Host;
use error_codes::Coded;
use serde::Serialize;

use crate::args::ReleaseVerifyArgs;
use crate::moment::Moment;
use crate::{input, render};

/// Exit status if the release is refused.
const REFUSED: u8 = 1;
const TIMEOUT: Duration = Duration::from_secs(120);

/// Result of the verification.
#[derive(Serialize)]
struct Report {
    genuine: bool,
    name: String,
    commit: String,
    toolchain: String,
    pcrs: std::collections::BTreeMap<String, String>,
    signed_at: u64,
    counts_until: u64,
    /// Files that were compared.
    compared: usize,
    findings: Vec<Finding>,
}

/// One reason for a refusal.
#[derive(Serialize)]
struct Finding {
    code: String,
    message: String,
    remedy: String,
}

impl<E: Coded + std::fmt::Display> From<E> for Finding {
    fn from(error: E) -> Self {
        Self {
            code: error.code().to_owned(),
            message: error.to_string(),
            remedy: error.remedy().to_owned(),
        }
    }
}

/// A file that is not the release's.
#[derive(Debug, thiserror::Error, Coded)]
enum Differs {
    /// Other contents.
    #[error("{0} is not the file of the release")]
    #[coded(
        "RELEASE_FILE_DIFFERS",
        remedy = "Do not use the service: it serves something else than was released. Its operator may be in the middle of an upgrade; then another release's manifest fits."
    )]
    File(String),
    /// Not there.
    #[error("{0} is not served")]
    #[coded(
        "RELEASE_FILE_MISSING",
        remedy = "Ask the service's operator to serve the page as it was released."
    )]
    Missing(String),
    /// Another image.
    #[error("the image is not that of the release")]
    #[coded(
        "RELEASE_IMAGE_DIFFERS",
        remedy = "Do not deploy it. Get the image again, or build it from the commit that the manifest names."
    )]
    Image,
}

/// Reason to stop before files are compared.
enum Refusal {
    Key(SignatureError),
    Manifest(ManifestError),
    Age(NotFresh),
}

impl From<Refusal> for Finding {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Key(error) => error.into(),
            Refusal::Manifest(error) => error.into(),
            Refusal::Age(error) => error.into(),
        }
    }
}

/// Verifies a release, and the files that the arguments name.
pub(crate) fn verify(args: &ReleaseVerifyArgs) -> Result<ExitCode> {
    let at = match args.at {
        Moment::Evidence => bail!("--at document: say for which moment a release is judged"),
        at => at.resolve(None).0 / 1000,
    };
    let bytes = input::read(&args.manifest)?;
    let (manifest, signed) = match judge(args, &bytes, at)? {
        Ok(judged) => judged,
        Err(refusal) => return refuse(&refusal.into(), args.json),
    };
    let (compared, findings) = compare(args, &manifest)?;
    let report = Report {
        genuine: findings.is_empty(),
        name: manifest.name,
        commit: manifest.commit,
        toolchain: manifest.toolchain,
        pcrs: manifest.image.pcrs,
        signed_at: signed,
        counts_until: signed.saturating_add(::release::MAX_AGE_SECONDS),
        compared,
        findings,
    };
    if args.json {
        render::json(&report)?;
    } else {
        render::lines(&explain(&report))?;
    }
    Ok(match report.genuine {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REFUSED),
    })
}

/// Checks the signature before it reads the contents.
fn judge(
    args: &ReleaseVerifyArgs,
    bytes: &[u8],
    now: u64,
) -> Result<std::result::Result<(Manifest, u64), Refusal>> {
    let key = key_text(&args.key)?;
    let default_path = || PathBuf::from(format!("{}.minisig", args.manifest.display()));
    let signature = text(&args.signature.clone().unwrap_or_else(default_path))?;
    let verify = || {
        let key = PublicKey::parse(&key).map_err(Refusal::Key)?;
        let signature = Signature::parse(&signature).map_err(Refusal::Key)?;
        let signed = key.verify(bytes, &signature).map_err(Refusal::Key)?.at;
        match ::release::freshness::check_freshness(signed, now) {
            Err(NotFresh::NotRenewed { .. }) if args.accept_old => {}
            outcome => outcome.map_err(Refusal::Age)?,
        }
        let manifest = Manifest::parse(bytes).map_err(Refusal::Manifest)?;
        Ok((manifest, signed))
    };
    Ok(verify())
}

/// A key as a user names it: a file, or the key itself.
pub(crate) fn key_text(key: &Path) -> Result<String> {
    match key.is_file() {
        true => text(key),
        false => Ok(key.to_string_lossy().into_owned()),
    }
}

/// Compares image and page with the release's list.
fn compare(args: &ReleaseVerifyArgs, manifest: &Manifest) -> Result<(usize, Vec<Finding>)> {
    let (mut compared, mut findings) = (0, Vec::new());
    if let Some(image) = &args.image {
        compared += 1;
        let bytes =
            std::fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
        if FileHash::of(&bytes) != manifest.image.file {
            findings.push(Differs::Image.into());
        }
    }
    if let Some(url) = &args.url {
        let host = Host::new(url, TIMEOUT).map_err(|error| anyhow::anyhow!("{error}"))?;
        for (path, expected) in &manifest.page {
            compared += 1;
            if let Some(finding) = served(&host, path, expected)? {
                findings.push(finding.into());
            }
        }
    }
    Ok((compared, findings))
}

fn served(host: &Host, path: &str, expected: &FileHash) -> Result<Option<Differs>> {
    // Request the same paths as a browser.
    let target = match path {
        "index.html" => "/".to_owned(),
        path => format!("/{path}"),
    };
    let limit = usize::try_from(expected.bytes).unwrap_or(usize::MAX);
    match host.get(&target, limit) {
        Ok(bytes) if FileHash::of(&bytes) == *expected => Ok(None),
        Ok(_) => Ok(Some(Differs::File(path.to_owned()))),
        Err(error) => match &error {
            // By its status: what code the host gives is its own choice.
            Error::Unreachable(problem) => match problem.status {
                None if problem.code == "ANSWER_TOO_LARGE" => {
                    Ok(Some(Differs::File(path.to_owned())))
                }
                None | Some(429 | 500..) => bail!("{error}. {}", error.remedy()),
                Some(_) => Ok(Some(Differs::Missing(path.to_owned()))),
            },
            _ => bail!("{error}. {}", error.remedy()),
        },
    }
}

fn refuse(finding: &Finding, json: bool) -> Result<ExitCode> {
    if json {
        render::json(&serde_json::json!({ "genuine": false, "findings": [finding] }))?;
    } else {
        render::lines(&[
            format!("REFUSED  {}", finding.code),
            format!("  {}", finding.message),
            format!("  {}", finding.remedy),
        ])?;
    }
    Ok(ExitCode::from(REFUSED))
}

fn explain(report: &Report) -> Vec<String> {
    let word = if report.genuine { "GENUINE" } else { "REFUSED" };
    let mut lines = vec![
        format!("{word}  release {}", report.name),
        format!("  commit {}", report.commit),
        format!("  built by {}", report.toolchain),
        format!(
            "  signed {}, counts until {}",
            render::time(report.signed_at.saturating_mul(1000)),
            render::time(report.counts_until.saturating_mul(1000))
        ),
    ];
    for (index, value) in &report.pcrs {
        lines.push(format!("  PCR{index} {value}"));
    }
    lines.push(match (report.compared, report.findings.len()) {
        (0, _) => "  no file was compared: --image FILE compares the image, --url SERVICE the page"
            .to_owned(),
        (compared, 0) => format!("  {compared} files compared, all as released"),
        (compared, wrong) => format!("  {compared} files compared, {wrong} not as released"),
    });
    for finding in &report.findings {
        lines.push(format!("  {}: {}", finding.code, finding.message));
    }
    if let Some(first) = report.findings.first() {
        lines.push(format!("  {}", first.remedy));
    }
    lines
}

fn text(path: &Path) -> Result<String> {
    String::from_utf8(input::read(path)?).with_context(|| format!("{} is not text", path.display()))
}
