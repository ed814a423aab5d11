//! `cargo xtask containers`: container images of host-proxy, and of an enclave that is simulated.

use crate::process::run;
use crate::{model, needs, page, paths, statics};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Build container images of host-proxy, and of an enclave whose Nitro module is SIMULATED, with docker, podman or buildah
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only gather what the images are built from
    #[arg(long)]
    gather: bool,
}

/// An image: its folder below `deploy/` and below `target/containers`, and its name.
pub(crate) const HOST_PROXY: &str = "host-proxy";
pub(crate) const SIMULATED_ENCLAVE: &str = "simulated-enclave";

/// Name that an image is built under.
pub(crate) fn name(of: &str) -> String {
    format!("clearseal/{of}")
}

/// Runs the verb.
pub(crate) fn run_verb(options: &Options) -> Result<()> {
    gather()?;
    if options.gather {
        println!("{}", folder()?.display());
        return Ok(());
    }
    let builder = ["docker", "podman", "buildah"]
        .into_iter()
        .find(|program| needs::find(program).is_some())
        .context(
            "there is no docker, podman or buildah; install one (Debian: buildah), or use --gather",
        )?;
    for of in [HOST_PROXY, SIMULATED_ENCLAVE] {
        run(&mut build(builder, of)?)?;
        println!("{}", name(of));
    }
    Ok(())
}

/// Builds one image out of what [`gather`] left.
pub(crate) fn build(builder: &str, of: &str) -> Result<Command> {
    let deploy = paths::root().join("deploy").join(of);
    let mut command = Command::new(builder);
    command
        .args(["build", "--tag", &name(of), "--file"])
        .arg(deploy.join("Containerfile"))
        .arg(folder()?.join(of));
    Ok(command)
}

/// Static programs, the page and the model, each in the folder of its image.
pub(crate) fn gather() -> Result<()> {
    needs::install_packages()?;
    let weights = paths::model()?;
    println!("{}", model::fetch(None, &weights)?);
    statics::build()?;
    crate::wasm::build(&crate::wasm::Options { policy: None })?;
    page::build_now(page::Programs::Static)?;
    let (programs, folder) = (statics::folder()?, folder()?);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let proxy = folder.join(HOST_PROXY);
    copy(&programs.join("host-proxy"), &proxy.join("host-proxy"))?;
    copy_all(&paths::root().join("web/dist"), &proxy.join("page"))?;
    let enclave = folder.join(SIMULATED_ENCLAVE);
    copy(
        &programs.join("enclave-server"),
        &enclave.join("enclave-server"),
    )?;
    copy_all(&weights, &enclave.join("model"))
}

fn folder() -> Result<PathBuf> {
    Ok(paths::target()?.join("containers"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_all(&entry.path(), &to)?,
            false => copy(&entry.path(), &to)?,
        }
    }
    Ok(())
}
