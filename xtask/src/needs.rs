//! Prerequisites of a build, and how to install them.

use crate::{paths, process};
use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Node.js and npm in the right version; returns what was found.
pub(crate) fn node() -> Result<String> {
    const REMEDY: &str = "install Node.js 20.19, 22.12 or newer (https://nodejs.org, or Debian: apt-get install nodejs npm)";
    let version =
        output("node", &["--version"]).with_context(|| format!("Node.js is missing; {REMEDY}"))?;
    ensure!(
        is_new_enough(&version),
        "Node.js {version} does not do; {REMEDY}"
    );
    output("npm", &["--version"]).with_context(|| format!("npm is missing; {REMEDY}"))?;
    Ok(format!("Node.js {version}"))
}

/// Whether Vite runs on it: ^20.19.0 || >=22.12.0.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.');
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    match (number(), number()) {
        (Some(20), Some(minor)) => minor >= 19,
        (Some(22), Some(minor)) => minor >= 12,
        (Some(major), Some(_)) => major > 22,
        _ => false,
    }
}

/// The standard library of a target, installed through rustup when it is missing.
pub(crate) fn rust_target(target: &str) -> Result<()> {
    let folder = output("rustc", &["--print", "target-libdir", "--target", target])
        .with_context(|| format!("this Rust toolchain does not know {target}"))?;
    if Path::new(&folder).is_dir() {
        return Ok(());
    }
    let remedy = format!("install it: rustup target add {target}");
    ensure!(
        output("rustup", &["--version"]).is_ok(),
        "Rust's standard library for {target} is missing, and there is no rustup to get it; install Rust from https://rustup.rs, or your distribution's package for that target"
    );
    process::run(
        Command::new("rustup")
            .args(["target", "add", target])
            .current_dir(paths::root()),
    )
    .with_context(|| format!("Rust's standard library for {target} is missing; {remedy}"))
}

/// The npm command that installs the packages, or nothing when node_modules is what the lock file says.
pub(crate) fn packages() -> Result<Option<Command>> {
    let lock = paths::root().join("package-lock.json");
    ensure!(
        lock.is_file(),
        "package-lock.json is missing; restore it from version control"
    );
    let installed = fs::read_to_string(packages_stamp()).unwrap_or_default();
    Ok((installed != packages_state()?).then(|| process::npm(&["ci", "--no-audit", "--no-fund"])))
}

/// Remembers that node_modules is what the lock file says.
pub(crate) fn packages_installed() -> Result<()> {
    Ok(fs::write(packages_stamp(), packages_state()?)?)
}

/// Installs the packages if need be, output passed through.
pub(crate) fn install_packages() -> Result<()> {
    if let Some(mut install) = packages()? {
        process::run(&mut install)?;
        packages_installed()?;
    }
    Ok(())
}

/// Debian packages that provide `programs`; installed when we may, asked for when we may not.
pub(crate) fn debian(program: &str, package: &str) -> Result<()> {
    if find(program).is_some() {
        return Ok(());
    }
    install(program, package)
}

/// The same for a file that no program is, such as a header.
pub(crate) fn debian_file(file: &str, package: &str) -> Result<()> {
    if Path::new(file).is_file() {
        return Ok(());
    }
    install(file, package)
}

fn install(program: &str, package: &str) -> Result<()> {
    let root = output("id", &["-u"]).is_ok_and(|id| id == "0");
    if !root || find("apt-get").is_none() {
        bail!("`{program}` is missing; install it (Debian: sudo apt-get install {package})");
    }
    println!("installing {package}");
    let apt = |arguments: &[&str]| {
        process::run(
            Command::new("apt-get")
                .args(arguments)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdin(Stdio::null()),
        )
    };
    apt(&["update", "-qq"])?;
    apt(&["install", "-y", "-qq", "--no-install-recommends", package])
}

/// A program's path, if there is one.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Returns the output of a command, trimmed.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(paths::root())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(
        output.status.success(),
        "`{program} {}` failed",
        arguments.join(" ")
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn packages_stamp() -> PathBuf {
    paths::root().join("node_modules/.clearseal-lock-sha256")
}

/// The lock file, and the manifests whose workspaces npm links.
fn packages_state() -> Result<String> {
    let mut digest = Sha256::new();
    for file in ["package.json", "package-lock.json"] {
        digest.update(fs::read(paths::root().join(file))?);
    }
    Ok(base16ct::lower::encode_string(&digest.finalize()))
}
