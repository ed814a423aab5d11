//! One image: server and init as static programs, the kernel, ramdisks, and what all of it measures.

use super::Parts;
use super::source::sha256;
use crate::steps::Steps;
use crate::{paths, process, statics};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Build an image
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Options {
    /// Image to write; measurements.json is written next to it [default: target/image/enclave.eif]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Kernel, a bzImage [default: the one of `cargo xtask image kernel`]
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: Option<PathBuf>,
    /// Static program that becomes process 1 [default: the one in image/init]
    #[arg(long, value_name = "FILE")]
    pub(crate) init: Option<PathBuf>,
    /// Static program that runs in the enclave [default: enclave-server]
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// Put the model of this folder into the image, as /model
    #[arg(long, value_name = "DIR")]
    pub(crate) embed_model: Option<PathBuf>,
    /// Lock of the model, put into the image as /model.lock.json and measured like everything else [default: that of
    /// all-MiniLM-L6-v2, which is part of the server]
    #[arg(long, value_name = "FILE")]
    pub(crate) model_lock: Option<PathBuf>,
    /// Further argument of the server; measured like everything else. May be given more than once
    #[arg(long = "argument", value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
    /// Further file of the image, measured like everything else. May be given more than once
    #[arg(long = "file", value_name = "PATH-INSIDE=FILE")]
    pub(crate) files: Vec<String>,
    /// P-384 private key (PEM) to sign the image with, which gives it PCR8
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) sign_key: Option<PathBuf>,
    /// Certificate (PEM) of that key
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    pub(crate) certificate: Option<PathBuf>,
}

/// Largest image without a model: it is loaded into memory, and fetched at each deployment.
const MAX_BYTES: u64 = 25 << 20;
/// Port of the enclave that host-proxy connects to.
const LISTEN: &str = "vsock:5005";

/// Path of the model's lock inside the image.
const LOCK: &str = "/model.lock.json";

/// Where the image comes unless told otherwise.
pub(super) fn default_out() -> Result<PathBuf> {
    Ok(paths::target()?.join("image/enclave.eif"))
}

/// How many steps [`build`] takes.
pub(crate) fn steps(options: &Options) -> usize {
    2 + usize::from(options.init.is_none() || options.server.is_none())
}

/// Builds it.
pub(crate) fn build(options: &Options, steps: &mut Steps<'_>) -> Result<()> {
    super::only_linux()?;
    let kernel = kernel(options)?;
    if options.init.is_none() || options.server.is_none() {
        programs(steps)?;
    }
    let folder = statics::folder()?;
    let program = |given: &Option<PathBuf>, name: &str| match given {
        Some(path) => path.clone(),
        None => folder.join(name),
    };
    // An image has no loader and no libraries.
    for (given, name) in [
        (&options.init, "enclave-init"),
        (&options.server, "enclave-server"),
    ] {
        statics::check(&program(given, name))?;
    }
    let out = options.out.clone().map_or_else(default_out, Ok)?;
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    let log = paths::target()?.join("clearseal/image.log");
    let mut writer = process::cargo(&["build", "--quiet", "--profile=xtask", "--package=image"]);
    steps.watch("Image writer", &mut writer, &log)?;
    let mut pack = std::process::Command::new(paths::target()?.join("xtask/image"));
    pack.arg("pack").arg("--out").arg(&out);
    for (flag, path) in [
        ("--kernel", Some(&kernel)),
        ("--init", Some(&program(&options.init, "enclave-init"))),
        (
            "--server",
            Some(&program(&options.server, "enclave-server")),
        ),
        ("--model", options.embed_model.as_ref()),
        ("--sign-key", options.sign_key.as_ref()),
        ("--certificate", options.certificate.as_ref()),
    ] {
        if let Some(path) = path {
            pack.arg(flag).arg(path);
        }
    }
    if options.kernel.is_none() {
        pack.args(["--kernel-version", super::kernel::VERSION]);
    }
    pack.args(["--time", &time_of_sources()]);
    for file in &options.files {
        pack.args(["--file", file]);
    }
    if let Some(lock) = &options.model_lock {
        let mut file = std::ffi::OsString::from(format!("{LOCK}="));
        file.push(lock);
        pack.arg("--file").arg(file);
    }
    for argument in arguments(options) {
        pack.arg(format!("--argument={argument}"));
    }
    let mut measured = Value::Null;
    steps.quick("Ramdisks and image", || {
        measured = measure(&pack_now(&mut pack)?, &out)?;
        let bytes = fs::metadata(&out)?.len();
        ensure!(
            options.embed_model.is_some() || bytes <= MAX_BYTES,
            "the image has {bytes} bytes, more than the {MAX_BYTES} that are allowed without a model"
        );
        Ok(format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)))
    })?;
    let measurements = out.with_file_name("measurements.json");
    fs::write(
        &measurements,
        serde_json::to_string_pretty(&measured)? + "\n",
    )
    .with_context(|| format!("cannot write {}", measurements.display()))?;
    println!("\n{}", out.display());
    if let Some(pcrs) = measured["pcrs"].as_object() {
        for (index, value) in pcrs {
            println!("PCR{index} {}", value.as_str().unwrap_or_default());
        }
    }
    Ok(())
}

fn kernel(options: &Options) -> Result<PathBuf> {
    match &options.kernel {
        Some(kernel) => Ok(kernel.clone()),
        None => default_kernel(),
    }
}

/// The kernel of `cargo xtask image kernel`.
pub(crate) fn default_kernel() -> Result<PathBuf> {
    let parts = Parts::find()?;
    ensure!(
        parts.has_kernel(),
        "there is no kernel of image/kernel/enclave.config in {}; build it with `cargo xtask image kernel`, or name one with --kernel",
        parts.folder().display()
    );
    Ok(parts.path(super::kernel::PART))
}

/// Arguments of the server. All of them are measured: no one can change them without changing PCR2.
fn arguments(options: &Options) -> Vec<String> {
    if options.server.is_some() {
        return options.arguments.clone();
    }
    let mut all = vec![format!("--listen={LISTEN}"), "--log=json".to_owned()];
    if options.embed_model.is_some() {
        all.push("--model=/model".to_owned());
    }
    if options.model_lock.is_some() {
        all.push(format!("--model-lock={LOCK}"));
    }
    all.extend_from_slice(&options.arguments);
    all
}

fn programs(steps: &mut Steps<'_>) -> Result<()> {
    let mut command = statics::cargo_build(statics::ENCLAVE)?;
    steps.watch(
        "Server and init, static",
        &mut command,
        &paths::target()?.join("clearseal/image-programs.log"),
    )
}

/// When the last commit was made, which is the same wherever it is built; where no history is, the epoch.
fn time_of_sources() -> String {
    let format = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
    let output = std::process::Command::new("git")
        .args(["log", "-1", format, "--format=%cd"])
        .env("TZ", "UTC0")
        .current_dir(paths::root())
        .output();
    let time = output
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    time.filter(|time| !time.is_empty())
        .unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

fn pack_now(pack: &mut std::process::Command) -> Result<String> {
    let output = pack.output().context("cannot run the image writer")?;
    ensure!(
        output.status.success(),
        "the image cannot be written:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Content of `measurements.json`.
fn measure(pcrs: &str, image: &Path) -> Result<Value> {
    let pcrs: Value =
        serde_json::from_str(pcrs).context("the image writer printed no measurements")?;
    Ok(json!({
        "format": "clearseal-measurements/1",
        "file": image.file_name().map(|name| name.to_string_lossy()),
        "bytes": fs::metadata(image)?.len(),
        "sha256": sha256(image)?,
        "pcrs": pcrs,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_listens_where_the_proxy_connects_and_keeps_what_it_is_told() {
        let told = Options {
            arguments: vec!["--policy-version=2".to_owned()],
            ..Options::default()
        };
        assert_eq!(
            arguments(&told),
            ["--listen=vsock:5005", "--log=json", "--policy-version=2"]
        );
        let embedded = Options {
            embed_model: Some("m".into()),
            ..Options::default()
        };
        assert!(arguments(&embedded).contains(&"--model=/model".to_owned()));
        let locked = Options {
            model_lock: Some("m.lock.json".into()),
            ..Options::default()
        };
        assert!(arguments(&locked).contains(&"--model-lock=/model.lock.json".to_owned()));
        // Another program is told what its caller says alone.
        let other = Options {
            server: Some("x".into()),
            ..told
        };
        assert_eq!(arguments(&other), ["--policy-version=2"]);
    }
}
