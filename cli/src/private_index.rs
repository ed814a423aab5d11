//! `clearseal index create`, `add`, `query` and the others, and `clearseal verify answer`: private search.

mod answer;

use std::io::{BufRead, BufReader, ErrorKind, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clearseal_client::{
    Client, Error, Heads, IndexId, IndexKey, IndexQuery, IndexRow, IndexSettings, Statement,
    blocking,
};
use error_codes::Coded;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::args::{
    IndexAddArgs, IndexCreateArgs, IndexDeleteRowsArgs, IndexQueryArgs, IndexServiceArgs,
};
use crate::embed::{build_client, connect};
use crate::failure::report_failure;
use crate::notice::notice;
use crate::render;

pub(crate) use answer::verify;

/// Bytes of rows in one change: below what a sealed request holds, with the key, the head and JSON around them.
const BATCH_BYTES: usize = 2 << 20;

/// Makes the key and the index.
pub(crate) fn create(args: &IndexCreateArgs) -> Result<ExitCode> {
    let path = &args.service.key_file;
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).context("the system gives no random bytes")?;
    let key = IndexKey::new(&bytes);
    // Before anything is sent: an index without its key would be lost.
    write_key(path, &key)?;
    let settings = IndexSettings {
        model: args.model.clone(),
        dimensions: args.dimensions,
        precision: Some(args.precision.clone()),
        prompt_name: args.prompt_name.clone(),
    };
    let mut may_exist = false;
    let created = with_index(&args.service, |index| {
        let created = index.create(settings.clone());
        may_exist = !matches!(&created, Err(error) if excludes_creation(error));
        let statement = match created {
            // The key is new, so an attempt before this one, whose answer was lost, has created the index.
            Err(Error::Service { code, .. }) if code == "INDEX_EXISTS" => {
                index.describe()?.statement().clone()
            }
            created => created?,
        };
        print_statement(&statement)
    });
    if !may_exist {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    } else if created
        .as_ref()
        .is_ok_and(|code| *code != ExitCode::SUCCESS)
        || created.is_err()
    {
        notice(&format!(
            "{} holds a key, and its index may or may not exist; remove the file to start again",
            path.display()
        ));
    }
    created
}

/// Returns whether no attempt can have created the index: the request is refused as it is, or the service stores no indexes. After any other
/// failure an earlier attempt, or the enclave's own one at its store, may have succeeded.
fn excludes_creation(error: &Error) -> bool {
    matches!(
        error,
        Error::Service {
            status: 400 | 404 | 413 | 501,
            ..
        }
    )
}

fn write_key(path: &Path, key: &IndexKey) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let file = crate::private::options()
        .write(true)
        .create_new(true)
        .open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} exists; a key that is overwritten is lost with its index, so name another file",
            path.display()
        ),
        file => file.with_context(cannot)?,
    };
    let mut line = key.to_base64url();
    line.push('\n');
    let written = file
        .write_all(line.as_bytes())
        .and_then(|()| file.sync_all());
    written.with_context(cannot)
}

fn read_key(path: &Path) -> Result<IndexKey> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let key = IndexKey::from_base64url(text.trim());
    key.with_context(|| format!("{} holds no key of an index", path.display()))
}

/// Verifies the enclave, and calls `work` with the index.
fn with_index(
    args: &IndexServiceArgs,
    work: impl FnOnce(&blocking::PrivateIndex<'_>) -> Result<(), Failure>,
) -> Result<ExitCode> {
    let key = read_key(&args.key_file)?;
    let heads = match &args.state {
        Some(path) => Heads::open(path)?,
        None => {
            let mut path = args.key_file.clone().into_os_string();
            path.push(".heads");
            Heads::open(PathBuf::from(path))?
        }
    };
    let client = Client::builder(&args.url).accept_simulated(args.accept_simulated);
    let client = build_client(client, &args.policy)?;
    let worked = connect(&client)
        .map_err(Failure::Client)
        .and_then(|_| work(&client.index(key, Some(heads))));
    match worked {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Failure::Client(error)) => report_failure(error),
        Err(Failure::Other(error)) => Err(error),
    }
}

/// A failure of the client, which may be a refusal of the enclave, or another one.
enum Failure {
    Client(Error),
    Other(anyhow::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// Describes an index.
pub(crate) fn info(args: &IndexServiceArgs) -> Result<ExitCode> {
    with_index(args, |index| print_statement(index.describe()?.statement()))
}

/// Compacts an index.
pub(crate) fn compact(args: &IndexServiceArgs) -> Result<ExitCode> {
    with_index(args, |index| print_statement(index.compact()?.statement()))
}

/// Deletes rows.
pub(crate) fn delete_rows(args: &IndexDeleteRowsArgs) -> Result<ExitCode> {
    with_index(&args.service, |index| {
        let changed = index.change(&[], &args.ids)?;
        notice(&format!("{} rows deleted", changed.deleted));
        print_statement(&changed.statement)
    })
}

/// Deletes an index at its host, then its key.
pub(crate) fn purge(args: &IndexServiceArgs) -> Result<ExitCode> {
    let purged = with_index(args, |index| {
        match index.delete() {
            Ok(objects) => notice(&format!("{objects} stored objects deleted")),
            // The host has deleted it already.
            Err(Error::Service { code, .. }) if code == "INDEX_UNKNOWN" => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    })?;
    if purged == ExitCode::SUCCESS {
        let path = &args.key_file;
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(purged)
}

/// Puts the rows of a file.
pub(crate) fn add(args: &IndexAddArgs) -> Result<ExitCode> {
    let mut input: Box<dyn BufRead> = match args.rows.as_os_str() == "-" {
        true => Box::new(stdin().lock()),
        false => {
            let file = std::fs::File::open(&args.rows);
            let shown = || format!("cannot read {}", args.rows.display());
            Box::new(BufReader::new(file.with_context(shown)?))
        }
    };
    let index = read_key(&args.service.key_file)?.id();
    let progress = Progress::open(args.progress.as_deref(), index)?;
    with_index(&args.service, |index| {
        let mut batch = Batch::default();
        let (mut put, mut number) = (0, 0_u64);
        let mut digest = Sha256::new();
        loop {
            let mut line = Zeroizing::new(String::new());
            let read = input.read_line(&mut line);
            let is_end = read.context("the rows are not UTF-8 text")? == 0;
            let is_full = batch.rows.len() == usize::from(args.batch)
                || batch.bytes + line.len() > BATCH_BYTES;
            if (is_end || is_full) && !batch.rows.is_empty() {
                let changed = crate::embed::retry(|| index.change(&batch.rows, &[]))?;
                put += changed.put;
                progress.write(number, &digest)?;
                batch.clear();
            }
            if is_end {
                break;
            }
            digest.update(line.as_bytes());
            number += 1;
            if number <= progress.lines {
                if number == progress.lines {
                    progress.check(&digest)?;
                }
                continue;
            }
            if !line.trim().is_empty() {
                batch.push(&line, number - 1)?;
            }
        }
        if number < progress.lines {
            let error = ProgressError::OtherRows(progress.lines);
            return Err(anyhow::Error::from(error).into());
        }
        notice(&format!("{put} rows put"));
        print_statement(index.describe()?.statement())
    })
}

#[derive(Default)]
struct Batch {
    rows: Vec<IndexRow>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, line: &str, number: u64) -> Result<()> {
        /// A line, in which the id may be missing.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Line {
            id: Option<String>,
            text: Option<String>,
            vector: Option<Vec<f32>>,
            metadata: Option<serde_json::Value>,
        }
        // The parser's message may quote the row.
        let line_number = number + 1;
        let Ok(row) = serde_json::from_str::<Line>(line) else {
            bail!(
                "line {line_number} is not a JSON object with `text` or `vector`, and optional `id` and `metadata`"
            );
        };
        self.bytes += line.len();
        self.rows.push(IndexRow {
            id: row.id.unwrap_or_else(|| number.to_string()),
            text: row.text,
            vector: row.vector,
            metadata: row.metadata,
        });
        Ok(())
    }

    fn clear(&mut self) {
        for row in &mut self.rows {
            row.text.zeroize();
            row.vector.zeroize();
        }
        self.rows.clear();
        self.bytes = 0;
    }
}

/// Why a file of progress is not continued.
#[derive(Debug, thiserror::Error, Coded)]
pub(crate) enum ProgressError {
    /// The progress is that of another index.
    #[error("{} is the progress of another index, {found}", .path.display())]
    #[coded(
        "INDEX_PROGRESS_OTHER",
        remedy = "Name another file, or remove this one to put all rows into this index."
    )]
    OtherIndex {
        /// The file.
        path: PathBuf,
        /// The index that it names.
        found: IndexId,
    },
    /// The rows are not those that the progress counts.
    #[error("the first {0} lines are not those of the run whose progress is kept")]
    #[coded(
        "INDEX_PROGRESS_ROWS",
        remedy = "Give the rows of that run, or remove the file of progress to put all rows again."
    )]
    OtherRows(u64),
}

/// The number of lines that an index has stored, kept in a file.
struct Progress {
    path: Option<PathBuf>,
    index: IndexId,
    lines: u64,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressFile {
    index: IndexId,
    lines: u64,
    /// Hash of these lines.
    sha256: String,
}

impl Progress {
    fn open(path: Option<&Path>, index: IndexId) -> Result<Self> {
        let mut progress = Self {
            path: path.map(Path::to_owned),
            index,
            lines: 0,
            sha256: String::new(),
        };
        if let Some(path) = path {
            let shown = || format!("{} is not a file of progress", path.display());
            match std::fs::read(path) {
                Ok(bytes) => {
                    let file: ProgressFile = serde_json::from_slice(&bytes).with_context(shown)?;
                    if file.index != index {
                        bail!(ProgressError::OtherIndex {
                            path: path.to_owned(),
                            found: file.index,
                        });
                    }
                    (progress.lines, progress.sha256) = (file.lines, file.sha256);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(shown),
            }
        }
        Ok(progress)
    }

    /// Checks that the lines to skip are those of the earlier run.
    fn check(&self, digest: &Sha256) -> Result<()> {
        match hex(digest) == self.sha256 {
            true => Ok(()),
            false => bail!(ProgressError::OtherRows(self.lines)),
        }
    }

    fn write(&self, lines: u64, digest: &Sha256) -> Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let json = serde_json::to_vec(&ProgressFile {
            index: self.index,
            lines,
            sha256: hex(digest),
        })?;
        let mut next = path.clone().into_os_string();
        next.push(".next");
        let written = std::fs::write(&next, json).and_then(|()| std::fs::rename(&next, path));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

fn hex(digest: &Sha256) -> String {
    base16ct::lower::encode_string(&digest.clone().finalize())
}

/// Searches.
pub(crate) fn query(args: &IndexQueryArgs) -> Result<ExitCode> {
    let filter = args.filter.as_deref().map(serde_json::from_str);
    let filter = filter.transpose().context("--filter is not JSON")?;
    let mut include = vec!["text", "metadata"];
    if args.answer.is_some() {
        include.extend(["proof", "vector", "asked"]);
    }
    let query = IndexQuery {
        query: args.query.clone().into(),
        k: args.k,
        filter,
        include,
        prompt_name: args.prompt_name.clone(),
        ..IndexQuery::default()
    };
    with_index(&args.service, |index| {
        let answer = index.query(&query)?;
        if let Some(path) = &args.answer {
            answer::write(path, &answer)?;
        }
        let mut out = stdout().lock();
        for hit in answer.results.iter().flatten() {
            let row = serde_json::json!({
                "id": hit.id,
                "score": hit.score,
                "text": hit.text,
                "metadata": hit.metadata,
            });
            writeln!(out, "{row}").context("cannot write to standard output")?;
        }
        Ok(())
    })
}

fn print_statement(statement: &Statement) -> Result<(), Failure> {
    let Statement {
        id,
        version,
        rows,
        settings,
        ..
    } = statement;
    let prompt = settings.prompt.clone().unwrap_or_default();
    let facts = [
        ("id", id.to_string()),
        ("version", version.to_string()),
        ("rows", rows.to_string()),
        ("model", settings.model.clone()),
        ("prompt", prompt),
        (
            "vectors",
            format!("{} × {}", settings.dimensions, settings.precision.name()),
        ),
        ("root", base16ct::lower::encode_string(&statement.root())),
        (
            "head",
            base16ct::lower::encode_string(&statement.head().head),
        ),
    ];
    Ok(render::facts("Index", &facts)?)
}
