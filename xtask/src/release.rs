//! `cargo xtask release`: image, page and npm package of one commit, and the manifest that joins them.

use crate::servers::Signals;
use crate::steps::Steps;
use crate::{image, model, needs, page, paths, process};
use anyhow::{Context, Result, ensure};
use base16ct::lower::encode_string as hex;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Build a release: the enclave image, a page that demands its measurements, the npm package, and a manifest of all files
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Name of the release; the server states it as its policy version
    #[arg(long, value_name = "TEXT", default_value = env!("CARGO_PKG_VERSION"))]
    name: String,
    /// Folder to write, which must not be there yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Put the model of this folder into the image
    #[arg(long, value_name = "DIR")]
    embed_model: Option<PathBuf>,
    /// Serve the model of this lock [default: all-MiniLM-L6-v2]
    #[arg(long, value_name = "FILE")]
    model_lock: Option<PathBuf>,
    /// Origin of the service: scheme, host and port [default: the page's own]
    #[arg(long, value_name = "ORIGIN")]
    service: Option<String>,
    /// The publisher's minisign key without a password; without it the manifest is signed later: minisign -S -m release.json
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    let signals = Signals::listen()?;
    let out = std::path::absolute(&options.out)?;
    ensure!(
        !out.exists(),
        "{} is there already; a release is made once: name another folder",
        out.display()
    );
    let commit = commit()?;
    let model = ServedModel::of_lock(options.model_lock.as_deref())?;
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let build = image::BuildOptions {
        out: Some(out.join("enclave.eif")),
        embed_model: options.embed_model.clone(),
        model_lock: options.model_lock.clone(),
        arguments: vec![format!("--policy-version={}", options.name)],
        ..image::BuildOptions::default()
    };
    let mut steps = Steps::new(image::build_steps(&build), &signals);
    image::build(&build, &mut steps)?;

    let policy = out.join("trust-policy.json");
    let measured = read_json(&out.join("measurements.json"))?;
    let text = serde_json::to_string_pretty(&policy_of(&options.name, &model, &measured["pcrs"]))?;
    fs::write(&policy, text + "\n")
        .with_context(|| format!("cannot write {}", policy.display()))?;

    needs::install_packages()?;
    page::samples(page::Programs::Static)?;
    page::build_into(&page::Options {
        out: out.join("page"),
        service: options.service.clone(),
        policy: Some(policy),
        release: Some(page::Release {
            name: options.name.clone(),
            commit: commit.clone(),
        }),
    })?;
    pack(&out)?;
    write(options, &model, &out, &commit)?;
    println!("\n{}", out.display());
    Ok(())
}

/// Refuses uncommitted changes: no one else could rebuild them.
fn commit() -> Result<String> {
    ensure!(
        needs::output("git", &["status", "--porcelain"])?.is_empty(),
        "there are changes that no commit holds; commit them first"
    );
    needs::output("git", &["rev-parse", "HEAD"])
}

/// The page's trust policy: this image, this model, nothing else.
fn policy_of(name: &str, model: &ServedModel, pcrs: &Value) -> Value {
    json!({
        "format": "clearseal-trust-policy/1",
        "name": format!("release {name}"),
        "root": "aws-nitro-enclaves-g1",
        "releases": [{ "name": name, "pcrs": pcrs }],
        "security_mode": "production",
        "policy_version": name,
        "model": { "id": model.name, "sha256": model.sha256 },
    })
}

/// The model that the image serves, as its server states it.
struct ServedModel {
    name: String,
    sha256: String,
}

impl ServedModel {
    fn of_lock(path: Option<&Path>) -> Result<Self> {
        let lock = match path {
            Some(path) => model::read_lock(path)?,
            None => model::lock()?,
        };
        Ok(Self {
            name: lock.name.as_str().to_owned(),
            sha256: hex(&lock.files.digest()),
        })
    }
}

fn read_json(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not JSON", path.display()))
}

/// The npm package, as the registry would get it, and its files for the manifest.
fn pack(out: &Path) -> Result<()> {
    process::run(
        process::npm(&["pack", "--quiet", "--workspace=verifier-wasm"])
            .arg("--pack-destination")
            .arg(out),
    )?;
    let archive = fs::read_dir(out)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|kind| kind == "tgz"))
        .context("npm packed no archive")?;
    // The archive has one folder, `package`.
    process::run(Command::new("tar").arg("xzf").arg(archive).current_dir(out))
}

fn write(options: &Options, model: &ServedModel, out: &Path, commit: &str) -> Result<()> {
    process::run(&mut process::cargo(&[
        "build",
        "--quiet",
        "--profile=xtask",
        "--package=release",
    ]))?;
    let program = paths::target()?.join("xtask/release");
    let manifest = out.join("release.json");
    let mut write = Command::new(&program);
    write.args(["write", "--name", &options.name, "--commit", commit]);
    write.args(["--toolchain", &needs::output("rustc", &["--version"])?]);
    write.args(["--model", &model.name, "--model-sha256", &model.sha256]);
    for (flag, path) in [
        ("--image", out.join("enclave.eif")),
        ("--kernel", image::kernel()?),
        ("--page", out.join("page")),
        ("--package", out.join("package")),
        ("--out", manifest.clone()),
    ] {
        write.arg(flag).arg(path);
    }
    process::run(&mut write)?;
    process::run(
        Command::new(&program)
            .arg("browsers")
            .arg(&manifest)
            .arg("--page")
            .arg(out.join("page"))
            .arg("--out")
            .arg(out.join("browsers")),
    )?;
    match &options.sign_key {
        Some(key) => process::run(
            Command::new(&program)
                .arg("sign")
                .arg(&manifest)
                .arg("--key")
                .arg(key),
        ),
        None => {
            println!(
                "not signed; sign it with: minisign -S -m {}",
                manifest.display()
            );
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealed_model::{FileEntry, Manifest, ModelLock, ModelName};

    #[test]
    fn the_policy_demands_the_model_of_the_lock() {
        let standard = ServedModel::of_lock(None).unwrap();
        assert_eq!((&*standard.name, standard.sha256.len()), (model::ID, 64));

        let files = Manifest::new(vec![FileEntry::of("config.json", b"{}")]).unwrap();
        let lock = ModelLock {
            name: ModelName::new("org/other").unwrap(),
            aliases: Vec::new(),
            files: files.clone(),
            self_test: Vec::new(),
        };
        let path = std::env::temp_dir().join(format!("release-{}.lock.json", std::process::id()));
        fs::write(&path, lock.to_json()).unwrap();
        let other = ServedModel::of_lock(Some(&path)).unwrap();
        fs::remove_file(&path).unwrap();
        let policy = policy_of("1.0", &other, &json!({}));
        let expected = json!({ "id": "org/other", "sha256": hex(&files.digest()) });
        assert_eq!(policy["model"], expected);
    }
}
