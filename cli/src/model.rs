//! `clearseal model seal` and `clearseal model inspect`.

use crate::args::{ModelInspectArgs, ModelSealArgs};
use crate::{render, shown};
use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use sealed_model::{CHUNK, DataKey, Digests, FIXED, FileEntry, Header, Manifest, Opener, Sealer};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zeroize::Zeroizing;

/// The container is not what it should be.
const REFUSED: u8 = 1;

/// Seals a folder: one pass hashes its files, a second one seals them, a few chunks at a time.
pub(crate) fn seal(args: &ModelSealArgs) -> Result<ExitCode> {
    let paths = files(&args.folder)?;
    for needed in ["config.json", "tokenizer.json"] {
        ensure!(
            paths.iter().any(|(name, _)| name == needed),
            "{} holds no {needed}; name a model folder",
            args.folder.display()
        );
    }
    ensure!(
        paths.iter().any(|(name, _)| name.ends_with(".safetensors")),
        "{} holds no .safetensors file; convert the weights first",
        args.folder.display()
    );
    let total: u64 = paths
        .iter()
        .map(|(_, path)| Ok(path.metadata()?.len()))
        .sum::<Result<u64>>()?;
    let key = match args.new_key {
        true => new_key(&args.key_file)?,
        false => read_key(&args.key_file)?,
    };
    let mut progress = Progress::new(2 * total);
    let entries = paths
        .iter()
        .map(|(name, path)| entry(name, path, &mut progress));
    let manifest = Manifest::new(entries.collect::<Result<_>>()?)?;
    let digest = HEXLOWER.encode(&manifest.digest());
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).context("the system gives no random bytes")?;
    let mut sealer = Sealer::new(manifest.clone(), &salt, &key)?;

    let partial = partial(&args.out);
    let outcome = write(
        &partial,
        &mut sealer,
        &manifest,
        &args.folder,
        &mut progress,
    );
    progress.end();
    if let Err(error) = outcome {
        // What is left of it would be taken for a container.
        std::fs::remove_file(&partial).ok();
        return Err(error);
    }
    std::fs::rename(&partial, &args.out)
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    writeln!(
        std::io::stdout(),
        "{}: {} files, {} bytes\nmodel hash (sha256-manifest): {digest}",
        args.out.display(),
        manifest.files().len(),
        sealer.container_length(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// What a container says of itself; with a key, whether all of it is genuine.
#[derive(Serialize)]
struct Inspection {
    version: u16,
    suite: &'static str,
    container_bytes: u64,
    chunks: u64,
    model_hash: String,
    model_hash_scheme: &'static str,
    files: Vec<Listed>,
    /// `unchecked` without a key: anyone can write a header.
    contents: &'static str,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Shows a container, and with its key opens all of it.
pub(crate) fn inspect(args: &ModelInspectArgs) -> Result<ExitCode> {
    let key = args.key_file.as_deref().map(read_key).transpose()?;
    match look(&args.file, key.as_ref()) {
        Ok(inspection) if args.json => {
            render::json(&inspection)?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(inspection) => {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "sealed model, version {}, {}",
                inspection.version, inspection.suite
            )?;
            writeln!(
                out,
                "{} bytes in {} chunks",
                inspection.container_bytes, inspection.chunks
            )?;
            writeln!(
                out,
                "model hash ({}): {}",
                inspection.model_hash_scheme, inspection.model_hash
            )?;
            writeln!(out, "contents: {}\n", inspection.contents)?;
            for file in &inspection.files {
                writeln!(
                    out,
                    "{:>12}  {}  {}",
                    file.bytes,
                    file.sha256,
                    shown::shown(&file.name)
                )?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => match error.downcast_ref::<sealed_model::ContainerError>() {
            Some(refused) => {
                let line = codes::Line(refused).to_string();
                writeln!(std::io::stderr(), "clearseal: {}", shown::shown(&line))?;
                Ok(ExitCode::from(REFUSED))
            }
            None => Err(error),
        },
    }
}

fn look(path: &Path, key: Option<&DataKey>) -> Result<Inspection> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(FIXED as u64)
        .read_to_end(&mut bytes)?;
    let rest = Header::length(&bytes)? - FIXED;
    Read::by_ref(&mut file)
        .take(rest as u64)
        .read_to_end(&mut bytes)?;
    let (header, _) = Header::read(&bytes)?;
    if length < header.container_length() {
        return Err(sealed_model::ContainerError::Truncated("its file").into());
    }
    if length > header.container_length() {
        return Err(sealed_model::ContainerError::TrailingBytes.into());
    }
    let inspection = Inspection {
        version: 1,
        suite: "AES-256-GCM, HKDF-SHA256",
        container_bytes: length,
        chunks: header.chunks(),
        model_hash: HEXLOWER.encode(&header.manifest().digest()),
        model_hash_scheme: "sha256-manifest",
        files: header.manifest().files().iter().map(listed).collect(),
        contents: match key {
            Some(_) => "genuine: every chunk opened, every file has its digest",
            None => "unchecked: without a key anyone could have written this header",
        },
    };
    if let Some(key) = key {
        open_all(&mut file, header, key)?;
    }
    Ok(inspection)
}

fn listed(file: &FileEntry) -> Listed {
    Listed {
        name: file.name.clone(),
        bytes: file.size,
        sha256: HEXLOWER.encode(&file.sha256),
    }
}

fn open_all(file: &mut File, header: Header, key: &DataKey) -> Result<()> {
    let opener = Opener::new(header, key)?;
    let header = opener.header();
    let mut progress = Progress::new(header.manifest().total());
    let mut digests = Digests::new(header.manifest());
    let mut chunk = Vec::new();
    for index in 0..header.chunks() {
        chunk.clear();
        let length = header.chunk_length(index).unwrap_or(0) as u64;
        Read::by_ref(file).take(length).read_to_end(&mut chunk)?;
        let plain = opener.open(index, &mut chunk)?;
        digests.update(plain)?;
        progress.add(plain.len() as u64);
    }
    progress.end();
    Ok(digests.finish()?)
}

/// Every file below `folder` with its name in the container, as far as they are files.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), folder.to_path_buf())];
    while let Some((prefix, folder)) = open.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name =
                name.with_context(|| format!("{} has a name that is not UTF-8", path.display()))?;
            let name = format!("{prefix}{name}");
            // Follows links: a downloaded model's folder is often made of them.
            let kind = path
                .metadata()
                .with_context(|| format!("cannot read {}", path.display()))?;
            if kind.is_dir() {
                open.push((format!("{name}/"), path));
            } else if kind.is_file() {
                found.push((name, path));
            } else {
                bail!(
                    "{} is neither a file nor a folder; remove it",
                    path.display()
                );
            }
            ensure!(
                found.len() + open.len() <= 4 * sealed_model::MAX_FILES,
                "{} holds too many files for a model",
                folder.display()
            );
        }
    }
    Ok(found)
}

fn entry(name: &str, path: &Path, progress: &mut Progress) -> Result<FileEntry> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer)?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
            break;
        };
        hash.update(read);
        size += count as u64;
        progress.add(count as u64);
    }
    Ok(FileEntry {
        name: name.to_owned(),
        size,
        sha256: hash.finalize().into(),
    })
}

fn write(
    out: &Path,
    sealer: &mut Sealer,
    manifest: &Manifest,
    folder: &Path,
    progress: &mut Progress,
) -> Result<()> {
    let file = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
    let mut writer = BufWriter::new(file);
    writer.write_all(sealer.header())?;
    let mut plain = Contents {
        folder,
        files: manifest.files(),
        open: None,
    };
    let mut digests = Digests::new(manifest);
    let mut chunk = Vec::with_capacity(CHUNK + sealed_model::TAG);
    while let Some(length) = sealer.wants() {
        chunk.clear();
        plain.by_ref().take(length as u64).read_to_end(&mut chunk)?;
        // Refuses files that changed since they were hashed.
        digests.update(&chunk)?;
        progress.add(chunk.len() as u64);
        sealer.seal(&mut chunk)?;
        writer.write_all(&chunk)?;
    }
    digests.finish()?;
    writer
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?
        .sync_all()?;
    Ok(())
}

/// The files' bytes, one after the other.
struct Contents<'a> {
    folder: &'a Path,
    files: &'a [FileEntry],
    open: Option<std::io::Take<File>>,
}

impl Read for Contents<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(open) = &mut self.open {
                let count = open.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            let Some((file, rest)) = self.files.split_first() else {
                return Ok(0);
            };
            self.files = rest;
            self.open = Some(File::open(self.folder.join(&file.name))?.take(file.size));
        }
    }
}

fn partial(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Makes a key, and a file for it that only this user can read. Never replaces one.
fn new_key(path: &Path) -> Result<DataKey> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).context("the system gives no random bytes")?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot make {}; a key is never replaced", path.display()))?;
    file.write_all(&*bytes)?;
    file.sync_all()?;
    Ok(DataKey::new(&bytes))
}

fn read_key(path: &Path) -> Result<DataKey> {
    let mut file = File::open(path)
        .with_context(|| format!("cannot read {}; make a key with --new-key", path.display()))?;
    let found = file.metadata()?;
    ensure!(
        found.mode() & 0o077 == 0,
        "{} can be read by others; chmod 600 it",
        path.display()
    );
    ensure!(
        found.len() == 32,
        "{} is no data key: a key has 32 bytes",
        path.display()
    );
    let mut bytes = Zeroizing::new([0; 32]);
    file.read_exact(&mut *bytes)?;
    Ok(DataKey::new(&bytes))
}

/// A line on a terminal that says how far it is; nothing elsewhere.
struct Progress {
    total: u64,
    done: u64,
    percent: Option<u64>,
}

const BAR: usize = 40;

impl Progress {
    fn new(total: u64) -> Self {
        let percent = std::io::stderr().is_terminal().then_some(u64::MAX);
        Self {
            total: total.max(1),
            done: 0,
            percent,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.done += bytes;
        let percent = self.done.saturating_mul(100) / self.total;
        if self.percent.is_some_and(|shown| shown != percent) {
            self.percent = Some(percent);
            let full = usize::try_from(percent).unwrap_or(0).min(100) * BAR / 100;
            // What cannot be shown need not be.
            write!(
                std::io::stderr(),
                "\r[{:<BAR$}] {percent:>3} %",
                "#".repeat(full)
            )
            .ok();
        }
    }

    fn end(&mut self) {
        if self.percent.is_some() {
            write!(std::io::stderr(), "\r\x1b[K").ok();
        }
    }
}
