//! A file of the newest heads that a client has seen, one for each index.
//!
//! A host that restores an old copy of an index can be found out only by someone who remembers a newer one. So the file is replaced in one
//! step, is on disk before an answer is returned, and is locked: two processes would forget each other's heads.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealed_index::{Head, IndexId};
use serde::{Deserialize, Serialize};

use crate::durable::replace_file;

const FORMAT: &str = "clearseal-index-heads/1";
/// Longest file: some 50,000 indexes.
const MAX_FILE: u64 = 8 << 20;

/// The newest head of each index, kept in a file. Locked until it is dropped.
pub struct Heads {
    path: PathBuf,
    heads: Mutex<BTreeMap<String, Head>>,
    _lock: File,
}

/// Why the file of heads cannot be used.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum HeadsError {
    /// Another process has it.
    #[error("another program uses {}", .0.display())]
    #[coded(
        "INDEX_HEADS_IN_USE",
        remedy = "Wait until it ends, or name another file: each then remembers its own heads."
    )]
    InUse(PathBuf),
    /// Not a file of heads.
    #[error("{} is not a file of index heads", .0.display())]
    #[coded(
        "INDEX_HEADS_MALFORMED",
        remedy = "Restore it. Without it an older index cannot be noticed; delete it only if you accept that."
    )]
    Malformed(PathBuf),
    /// The system refused.
    #[error("{} cannot be read or written: {error}", .path.display())]
    #[coded(
        "INDEX_HEADS_UNUSABLE",
        remedy = "Make it readable and writable, with space on its disk."
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    format: String,
    heads: BTreeMap<String, Head>,
}

impl Heads {
    /// Opens and locks a file; a missing one is empty, a damaged one an error.
    ///
    /// # Errors
    /// [`HeadsError`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, HeadsError> {
        let path = path.into();
        let unusable = |error| HeadsError::Unusable {
            path: path.clone(),
            error,
        };
        // The file itself is replaced, so a lock on it would be one on an old file.
        let lock = File::create(with_suffix(&path, ".lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(HeadsError::InUse(path)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let heads = match File::open(&path) {
            Ok(file) => {
                let mut bytes = Vec::new();
                file.take(MAX_FILE)
                    .read_to_end(&mut bytes)
                    .map_err(unusable)?;
                let json: Option<Json> = serde_json::from_slice(&bytes).ok();
                let json = json.filter(|json| json.format == FORMAT);
                json.ok_or(HeadsError::Malformed(path.clone()))?.heads
            }
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(unusable(error)),
        };
        Ok(Self {
            path,
            heads: Mutex::new(heads),
            _lock: lock,
        })
    }

    /// The newest head of an index.
    #[must_use]
    pub fn get(&self, index: &IndexId) -> Option<Head> {
        self.lock().get(&index.to_string()).copied()
    }

    /// Remembers a head; it is on disk when this returns.
    ///
    /// # Errors
    /// [`HeadsError::Unusable`].
    pub fn set(&self, index: IndexId, head: Head) -> Result<(), HeadsError> {
        let mut heads = self.lock();
        heads.insert(index.to_string(), head);
        self.write(&heads)
    }

    /// Forgets an index.
    ///
    /// # Errors
    /// [`HeadsError::Unusable`].
    pub fn remove(&self, index: &IndexId) -> Result<(), HeadsError> {
        let mut heads = self.lock();
        heads.remove(&index.to_string());
        self.write(&heads)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Head>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, heads: &BTreeMap<String, Head>) -> Result<(), HeadsError> {
        let json = serde_json::to_vec(&Json {
            format: FORMAT.to_owned(),
            heads: heads.clone(),
        });
        let written = json
            .map_err(std::io::Error::from)
            .and_then(|json| replace_file(&self.path, &json, private()));
        written.map_err(|error| HeadsError::Unusable {
            path: self.path.clone(),
            error,
        })
    }
}

/// Files that only their owner reads.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> IndexId {
        sealed_index::IndexKey::new(&[byte; 32]).id()
    }

    #[test]
    fn heads_outlive_the_process_and_are_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heads.json");
        let head = |version| Head {
            version,
            head: [7; 32],
        };
        let heads = Heads::open(&path).unwrap();
        assert!(heads.get(&id(1)).is_none());
        heads.set(id(1), head(3)).unwrap();
        heads.set(id(2), head(9)).unwrap();
        assert!(matches!(Heads::open(&path), Err(HeadsError::InUse(_))));
        drop(heads);
        let heads = Heads::open(&path).unwrap();
        assert_eq!(heads.get(&id(1)), Some(head(3)));
        heads.remove(&id(1)).unwrap();
        drop(heads);
        let heads = Heads::open(&path).unwrap();
        assert_eq!(
            (heads.get(&id(1)), heads.get(&id(2))),
            (None, Some(head(9)))
        );
    }

    #[test]
    fn a_damaged_file_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heads.json");
        for damaged in ["", "{}", r#"{"format":"other","heads":{}}"#] {
            std::fs::write(&path, damaged).unwrap();
            let opened = Heads::open(&path);
            assert!(matches!(opened, Err(HeadsError::Malformed(_))), "{damaged}");
        }
    }
}
