//! `enclave-server check-model`: whether a folder holds the model of a lock, and whether an engine computes its vectors.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use base16ct::lower::encode_string as hex;
use clap::Args;
use engine::{Embedder, EngineChoice, PoolLimits, Precision, Recipe};
use sealed_model::{CHUNK, FileEntry, Manifest, ModelFolder, ModelLock, SelfTest};
use sha2::{Digest, Sha256};

use crate::model::{Folder, Model, ModelError, pinned, self_test};
use crate::server::{Engine, StartError, build_embedder};

/// The folder to check, and what to compare it with.
#[derive(Clone, Debug, Args)]
pub struct CheckModel {
    /// Folder of the model.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// Lock to compare the folder with [default: the lock of all-MiniLM-L6-v2, which is compiled in].
    #[arg(long, env = "CLEARSEAL_MODEL_LOCK", value_name = "FILE")]
    pub model_lock: Option<PathBuf>,

    /// Engine that computes the self-test.
    #[arg(
        long,
        env = "CLEARSEAL_ENGINE",
        value_name = "ENGINE",
        default_value = "auto"
    )]
    pub engine: EngineChoice,

    /// Weight precision.
    #[arg(
        long,
        env = "CLEARSEAL_PRECISION",
        value_name = "PRECISION",
        default_value = "f32"
    )]
    pub precision: Precision,

    /// Compute the vectors of the lock's texts, and print them as a lock's `self_test`; the report goes to standard error.
    #[arg(long)]
    pub print_self_test: bool,
}

/// Findings about a folder.
#[derive(Debug, Default)]
pub struct Report {
    /// Reasons why a server refuses the folder, each with its code and what to do.
    pub problems: Vec<String>,
    /// Observations that need no action.
    pub notes: Vec<String>,
    /// The texts of the lock's self-test with the computed vectors; empty where the model cannot be loaded.
    pub self_test: Vec<SelfTest>,
}

impl Report {
    fn add<E: error_codes::Coded + std::fmt::Display>(&mut self, error: &E) {
        self.problems
            .push(error_codes::ErrorLine(error).to_string());
    }
}

/// Checks a folder: every file, the loader's verdict, and the self-test.
///
/// # Errors
/// [`ModelError`] where the lock cannot be used.
pub async fn check(options: &CheckModel) -> Result<Report, ModelError> {
    let lock = pinned::lock(options.model_lock.as_deref())?;
    let mut report = Report::default();
    for pin in lock.files.files() {
        if let Err(error) = check_file(&options.folder, pin) {
            report.add(&error);
        }
    }
    let is_locked = report.problems.is_empty();
    let folder = match ModelFolder::open_for_server(&options.folder) {
        Ok(files) => Some(files.folder),
        Err(error) => {
            report.add(&error);
            None
        }
    };
    for name in folder.iter().flat_map(ModelFolder::names) {
        if !lock.files.files().iter().any(|pin| pin.name == name) {
            report.notes.push(format!(
                "{name} is not in the lock: the server does not read it"
            ));
        }
    }
    // With other files than the lock's, the loader judges them as they are.
    let pins = match (is_locked, folder) {
        (true, _) => lock.files.clone(),
        (false, Some(folder)) => match folder.manifest(&mut |_| {}) {
            Ok(manifest) => manifest,
            Err(error) => {
                report.add(&error);
                return Ok(report);
            }
        },
        (false, None) => return Ok(report),
    };
    match load(options, &pins) {
        Ok(embedder) => run_self_test(options, &lock, is_locked, &embedder, &mut report).await,
        Err(error) => report.add(&error),
    }
    Ok(report)
}

/// Compares a file with its entry in the lock.
fn check_file(folder: &Path, pin: &FileEntry) -> Result<(), ModelError> {
    let path = folder.join(&pin.name);
    let unreadable = |source| ModelError::Unreadable {
        path: path.clone(),
        source,
    };
    let mut file = File::open(&path).map_err(unreadable)?;
    let observed = file.metadata().map_err(unreadable)?.len();
    if observed != pin.size {
        return Err(ModelError::Size {
            path,
            expected: pin.size,
            observed,
        });
    }
    let observed = hash(&mut file).map_err(unreadable)?;
    if observed != pin.sha256 {
        return Err(ModelError::Digest {
            name: pin.name.clone(),
            expected: hex(&pin.sha256),
            observed: hex(&observed),
        });
    }
    Ok(())
}

fn hash(file: &mut File) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = file.read(&mut buffer)?;
        match buffer.get(..count) {
            Some(read) if !read.is_empty() => hash.update(read),
            _ => return Ok(hash.finalize().into()),
        }
    }
}

fn load(options: &CheckModel, pins: &Manifest) -> Result<Embedder, StartError> {
    let source = Folder::new(&options.folder, pins);
    let loaded = Model::load_from(source, pins, Recipe::tokenizer)?;
    let engine = Engine {
        choice: options.engine,
        precision: options.precision,
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        limits: PoolLimits::default(),
    };
    build_embedder(loaded.model, loaded.side_result?, engine, None)
}

async fn run_self_test(
    options: &CheckModel,
    lock: &ModelLock,
    is_locked: bool,
    embedder: &Embedder,
    report: &mut Report,
) {
    let (engine, dimension) = (embedder.engine(), embedder.dimension());
    report.notes.push(format!(
        "{engine} loads it: {dimension} dimensions, {} tokens at most",
        embedder.max_tokens()
    ));
    let count = lock.self_test.len();
    if !is_locked {
        let note = "the self-test is not compared, because the files are not the lock's";
        report.notes.push(note.to_owned());
    } else if count == 0 {
        let note = "the lock has no self-test; --print-self-test computes one";
        report.notes.push(note.to_owned());
    } else {
        let failures = self_test::failures(embedder, options.precision, &lock.self_test).await;
        let passed = count - failures.len();
        report
            .notes
            .push(format!("{passed} of {count} texts of the self-test passed"));
        for failure in &failures {
            report.add(failure);
        }
    }
    if options.print_self_test {
        let texts = lock.self_test.iter().map(|test| test.text.as_str());
        let texts: Vec<_> = match count {
            0 => DEFAULT_TEXTS.to_vec(),
            _ => texts.collect(),
        };
        for (index, text) in texts.iter().enumerate() {
            match self_test::embed(embedder, text).await {
                Ok(vector) => report.self_test.push(SelfTest {
                    text: (*text).to_owned(),
                    vector,
                }),
                Err(error) => report.add(&ModelError::SelfTest {
                    number: index + 1,
                    count: texts.len(),
                    fault: self_test::SelfTestFault::Embed(error),
                }),
            }
        }
    }
}

/// Texts for a lock without a self-test: ASCII, and letters that some tokenizers strip of accents.
const DEFAULT_TEXTS: [&str; 2] = [
    "The quick brown fox jumps over the lazy dog.",
    "Café déjà vu naïve résumé — “quoted” …",
];
