//! The page: the samples it shows, Vite's build, when a source has changed, and compressed copies of its files.
//! `cargo xtask page` builds one to be served from elsewhere.

use crate::{needs, paths, process, servers, statics, wasm};
use anyhow::{Context, Result, ensure};
use base16ct::lower::encode_string as hex;
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Inputs of the page's build. Folders are walked.
const SOURCES: [&str; 11] = [
    "benchmarks/reference",
    "benchmarks/results",
    "package-lock.json",
    "web/index.html",
    "web/integrity.ts",
    "web/package.json",
    "web/record-check.ts",
    "web/vite.config.ts",
    "web/public",
    "web/src",
    "verifier-wasm/pkg",
];
/// Inputs that Vite takes from the verifier's package.
const VERIFIER: [&str; 2] = ["verifier-wasm/dist", "verifier-wasm/package.json"];
/// Kinds of files that compress, and are worth a copy from this many bytes on.
const COMPRESSIBLE: [&str; 7] = ["css", "html", "js", "json", "map", "svg", "wasm"];
const MIN_BYTES: u64 = 1024;
/// Every file of the page with its SHA-256, as `sha256sum` writes and checks them.
const FILES: &str = "files.txt";

/// Where Vite's configuration reads the service's origin from.
const SERVICE: &str = "CLEARSEAL_SERVICE";
/// Where it reads the release from, as `name commit`.
const RELEASE: &str = "CLEARSEAL_RELEASE";

/// Build the page into a folder that any static server can serve
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder to write; an earlier page in it is replaced
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Origin of the service: scheme, host and port [default: the page's own]
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) service: Option<String>,
    /// The trust policy that the page carries [default: none, so that no verdict is better than simulated]
    #[arg(long, value_name = "FILE", env = "CLEARSEAL_TRUST_POLICY_FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Release that the page names as its own; set by `cargo xtask release` alone.
    #[arg(skip)]
    pub(crate) release: Option<Release>,
}

/// A release, as the page shows it.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) commit: String,
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    needs::install_packages()?;
    samples(Programs::Usual)?;
    build_into(options)?;
    println!(
        "\nServe {} with these headers on every answer, index.html for /audit and /benchmarks, and nothing added:\n",
        options.out.display()
    );
    for (header, file) in [
        ("Content-Security-Policy", "content-security-policy.txt"),
        ("Integrity-Policy", "integrity-policy.txt"),
    ] {
        let file = options.out.join(file);
        let value =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        println!("{header}: {}", value.trim_end());
    }
    Ok(())
}

/// Builds a page in another folder than the usual one. The samples must exist.
pub(crate) fn build_into(options: &Options) -> Result<()> {
    let out = std::path::absolute(&options.out)?;
    ensure!(
        !out.exists() || out.join("index.html").is_file() || fs::read_dir(&out)?.next().is_none(),
        "{} holds something that is not a page; name another folder",
        out.display()
    );
    wasm::build(&wasm::Options {
        policy: options.policy.clone(),
    })?;
    let mut vite = process::npm(&["run", "build", "--workspace=web", "--", "--emptyOutDir"]);
    vite.arg("--outDir").arg(&out);
    match &options.service {
        Some(service) => vite.env(SERVICE, service),
        None => vite.env_remove(SERVICE),
    };
    match &options.release {
        Some(release) => vite.env(RELEASE, format!("{} {}", release.name, release.commit)),
        None => vite.env_remove(RELEASE),
    };
    let built = process::run(&mut vite);
    if options.policy.is_some() {
        // The package that everything else uses carries no policy, whatever came of the page.
        wasm::build(&wasm::Options { policy: None })?;
    }
    built?;
    list(&out)?;
    compress_all(&out)
}

/// Which build writes the samples: the one that the servers come from.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Programs {
    /// Those of `npm start`.
    Usual,
    /// [`statics`].
    Static,
}

/// The build command, or nothing when web/dist is what the sources say.
pub(crate) fn build(programs: Programs) -> Result<Option<Command>> {
    samples(programs)?;
    let page = paths::root().join("web/dist");
    if is_current(&page, &stamp()?, &state()?)? {
        return Ok(None);
    }
    let mut vite = process::npm(&["run", "build", "--workspace=web"]);
    vite.env_remove(SERVICE).env_remove(RELEASE);
    Ok(Some(vite))
}

/// Whether `page` was completely built from the sources of `state`. Where it was not, removes the stamp: a build that is interrupted
/// leaves a part of a page, and the stamp of an earlier build would vouch for it once the sources are what they were.
pub(crate) fn is_current(page: &Path, stamp: &Path, state: &str) -> Result<bool> {
    let built = fs::read_to_string(stamp);
    if page.join("index.html").is_file() && built.as_ref().is_ok_and(|it| it == state) {
        return Ok(true);
    }
    if built.is_ok() {
        fs::remove_file(stamp).with_context(|| format!("cannot remove {}", stamp.display()))?;
    }
    Ok(false)
}

/// Lists and compresses what was built, and remembers from which sources.
pub(crate) fn finish() -> Result<()> {
    let page = paths::root().join("web/dist");
    list(&page)?;
    compress_all(&page)?;
    let stamp = stamp()?;
    if let Some(folder) = stamp.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(stamp, state()?)?)
}

/// Builds the page if need be, output passed through.
pub(crate) fn build_now(programs: Programs) -> Result<()> {
    if let Some(mut command) = build(programs)? {
        process::run(&mut command)?;
        finish()?;
    }
    Ok(())
}

/// Receipts under a separate development root, for the audit page.
pub(crate) fn samples(programs: Programs) -> Result<()> {
    let folder = match programs {
        Programs::Usual => {
            process::run(servers::build().arg("--quiet"))?;
            servers::programs()?
        }
        Programs::Static => {
            statics::build()?;
            statics::folder()?
        }
    };
    let output = Command::new(folder.join("audit-samples"))
        .output()
        .context("cannot run the program that writes the samples")?;
    anyhow::ensure!(
        output.status.success(),
        "the samples were not written:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file = paths::root().join("web/public/samples.json");
    if fs::read(&file).is_ok_and(|known| known == output.stdout) {
        return Ok(());
    }
    fs::write(&file, output.stdout).with_context(|| format!("cannot write {}", file.display()))
}

/// Writes the list of a page's files, so that anyone who builds it elsewhere can compare each file with the one that an address serves.
fn list(page: &Path) -> Result<()> {
    let mut files = Vec::new();
    walk(page, &mut files)?;
    let mut lines = Vec::new();
    for file in files {
        let name = file
            .strip_prefix(page)?
            .to_str()
            .context("a file of the page has no plain name")?;
        // Copies add no information, and a list cannot hold its own hash.
        if name != FILES && !name.ends_with(".gz") {
            let hash = Sha256::digest(fs::read(&file)?);
            lines.push((name.to_owned(), hex(&hash)));
        }
    }
    lines.sort();
    let list: String = lines
        .iter()
        .map(|(name, hash)| format!("{hash}  {name}\n"))
        .collect();
    fs::write(page.join(FILES), list).context("cannot write the list of the page's files")
}

fn compress_all(page: &Path) -> Result<()> {
    let mut files = Vec::new();
    walk(page, &mut files)?;
    for file in files {
        let kind = file.extension().and_then(|kind| kind.to_str());
        if kind.is_some_and(|kind| COMPRESSIBLE.contains(&kind))
            && file.metadata()?.len() >= MIN_BYTES
        {
            compress(&file)?;
        }
    }
    Ok(())
}

fn compress(file: &Path) -> Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".gz");
    let out = fs::File::create(&name)?;
    let mut encoder = GzEncoder::new(out, Compression::best());
    encoder.write_all(&fs::read(file)?)?;
    encoder.finish()?;
    Ok(())
}

/// With the build's other by-products, because web/dist is served as it is.
fn stamp() -> Result<PathBuf> {
    Ok(paths::target()?.join("clearseal/page.sha256"))
}

/// A hash over everything that decides how the page looks.
pub(crate) fn state() -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES.iter().chain(&VERIFIER) {
        let path = paths::root().join(source);
        if path.is_dir() {
            walk(&path, &mut files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        digest.update(file.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(Sha256::digest(content));
    }
    Ok(hex(&digest.finalize()))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_current;
    use std::fs;

    #[test]
    fn an_interrupted_build_leaves_no_stamp_of_the_one_before() {
        let page = std::env::temp_dir().join(format!("clearseal-page-{}", std::process::id()));
        fs::create_dir_all(&page).unwrap();
        let stamp = page.join("stamp");
        assert!(!is_current(&page, &stamp, "a").unwrap());
        fs::write(page.join("index.html"), "a").unwrap();
        fs::write(&stamp, "a").unwrap();
        assert!(is_current(&page, &stamp, "a").unwrap());
        // Other sources, and a build that never ends.
        assert!(!is_current(&page, &stamp, "b").unwrap());
        assert!(!is_current(&page, &stamp, "a").unwrap());
        fs::remove_dir_all(&page).unwrap();
    }
}
