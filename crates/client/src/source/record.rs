//! The highest sequence number that was seen, kept through restarts.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::SourceError;
use crate::durable::replace_file;

const FORMAT: &str = "clearseal-policy-state/1";
const MAX_RECORD: u64 = 4096;

/// A policy by its number and its bytes' hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) sequence: u64,
    pub(super) sha256: [u8; 32],
}

pub(super) struct Record {
    path: Option<PathBuf>,
    key: String,
    seen: Option<Seen>,
    /// Whether `seen` was taken into use by this process.
    has_taken: bool,
    /// Whether the file holds `seen`.
    is_written: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    format: String,
    /// Second line of the publisher's key: numbers of another publisher say nothing.
    key: String,
    sequence: u64,
    sha256: String,
}

impl Record {
    /// Reads the file; a missing one is an empty record, a damaged one an error: an attacker may have damaged it.
    pub(super) fn open(path: Option<PathBuf>, key: &str) -> Result<Self, SourceError> {
        let key = key.lines().nth(1).unwrap_or_default().to_owned();
        let unreadable = |path: &Path| SourceError::StateUnreadable {
            path: path.to_owned(),
        };
        let seen = match &path {
            Some(path) => read(path, &key).map_err(|()| unreadable(path))?,
            None => None,
        };
        Ok(Self {
            path,
            key,
            seen,
            has_taken: false,
            is_written: true,
        })
    }

    /// The highest number, by memory and file: another process may have seen a higher one.
    pub(super) fn seen(&mut self) -> Option<Seen> {
        if let Some(path) = &self.path
            && let Ok(Some(other)) = read(path, &self.key)
            && self.seen.is_none_or(|seen| seen.sequence < other.sequence)
        {
            self.seen = Some(other);
            self.has_taken = false;
            self.is_written = true;
        }
        self.seen
    }

    pub(super) fn has_taken(&self) -> bool {
        self.has_taken
    }

    /// Remembers, first in memory.
    pub(super) fn take(&mut self, seen: Seen) -> Result<(), SourceError> {
        self.has_taken = true;
        if self.seen != Some(seen) {
            self.seen = Some(seen);
            self.is_written = false;
        }
        self.write_again()
    }

    /// Writes what could not be written before.
    pub(super) fn write_again(&mut self) -> Result<(), SourceError> {
        let (Some(path), Some(seen), false) = (&self.path, self.seen, self.is_written) else {
            return Ok(());
        };
        let json = Json {
            format: FORMAT.to_owned(),
            key: self.key.clone(),
            sequence: seen.sequence,
            sha256: base16ct::lower::encode_string(&seen.sha256),
        };
        let written = serde_json::to_vec(&json)
            .map_err(std::io::Error::from)
            .and_then(|json| replace_file(path, &json, OpenOptions::new()));
        written.map_err(|reason| SourceError::StateNotWritten {
            path: path.clone(),
            reason,
        })?;
        self.is_written = true;
        Ok(())
    }
}

fn read(path: &Path, key: &str) -> Result<Option<Seen>, ()> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file
            .take(MAX_RECORD)
            .read_to_end(&mut bytes)
            .map_err(drop)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(()),
    };
    let json: Json = serde_json::from_slice(&bytes).map_err(drop)?;
    if json.format != FORMAT || json.key != key {
        return Err(());
    }
    let mut sha256 = [0; 32];
    let length = base16ct::lower::decode(&json.sha256, &mut sha256)
        .map_err(drop)?
        .len();
    (length == 32).then_some(()).ok_or(())?;
    Ok(Some(Seen {
        sequence: json.sequence,
        sha256,
    }))
}
