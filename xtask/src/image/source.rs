//! Sources from Debian's archive, by the machine's own mirror, each compared with a pinned SHA-256.

use crate::steps::Steps;
use crate::{needs, paths};
use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of Debian's archive.
pub(super) struct Pinned {
    pub(super) file: &'static str,
    pub(super) sha256: &'static str,
}

/// A package of it.
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// Suite, such as `trixie`.
    pub(super) suite: &'static str,
    /// Whether it is a source package.
    pub(super) source: bool,
    pub(super) files: &'static [Pinned],
}

/// Gets a package's files into `folder` and verifies them; those that are there and right are kept.
pub(super) fn fetch(package: &Package, folder: &Path, steps: &mut Steps<'_>) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let title = format!("Source of {} {}", package.name, package.version);
    if verify(package, folder).is_ok() {
        return steps.quick(&title, || Ok("verified".to_owned()));
    }
    ensure!(
        needs::find("apt-get").is_some(),
        "{} cannot be had without apt-get; {}",
        package.name,
        by_hand(package, folder)
    );
    let apt = private_lists(package, folder)?;
    let log = paths::target()?.join("clearseal/apt.log");
    steps.watch("Debian's package lists", apt("update")?.arg("-qq"), &log)?;
    let wanted = format!("{}={}", package.name, package.version);
    let mut get = apt(if package.source { "source" } else { "download" })?;
    if package.source {
        get.arg("--download-only");
    }
    steps
        .watch(&title, get.arg(&wanted), &log)
        .and_then(|()| verify(package, folder))
        .with_context(|| by_hand(package, folder))
}

fn by_hand(package: &Package, folder: &Path) -> String {
    let names: Vec<_> = package.files.iter().map(|pinned| pinned.file).collect();
    format!(
        "{} {} cannot be had: mirrors keep the newest version alone, and Debian's snapshot archive keeps all; put {} into {}, or move the pins in xtask/src/image",
        package.name,
        package.version,
        names.join(", "),
        folder.display()
    )
}

fn verify(package: &Package, folder: &Path) -> Result<()> {
    for pinned in package.files {
        let path = folder.join(pinned.file);
        let found = sha256(&path)?;
        ensure!(
            found == pinned.sha256,
            "{} has the SHA-256 {found}, pinned is {}",
            path.display(),
            pinned.sha256
        );
    }
    Ok(())
}

/// SHA-256 of a file, in hexadecimal.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut digest = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(base16ct::lower::encode_string(&digest.finalize())),
            count => digest.update(&block[..count]),
        }
    }
}

/// Makes `apt` commands with separate package lists, so the machine's configuration does not change and no privilege is needed.
fn private_lists<'a>(
    package: &Package,
    folder: &'a Path,
) -> Result<impl Fn(&str) -> Result<Command> + 'a> {
    let private = folder.join("apt");
    for name in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(private.join(name))?;
    }
    let security = package.suite.ends_with("-security");
    let mirror = mirror(security)?;
    let kind = if package.source { "deb-src" } else { "deb" };
    fs::write(
        private.join("sources.list"),
        format!(
            "{kind} [signed-by={KEYRING}] {mirror} {} main\n",
            package.suite
        ),
    )?;
    Ok(move |verb: &str| {
        let option = |name: &str, value: PathBuf| format!("{name}={}", value.display());
        let mut command = Command::new("apt-get");
        for option in [
            option("Dir::Etc::sourcelist", private.join("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            option("Dir::State::lists", private.join("lists")),
            option("Dir::Cache", private.clone()),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command.arg(verb).current_dir(folder);
        Ok(command)
    })
}

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The mirror that this machine takes its packages from.
fn mirror(security: bool) -> Result<String> {
    let lines = needs::output(
        "apt-get",
        &[
            "indextargets",
            "--format",
            "$(REPO_URI) $(CODENAME)",
            "Created-By: Packages",
        ],
    )
    .context("apt cannot say where this machine's packages come from")?;
    choose(&lines, security)
}

fn choose(lines: &str, security: bool) -> Result<String> {
    let found = lines.lines().find_map(|line| {
        let (mirror, codename) = line.split_once(' ')?;
        (codename.ends_with("-security") == security && mirror.contains("debian"))
            .then(|| mirror.to_owned())
    });
    match found {
        Some(mirror) => Ok(mirror),
        None => bail!("this machine's apt knows no mirror of Debian"),
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn the_machines_own_mirror_is_used() {
        let lines = "http://m/debian/ bookworm\nhttp://m/debian/ bookworm-updates\nhttp://s/debian-security/ bookworm-security\n";
        assert_eq!(choose(lines, false).unwrap(), "http://m/debian/");
        assert_eq!(choose(lines, true).unwrap(), "http://s/debian-security/");
        assert!(choose("http://m/other x", false).is_err());
    }
}
