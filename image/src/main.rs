//! `image`: packs an enclave image, and prints the measurements of an existing one. `cargo xtask image build` calls it.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use image::eif::BuildMetadata;
use image::{Archive, Eif, EifSigner, Metadata, signature};
use serde_json::json;
use zeroize::Zeroizing;

/// Write and read enclave image files
#[derive(Parser)]
#[command(name = "image", version, max_term_width = 100)]
enum Verb {
    /// Pack a kernel, an init and a server
    Pack(Box<Pack>),
    /// Print an image's measurements as JSON; verifies its checksum, and its signature if it has one
    Describe {
        /// Enclave image
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct Pack {
    /// bzImage
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// Kernel version, for the metadata
    #[arg(long, value_name = "TEXT", default_value = "unknown")]
    kernel_version: String,
    /// Static program to become /init
    #[arg(long, value_name = "FILE")]
    init: PathBuf,
    /// Static program for init to start
    #[arg(long, value_name = "FILE")]
    server: PathBuf,
    /// One argument of the server; may be given more than once
    #[arg(long = "argument", value_name = "TEXT", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// Folder to become /model
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Additional file of the image, measured like all others; may be given more than once
    #[arg(long = "file", value_name = "PATH-INSIDE=FILE", value_parser = inside)]
    files: Vec<(String, PathBuf)>,
    /// Command line of the kernel
    #[arg(long, value_name = "TEXT", default_value = image::COMMAND_LINE)]
    command_line: String,
    /// Version of the image, for the metadata
    #[arg(long, value_name = "TEXT", default_value = env!("CARGO_PKG_VERSION"))]
    version: String,
    /// Time of the sources in RFC 3339, for the metadata
    #[arg(long, value_name = "TIME", default_value = "1970-01-01T00:00:00Z")]
    time: String,
    /// P-384 private key (PEM) to sign with
    #[arg(long, value_name = "FILE", requires = "certificate")]
    sign_key: Option<PathBuf>,
    /// Its certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    certificate: Option<PathBuf>,
    /// Image to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

fn main() -> Result<()> {
    match Verb::parse() {
        Verb::Pack(options) => pack(&options),
        Verb::Describe { file } => describe(&file),
    }
}

fn pack(options: &Pack) -> Result<()> {
    let mut image = Eif {
        kernel: read(&options.kernel)?,
        command_line: options.command_line.clone(),
        ramdisks: vec![boot(options)?, application(options)?],
        metadata: metadata(options),
        signature: None,
    };
    if let (Some(key), Some(certificate)) = (&options.sign_key, &options.certificate) {
        let key = Zeroizing::new(
            fs::read_to_string(key).with_context(|| format!("cannot read {}", key.display()))?,
        );
        let certificate = fs::read_to_string(certificate)
            .with_context(|| format!("cannot read {}", certificate.display()))?;
        let signer = EifSigner::from_pem(&key, &certificate)?;
        image.signature = Some(signer.sign(&image.measure().pcr0));
    }
    fs::write(&options.out, image.to_bytes()?)
        .with_context(|| format!("cannot write {}", options.out.display()))?;
    describe(&options.out)
}

/// The first ramdisk, which starts the application.
fn boot(options: &Pack) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    archive.file("init", 0o755, read(&options.init)?)?;
    Ok(archive.to_ramdisk()?)
}

/// The second ramdisk: the application's root folder, and its command and environment in the files that AWS's init also reads.
fn application(options: &Pack) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    let mut command = "/bin/enclave-server\n".to_owned();
    for argument in &options.arguments {
        ensure!(
            !argument.contains('\n'),
            "an argument of the server has a line break"
        );
        command.push_str(argument);
        command.push('\n');
    }
    archive.file("cmd", 0o444, command.into_bytes())?;
    archive.file("env", 0o444, Vec::new())?;
    for folder in ["dev", "proc", "run", "sys", "tmp"] {
        archive.folder(&format!("rootfs/{folder}"), 0o755)?;
    }
    archive.file("rootfs/bin/enclave-server", 0o555, read(&options.server)?)?;
    if let Some(folder) = &options.model {
        add_model(&mut archive, folder, "rootfs/model", 0)?;
    }
    for (inside, file) in &options.files {
        archive.file(&format!("rootfs/{inside}"), 0o444, read(file)?)?;
    }
    Ok(archive.to_ramdisk()?)
}

/// `/path/inside=file outside`.
fn inside(text: &str) -> Result<(String, PathBuf), String> {
    let parts = text.split_once('=').and_then(|(inside, outside)| {
        let inside = inside.strip_prefix('/')?;
        Some((inside.to_owned(), outside.into()))
    });
    parts.ok_or_else(|| "write /PATH/INSIDE=FILE".to_owned())
}

/// Adds the files of the folder and its subfolders; the server compares each with its list.
fn add_model(archive: &mut Archive, folder: &Path, inside: &str, depth: u8) -> Result<()> {
    ensure!(
        depth < MODEL_DEPTH,
        "{} is nested too deeply for a model",
        folder.display()
    );
    archive.folder(inside, 0o755)?;
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            bail!("{} has a file whose name is not UTF-8", folder.display());
        };
        if name.starts_with('.') {
            continue;
        }
        // Links are followed, because model caches are folders of links.
        let path = entry.path();
        let kind =
            fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let inside = format!("{inside}/{name}");
        if kind.is_file() {
            archive.file(&inside, 0o444, read(&path)?)?;
        } else if kind.is_dir() {
            add_model(archive, &path, &inside, depth + 1)?;
        } else {
            bail!("{} is neither a file nor a folder", path.display());
        }
    }
    Ok(())
}

/// A model consists of its weights and one folder per module.
const MODEL_DEPTH: u8 = 3;

fn metadata(options: &Pack) -> Metadata {
    Metadata {
        name: "clearseal".to_owned(),
        version: options.version.clone(),
        build: BuildMetadata {
            time: options.time.clone(),
            tool: "clearseal image".to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            system: "Linux".to_owned(),
            kernel: options.kernel_version.clone(),
        },
        docker: json!({}),
        custom: json!({}),
    }
}

fn describe(file: &Path) -> Result<()> {
    let image = Eif::parse(&read(file)?)?;
    let measured = image.measure();
    if let Some(section) = &image.signature {
        signature::verify(section, &measured.pcr0)?;
    }
    println!("{}", serde_json::to_string_pretty(&measured)?);
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
