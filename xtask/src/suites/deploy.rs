//! What `deploy/` holds: Kubernetes manifests against Kubernetes' schemas, systemd's units and shell scripts by their own programs.

use crate::process::run;
use crate::{needs, paths, python, skipped};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Schemas of this version of Kubernetes: the oldest that still gets mends.
const KUBERNETES: &str = "1.34";
/// Greatest exposure that systemd may find in the proxy's unit, in tenths of its scale of 10.
const EXPOSURE: &str = "20";

pub(crate) fn test() -> Result<Option<String>> {
    let deploy = paths::root().join("deploy");
    let Ok(programs) = python::environment() else {
        return Ok(Some("no Python with packages of its registry".to_owned()));
    };
    let manifests = files(&deploy.join("kubernetes"), "yaml")?;
    ensure!(!manifests.is_empty(), "deploy/kubernetes has no manifest");
    run(Command::new(programs.join("kubernetes-validate"))
        .args(["--strict", "--kubernetes-version", KUBERNETES])
        .args(manifests))?;
    run(Command::new("sh")
        .arg("-n")
        .arg(deploy.join("kubernetes/enclave/run-enclave")))?;
    if needs::output("systemd-analyze", &["--version"]).is_err() {
        return skip("deploy::units", "no systemd-analyze");
    }
    run(Command::new("systemd-analyze")
        .args(["security", "--no-pager", "--offline=true"])
        .arg(format!("--threshold={EXPOSURE}"))
        .arg(deploy.join("ec2/clearseal-proxy.service")))?;
    Ok(None)
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

fn skip(name: &str, reason: &str) -> Result<Option<String>> {
    let mut list = fs::File::options()
        .create(true)
        .append(true)
        .open(skipped::list()?)?;
    writeln!(list, "{name}\t{reason}")?;
    Ok(None)
}
