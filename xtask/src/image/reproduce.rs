//! Two builds of one commit in two folders give one file, or something of the machine leaks into the image.

use super::source::sha256;
use crate::servers::Signals;
use crate::steps::Steps;
use crate::{paths, process};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Build twice and compare
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Compare one build with this image instead of with a second build
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Kernel for both [default: the one of `cargo xtask image kernel`]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(options: &Options, signals: &Signals) -> Result<()> {
    super::only_linux()?;
    let parent = paths::target()?.join("image/reproduce");
    if parent.exists() {
        fs::remove_dir_all(&parent)
            .with_context(|| format!("cannot clear {}", parent.display()))?;
    }
    // Paths of different lengths, so that a path which leaks also moves what follows it.
    let folders = ["a", "another-and-longer-one"];
    let built = if options.with.is_some() { 1 } else { 2 };
    let mut steps = Steps::new(built * 2, signals);
    let trees: Vec<PathBuf> = folders
        .iter()
        .take(built)
        .map(|name| parent.join(name))
        .collect();
    // Read both before the first build: edits during the builds then change neither.
    for tree in &trees {
        steps.quick("Sources of the last commit", || {
            check_out(&tree.join("sources"))
        })?;
    }
    let mut images = Vec::new();
    for tree in &trees {
        let copy = tree.join("sources");
        let image = tree.join("enclave.eif");
        let mut build = process::cargo(&["xtask", "image", "build", "--out"]);
        build
            .arg(&image)
            .current_dir(&copy)
            .env_remove("CARGO_TARGET_DIR");
        if let Some(kernel) = &options.kernel {
            build.arg("--kernel").arg(kernel);
        }
        steps.watch("Build", &mut build, &tree.join("build.log"))?;
        images.push(image);
    }
    images.extend(options.with.clone());
    let [first, second] = images.as_slice() else {
        bail!("two images are compared");
    };
    let same = sha256(first)?;
    ensure!(
        same == sha256(second)?,
        "{} and {} differ{}",
        first.display(),
        second.display(),
        first_difference(first, second)?
    );
    println!("\nboth images are the same file, SHA-256 {same}");
    Ok(())
}

/// The last commit, without what is not committed: what is released.
fn check_out(to: &Path) -> Result<String> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let status = crate::needs::output("git", &["status", "--porcelain"])?;
    ensure!(
        status.is_empty(),
        "there are changes that no commit holds; commit them first"
    );
    process::run(
        Command::new("git")
            .args(["clone", "--quiet", "--no-hardlinks", "--depth=1"])
            .arg(format!("file://{}", paths::root().display()))
            .arg(to),
    )?;
    crate::needs::output("git", &["rev-parse", "--short", "HEAD"])
}

fn first_difference(first: &Path, second: &Path) -> Result<String> {
    let (first, second) = (fs::read(first)?, fs::read(second)?);
    let at = first.iter().zip(&second).position(|(a, b)| a != b);
    Ok(match at {
        Some(at) => format!(", first at byte {at}"),
        None => format!(" in length: {} and {} bytes", first.len(), second.len()),
    })
}
