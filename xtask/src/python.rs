//! Python environments with packages of the registry: made once, in the user's cache folder.

use crate::process::run;
use crate::{needs, paths};
use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest Python that the packages of the examples run on: major, minor.
const OLDEST: (u32, u32) = (3, 11);

/// Folder of the programs of an environment that has what the examples need.
pub(crate) fn examples() -> Result<PathBuf> {
    environment("examples", "examples/requirements.txt")
}

/// The environment of a list of requirements. Another list, or another Python, makes another one in the place of the first.
fn environment(name: &str, requirements: &str) -> Result<PathBuf> {
    let requirements = &paths::root().join(requirements);
    let python = python()?;
    let mut digest = Sha256::new();
    digest.update(&python);
    digest.update(fs::read(requirements)?);
    let digest = data_encoding::HEXLOWER.encode(&digest.finalize());
    let folder = paths::cache()?.join("clearseal/python").join(name);
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
    println!(
        "installing {} into {}, once",
        requirements.display(),
        folder.display()
    );
    run(Command::new(programs.join("pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(["--retries=1", "--requirement"])
        .arg(requirements))
    .context("the registry of Python packages cannot be reached, or lacks one of them")?;
    fs::write(stamp, digest)?;
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

/// What `python3 --version` prints, where it is new enough.
fn python() -> Result<String> {
    needs::debian("python3", "python3")?;
    let said = needs::output("python3", &["--version"])?;
    let (major, minor) = OLDEST;
    ensure!(
        version(&said).is_some_and(|found| found >= OLDEST),
        "{said} is older than {major}.{minor}"
    );
    Ok(said)
}

fn version(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.strip_prefix("Python ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("Python 3.11.7"), Some((3, 11)));
        assert_eq!(version("Python 3.9"), Some((3, 9)));
        assert_eq!(version("python: not found"), None);
    }
}
