//! A Python environment with packages of the registry, made once, in the user's cache folder; and the package of this project in it.

use crate::process::run;
use crate::{needs, paths};
use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest Python that the packages of the examples run on: major, minor.
const OLDEST: (u32, u32) = (3, 11);

/// Packages that the examples import, that build and test our package, the S3-compatible server of a test, and a manifest validator.
const REQUIREMENTS: [&str; 4] = [
    "deploy/kubernetes/requirements.txt",
    "examples/requirements.txt",
    "host-proxy/tests/requirements.txt",
    "verifier-python/tests/requirements.txt",
];

/// Folder of the programs of an environment that has what examples and tests need. Other requirements, or another Python, make
/// another one in its place.
pub(crate) fn environment() -> Result<PathBuf> {
    let python = python()?;
    let requirements = REQUIREMENTS.map(|path| paths::root().join(path));
    let mut digest = Sha256::new();
    digest.update(&python);
    for path in &requirements {
        digest.update(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    let digest = base16ct::lower::encode_string(&digest.finalize());
    let folder = paths::cache()?.join("clearseal/python");
    let (programs, stamp) = (folder.join("bin"), folder.join("requirements.sha256"));
    if fs::read_to_string(&stamp).is_ok_and(|made| made == digest) {
        return Ok(programs);
    }
    if folder.is_dir() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    make(&folder)?;
    println!("installing Python packages into {}, once", folder.display());
    let mut install = Command::new(programs.join("pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]);
    install.arg("--retries=1");
    for path in &requirements {
        install.arg("--requirement").arg(path);
    }
    run(&mut install)
        .context("the registry of Python packages cannot be reached, or lacks one of them")?;
    fs::write(stamp, digest)?;
    Ok(programs)
}

/// Builds the package `clearseal` as it ships, and installs it into the environment.
pub(crate) fn package() -> Result<PathBuf> {
    let programs = environment()?;
    let target = paths::target()?.join("python");
    let wheels = target.join("wheels");
    if wheels.is_dir() {
        fs::remove_dir_all(&wheels)
            .with_context(|| format!("cannot empty {}", wheels.display()))?;
    }
    run(Command::new(programs.join("maturin"))
        .args(["build", "--quiet", "--release", "--locked", "--out"])
        .arg(&wheels)
        .arg("--interpreter")
        .arg(programs.join("python"))
        .current_dir(paths::root().join("verifier-python"))
        .env("CARGO_TARGET_DIR", &target))?;
    let wheel = fs::read_dir(&wheels)
        .with_context(|| format!("cannot read {}", wheels.display()))?
        .next()
        .context("maturin built no wheel")??
        .path();
    run(Command::new(programs.join("pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--no-index", "--force-reinstall"])
        .arg(wheel))?;
    Ok(programs)
}

fn make(folder: &Path) -> Result<()> {
    let venv = || run(Command::new("python3").args(["-m", "venv"]).arg(folder));
    if venv().is_ok() {
        return Ok(());
    }
    // Debian's Python comes without it.
    needs::debian("python3-venv", "python3-venv")?;
    venv().context("Python has no module `venv`; install it (Debian: python3-venv)")
}

/// Returns the output of `python3 --version`, or an error where the version is too old.
fn python() -> Result<String> {
    needs::debian("python3", "python3")?;
    let reported = needs::output("python3", &["--version"])?;
    let (major, minor) = OLDEST;
    ensure!(
        parse_version(&reported).is_some_and(|found| found >= OLDEST),
        "{reported} is older than {major}.{minor}"
    );
    Ok(reported)
}

fn parse_version(reported: &str) -> Option<(u32, u32)> {
    let mut parts = reported.strip_prefix("Python ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_version("Python 3.11.7"), Some((3, 11)));
        assert_eq!(parse_version("Python 3.9"), Some((3, 9)));
        assert_eq!(parse_version("python: not found"), None);
    }
}
