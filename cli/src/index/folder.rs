//! The folder of a migration: rows and proofs, of which an interrupted run may have written a part.
//!
//! A run writes the proofs of an answer before its rows. The rows of an answer are kept if all of them and their proofs are whole;
//! everything after them is removed, and computed again.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use protocol::items::{EVIDENCE_FORMAT, Evidence, MAX_LINE, MAX_ROW};
use serde::Deserialize;

use super::identity::{Identity, IndexError};

/// Marks a folder whose rows and proofs this command may shorten.
const MARK: (&str, &str) = (
    "migration.json",
    "{\"format\":\"clearseal-index-migration/1\"}\n",
);
pub(super) const VECTORS: &str = "vectors.jsonl";
const PROOFS: &str = "proofs.jsonl";
/// SHA-256 of each line of the old index that was sent, in its order.
const SENT: &str = "sent.sha256";

/// Files of a migration, at their ends, and what they hold.
pub(super) struct Folder {
    pub(super) vectors: File,
    pub(super) proofs: File,
    /// The digests of [`SENT`].
    pub(super) sent: File,
    /// Ends of the kept parts of `vectors` and `proofs`.
    ends: (u64, u64),
    /// Rows that are kept.
    pub(super) rows: usize,
    /// Identity of the kept rows; its dimension is 0, because rows alone state one.
    pub(super) identity: Option<Identity>,
}

impl Folder {
    /// Opens the folder for one run, or makes it. Removes nothing.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {name}"))?;
        let mark = path.join(MARK.0);
        match std::fs::read_to_string(&mark) {
            // An interrupted run may have written a part of it.
            Ok(text) if MARK.1.starts_with(&text) => {}
            Ok(_) => bail!(IndexError::Occupied(name.to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if std::fs::read_dir(path)?.next().is_some() {
                    bail!(IndexError::Occupied(name.to_string()));
                }
                let mut file = crate::private::options();
                let file = file.write(true).create_new(true).open(&mark);
                let written = file.and_then(|mut file| file.write_all(MARK.1.as_bytes()));
                written.with_context(|| format!("cannot write {}", mark.display()))?;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", mark.display()));
            }
        }
        let proofs_path = path.join(PROOFS);
        let vectors = open_file(&path.join(VECTORS))?;
        vectors
            .try_lock()
            .with_context(|| format!("another run writes to {name}"))?;
        // A run writes the proofs first.
        let has_proofs = std::fs::metadata(&proofs_path).is_ok_and(|file| file.len() > 0);
        if vectors.metadata()?.len() > 0 && !has_proofs {
            bail!(IndexError::ProofsMissing(name.to_string()));
        }
        let proofs = open_file(&proofs_path)?;
        let ends = find_line_ends(&vectors)?;
        let kept = find_whole_answers(&proofs, ends.len())?;
        let end = kept.rows.checked_sub(1).and_then(|last| ends.get(last));
        Ok(Self {
            vectors,
            proofs,
            sent: open_file(&path.join(SENT))?,
            ends: (end.copied().unwrap_or(0), kept.proofs_end),
            rows: kept.rows,
            identity: kept.identity,
        })
    }

    /// Removes what an interrupted run left behind the kept rows, whose lines have these digests.
    pub(super) fn cut(&mut self, digests: u64) -> Result<()> {
        cut(&mut self.vectors, self.ends.0)?;
        cut(&mut self.proofs, self.ends.1)?;
        cut(&mut self.sent, digests * DIGEST as u64)
    }
}

/// Length of a digest.
pub(super) const DIGEST: usize = 32;

fn open_file(path: &Path) -> Result<File> {
    let mut options = crate::private::options();
    let file = options.read(true).write(true).create(true).truncate(false);
    file.open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}

fn cut(file: &mut File, end: u64) -> Result<()> {
    file.set_len(end)
        .and_then(|()| file.seek(SeekFrom::Start(end)))
        .map(drop)
        .context("cannot remove the rows of an interrupted run")
}

/// Where each whole line ends, in bytes.
fn find_line_ends(file: &File) -> Result<Vec<u64>> {
    let mut reader = BufReader::new(file);
    let (mut ends, mut end) = (Vec::new(), 0);
    while let Some(line) = read_line(&mut reader, MAX_ROW)? {
        end += line.len() as u64;
        ends.push(end);
    }
    Ok(ends)
}

/// The answers that are kept.
struct Kept {
    rows: usize,
    proofs_end: u64,
    identity: Option<Identity>,
}

/// Finds the first answers that have all their proofs, and all their rows among the first `rows`.
fn find_whole_answers(proofs: &File, rows: usize) -> Result<Kept> {
    #[derive(Deserialize)]
    struct Kind {
        format: String,
    }
    let mut kept = Kept {
        rows: 0,
        proofs_end: 0,
        identity: None,
    };
    let mut reader = BufReader::new(proofs);
    let mut end = 0;
    // The answer that is being read: its identity, and how many of its proofs are missing.
    let mut open: Option<(Identity, usize, usize)> = None;
    while let Some(line) = read_line(&mut reader, MAX_LINE)? {
        end += line.len() as u64;
        let kind: Kind = serde_json::from_slice(&line).context("a line of the proofs")?;
        if kind.format == EVIDENCE_FORMAT {
            let line = std::str::from_utf8(&line).context("a line of the proofs")?;
            let evidence = Evidence::from_json(line).context("a line of the proofs")?;
            let count = usize::try_from(evidence.count)?;
            open = Some((Identity::read(&evidence, 0)?, count, count));
            continue;
        }
        let Some((identity, count, missing)) = &mut open else {
            bail!("the proofs begin without a line of evidence");
        };
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            if kept.rows + *count > rows {
                break;
            }
            kept.rows += *count;
            kept.proofs_end = end;
            kept.identity.get_or_insert_with(|| identity.clone());
        }
    }
    Ok(kept)
}

/// The next line with its end; `None` at the end of the file, and for a last line without an end.
fn read_line(reader: &mut impl BufRead, limit: usize) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader
        .take(limit as u64 + 1)
        .read_until(b'\n', &mut line)
        .context("cannot read what an interrupted run wrote")?;
    if line.len() > limit {
        bail!("a line of an interrupted run is longer than {limit} bytes");
    }
    Ok(line.ends_with(b"\n").then_some(line))
}
