//! `release`: writes and signs release manifests. `cargo xtask release` calls it; a publisher signs with it, or with minisign.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use release::browsers::{describe_for_waict, describe_for_webcat};
use release::manifest::{Image, Model};
use release::{FileHash, Manifest, SecretKey};
use serde_json::Value;
use zeroize::Zeroizing;

/// Write and sign release manifests
#[derive(Parser)]
#[command(name = "release", version, max_term_width = 100)]
enum Command {
    /// Write the manifest of built files
    Write(Box<Write>),
    /// Write the page's files in the forms of WAICT and WEBCAT, which browsers check
    Browsers {
        /// The manifest of the release
        manifest: PathBuf,
        /// Folder of the page
        #[arg(long, value_name = "DIR")]
        page: PathBuf,
        /// Folder to write
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Sign a manifest for seven days; sign again to renew it
    Sign {
        /// The manifest; the signature is written to MANIFEST.minisig
        manifest: PathBuf,
        /// The publisher's secret key, without a password
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

#[derive(clap::Args)]
struct Write {
    /// Name of the release
    #[arg(long)]
    name: String,
    /// Commit, 40 hexadecimal digits
    #[arg(long)]
    commit: String,
    /// Output of `rustc --version`
    #[arg(long)]
    toolchain: String,
    /// Enclave image, with measurements.json in the same folder
    #[arg(long, value_name = "FILE")]
    image: PathBuf,
    /// Kernel inside the image
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// Name of the model
    #[arg(long, value_name = "NAME")]
    model: String,
    /// SHA-256 of its artifact set
    #[arg(long, value_name = "HEX")]
    model_sha256: String,
    /// Folder of the page
    #[arg(long, value_name = "DIR")]
    page: PathBuf,
    /// Folder of the npm package, as it is published
    #[arg(long, value_name = "DIR")]
    package: PathBuf,
    /// Manifest to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Write(options) => write(&options),
        Command::Browsers {
            manifest,
            page,
            out,
        } => write_browsers(&manifest, &page, &out),
        Command::Sign { manifest, key } => sign(&manifest, &key),
    }
}

fn write(options: &Write) -> Result<()> {
    let image = Image {
        file: FileHash::of(&read(&options.image)?),
        kernel: FileHash::of(&read(&options.kernel)?).sha256,
        pcrs: read_pcrs(&options.image.with_file_name("measurements.json"))?,
    };
    let model = Model {
        id: options.model.clone(),
        sha256: options.model_sha256.clone(),
    };
    let mut manifest = Manifest::new(
        &options.name,
        &options.commit,
        &options.toolchain,
        image,
        model,
    );
    for (folder, files) in [
        (&options.page, &mut manifest.page),
        (&options.package, &mut manifest.package),
    ] {
        add_files(folder, "", files, 0)?;
    }
    fs::write(&options.out, manifest.to_bytes()?)
        .with_context(|| format!("cannot write {}", options.out.display()))?;
    println!(
        "{}: {} files of the page, {} of the package",
        options.out.display(),
        manifest.page.len(),
        manifest.package.len()
    );
    Ok(())
}

/// Writes webcat.json, the WAICT manifest, and the header that names it.
fn write_browsers(manifest: &Path, page: &Path, out: &Path) -> Result<()> {
    let manifest = Manifest::parse(&read(manifest)?)?;
    let document = String::from_utf8(read(&page.join("index.html"))?)?;
    let policy = String::from_utf8(read(&page.join("content-security-policy.txt"))?)?;
    let waict = describe_for_waict(&manifest, &list_aliases(&document)?)?;
    let webcat = describe_for_webcat(&manifest, policy.trim_end())?;
    // Without a transparency proof only `max-age=0` is permitted.
    let header = format!(
        "max-age=0, mode=report, manifest=\"/.well-known/waict/manifests/{}\"\n",
        waict.name
    );
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for (name, content) in [
        ("webcat.json", serde_json::to_string_pretty(&webcat)? + "\n"),
        (&waict.name, waict.body),
        ("integrity-policy-waict-v1.txt", header),
    ] {
        let path = out.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Further addresses of files, from the document's import map (web/integrity.ts).
fn list_aliases(document: &str) -> Result<Vec<String>> {
    let map = document
        .split_once("<script type=\"importmap\">")
        .and_then(|(_, rest)| rest.split_once("</script>"))
        .map(|(map, _)| map)
        .context("index.html has no import map")?;
    let map: Value = serde_json::from_str(map).context("the import map is not JSON")?;
    let addresses = map["integrity"].as_object().into_iter().flatten();
    Ok(addresses
        .map(|(address, _)| address.clone())
        .filter(|address| address.contains('?'))
        .collect())
}

fn read_pcrs(path: &Path) -> Result<std::collections::BTreeMap<String, String>> {
    let measurements: Value = serde_json::from_slice(&read(path)?)
        .with_context(|| format!("{} is not JSON", path.display()))?;
    serde_json::from_value(measurements["pcrs"].clone())
        .with_context(|| format!("{} names no registers", path.display()))
}

/// Greatest depth of folders.
const MAX_DEPTH: u8 = 8;

/// Adds the files of a folder. Leaves out compressed copies: the server chooses between a file and its copies, and a client gets
/// the same content.
fn add_files(
    folder: &Path,
    inside: &str,
    files: &mut std::collections::BTreeMap<String, FileHash>,
    depth: u8,
) -> Result<()> {
    ensure!(depth < MAX_DEPTH, "{} is too deep", folder.display());
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            bail!("{} has a name that is not UTF-8", folder.display());
        };
        let path = format!("{inside}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add_files(&entry.path(), &format!("{path}/"), files, depth + 1)?;
        } else if !name.ends_with(".gz") && !name.ends_with(".br") {
            files.insert(path, FileHash::of(&read(&entry.path())?));
        }
    }
    Ok(())
}

/// Signs a manifest, and prints the key that a verifier needs.
fn sign(path: &Path, key: &Path) -> Result<()> {
    let bytes = read(path)?;
    Manifest::parse(&bytes)?;
    let secret = Zeroizing::new(
        fs::read_to_string(key).with_context(|| format!("cannot read {}", key.display()))?,
    );
    let secret = SecretKey::parse(&secret)?;
    let at = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("this machine's clock is before 1970")?;
    let signature = secret.sign(&bytes, at.as_secs()).to_text();
    let signature_path = PathBuf::from(format!("{}.minisig", path.display()));
    fs::write(&signature_path, signature)
        .with_context(|| format!("cannot write {}", signature_path.display()))?;
    println!(
        "{}\n{}",
        signature_path.display(),
        secret.public().to_text()
    );
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
