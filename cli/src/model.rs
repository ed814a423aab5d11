//! `clearseal model lock`, `clearseal model seal` and `clearseal model inspect`.

use crate::args::{ModelInspectArgs, ModelLockArgs, ModelSealArgs};
use crate::{render, shown};
use anyhow::{Context, Result, anyhow, ensure};
use base16ct::lower::encode_string as hex;
use sealed_model::{
    DataKey, Digests, FIXED, FileEntry, Header, MAX_LOCK, ModelFolder, ModelLock, ModelName,
    Opener, SelfTest,
};
use serde::Serialize;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use zeroize::Zeroizing;

/// Exit status if the container is refused.
const REFUSED: u8 = 1;

/// Seals a folder: one pass hashes its files, a second one seals them, a few chunks at a time.
pub(crate) fn seal(args: &ModelSealArgs) -> Result<ExitCode> {
    let pins = match &args.model_lock {
        Some(path) => Some(
            ModelLock::parse(&read_lock(path)?)
                .map_err(|error| describe(&error))?
                .files,
        ),
        None => None,
    };
    let folder = match &pins {
        Some(pins) => ModelFolder::open_pinned(&args.folder, pins),
        None => ModelFolder::open(&args.folder),
    };
    let folder = folder.map_err(|error| describe(&error))?;
    let key = match args.new_key {
        true => new_key(&args.key_file)?,
        false => read_key(&args.key_file)?,
    };
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).context("the system gives no random bytes")?;
    let mut progress = Progress::new(2 * folder.bytes());
    let manifest = match pins {
        // Sealing compares each file with it.
        Some(pins) => Ok(pins),
        None => folder.manifest(&mut |bytes| progress.add(bytes)),
    };
    let sealed = manifest.and_then(|manifest| {
        let add = &mut |bytes| progress.add(bytes);
        let length = folder.seal(&manifest, &key, &salt, &args.out, add)?;
        Ok((manifest, length))
    });
    progress.end();
    let (manifest, length) = sealed.map_err(|error| describe(&error))?;
    writeln!(
        std::io::stdout(),
        "{}: {} files, {length} bytes\nmodel hash (sha256-manifest): {}",
        args.out.display(),
        manifest.files().len(),
        hex(&manifest.digest()),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the lock of a folder.
pub(crate) fn lock(args: &ModelLockArgs) -> Result<ExitCode> {
    let name = ModelName::new(&args.name).map_err(|error| describe(&error))?;
    let aliases = args.aliases.iter().map(|alias| ModelName::new(alias));
    let aliases = aliases.collect::<Result<_, _>>();
    let self_test = match &args.self_test {
        Some(path) => SelfTest::parse(&read_lock(path)?).map_err(|error| describe(&error))?,
        None => Vec::new(),
    };
    let files = ModelFolder::open_for_server(&args.folder).map_err(|error| describe(&error))?;
    let mut progress = Progress::new(files.folder.bytes());
    let lock = ModelLock::of_folder(&files.folder, name, &mut |bytes| progress.add(bytes));
    progress.end();
    let lock = ModelLock {
        aliases: aliases.map_err(|error| describe(&error))?,
        self_test,
        ..lock.map_err(|error| describe(&error))?
    };
    for name in &files.left_out {
        writeln!(std::io::stderr(), "left out: {}", shown::shown(name))?;
    }
    write!(std::io::stdout(), "{}", lock.to_json())?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a file that is not longer than a lock.
fn read_lock(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_LOCK as u64 + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

/// Formats the error with its code and remedy.
fn describe<E: error_codes::Coded + std::fmt::Display>(error: &E) -> anyhow::Error {
    anyhow!("{}", error_codes::ErrorLine(error))
}

/// Contents of a container and, with a key, whether they are genuine.
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
                let line = error_codes::ErrorLine(refused).to_string();
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
        model_hash: hex(&header.manifest().digest()),
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
        sha256: hex(&file.sha256),
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

/// Generates a key and writes it to a new file that only this user can read.
fn new_key(path: &Path) -> Result<DataKey> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).context("the system gives no random bytes")?;
    let mut file = crate::private::options()
        .write(true)
        .create_new(true)
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
        "{} is not a data key: a key has 32 bytes",
        path.display()
    );
    let mut bytes = Zeroizing::new([0; 32]);
    file.read_exact(&mut *bytes)?;
    Ok(DataKey::new(&bytes))
}

/// Progress bar on a terminal; prints nothing elsewhere.
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
            // Ignore a failure: progress is optional.
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
