//! Stores the logs in one file.
//!
//! One transaction writes leaves, nodes and head together, and is on disk before any of them is served. The log that was signed last
//! is verified at start, every other log when it is first used. [`Store::check`] rebuilds every tree from its leaves, and compares it
//! with its nodes and with every signed head.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use merkle::Hash;
use merkle::head::TreeHead;
use merkle::json::SignedHead;
use merkle::tree::{Frontier, Position, receipt_hash};
use redb::{Database, ReadableDatabase, ReadableTable};

use super::check::{Checked, rebuild};
use super::file::{EVIDENCE, HEADS, LEAVES, NODES, NUMBERS, begin_write, builder, create};
use super::load::{self, LogState};
use super::unchanged::Unchanged;
use super::{LogError, thin};

/// Pulled leaves, and a head that covers exactly these and the stored ones.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The requested log.
    pub log: Hash,
    /// Data of leaves, from the first one that is not stored.
    pub leaves: Vec<Hash>,
    /// The signed head over all leaves, and its evidence.
    pub head: SignedHead,
}

/// An open log file. One process at a time can open it.
pub struct Store {
    path: PathBuf,
    /// `None` after a failed write or read, such as on a full disk: the library then refuses further writes, and the file is
    /// reopened when it is next used.
    database: Mutex<Option<Arc<Database>>>,
    logs: Mutex<HashMap<Hash, LogState>>,
}

/// The change to a tree that a batch makes.
struct Appended<'a> {
    /// Index of the first new leaf.
    first: u64,
    /// The published head before the batch.
    published: Option<TreeHead>,
    /// Subtrees that the new leaves complete.
    nodes: &'a [(Position, Hash)],
}

/// Seconds after which the published head of a log that does not grow is replaced by a newer one.
const HEAD_AGE: u64 = 30;

impl Store {
    /// Opens `path`, or creates it, and verifies the newest head. The time does not depend on the length of the log.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] where the parts that are read are inconsistent; [`LogError::InUse`], [`LogError::Unavailable`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let unavailable = |error: std::io::Error| LogError::Unavailable(error.to_string());
        match std::fs::metadata(path) {
            // A created file is never empty, so an empty one has lost its contents.
            Ok(found) if found.len() == 0 => {
                return Err(LogError::Corrupt("it is empty".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Created under another name, so that a crash leaves no partial file at `path`.
                let fresh = path.with_added_extension("new");
                match std::fs::remove_file(&fresh) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(unavailable(error));
                    }
                    _ => {}
                }
                create(&fresh)?;
                std::fs::rename(&fresh, path).map_err(unavailable)?;
                sync_folder(path).map_err(unavailable)?;
            }
            Err(error) => return Err(unavailable(error)),
        }
        let (database, logs) = open(path)?;
        Ok(Self {
            path: path.to_owned(),
            database: Mutex::new(Some(Arc::new(database))),
            logs: Mutex::new(logs),
        })
    }

    /// Checks a whole file, which no other process may have open: every page, every leaf, every signed head. The file is only read:
    /// it may be evidence.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn check(path: &Path) -> Result<Checked, LogError> {
        let found = std::fs::metadata(path);
        let found = found.map_err(|error| LogError::Unavailable(error.to_string()))?;
        if found.len() == 0 {
            return Err(LogError::Corrupt("it is empty".to_owned()));
        }
        catch_panics(|| {
            let file = Unchanged::open(path)?;
            let database = builder()
                .set_check_integrity_on_open(true)
                .create_with_backend(file)?;
            rebuild(&database.begin_read()?)
        })
    }

    /// Thins old heads as of `now` (Unix seconds), but not later than the newest head was signed: a clock that jumps ahead removes
    /// nothing. Keeps every head of the last day, then one an hour, after 30 days one a day, and the newest and the published one of
    /// each log. Returns the number of removed heads.
    ///
    /// # Errors
    /// Those of reading and writing the file.
    pub fn thin(&self, now: u64) -> Result<u64, LogError> {
        let (logs, newest): (Vec<_>, _) = {
            let logs = self.logs();
            let published = |known: &LogState| known.published.map(|head| head.size);
            (
                logs.iter()
                    .map(|(log, known)| (*log, published(known)))
                    .collect(),
                logs.values().map(|known| known.head.time).max(),
            )
        };
        let now = now.min(newest.unwrap_or(now));
        let mut thinned = 0;
        for (log, published) in logs {
            let database = self.database()?;
            thinned += self.close_on_failure(thin::thin(&database, &log, published, now))?;
        }
        Ok(thinned)
    }

    /// Number of stored leaves of `log`; 0 where the log is unknown.
    pub fn size(&self, log: &Hash) -> u64 {
        self.logs().get(log).map_or(0, |known| known.head.size)
    }

    /// Number of stored leaves of all logs.
    pub fn leaves(&self) -> u64 {
        self.logs().values().map(|known| known.head.size).sum()
    }

    /// Verifies the head of a batch, appends its leaves to the stored ones, compares the root, and commits. When this returns, the
    /// batch is on disk. A head without new leaves is stored only if the published head is at least 30 seconds older. Returns the
    /// newest stored head.
    ///
    /// # Errors
    /// [`LogError`]; then nothing has changed.
    pub fn extend(&self, batch: &Batch) -> Result<TreeHead, LogError> {
        let head = TreeHead::verify(&batch.head.head)?;
        if head.log != batch.log {
            return Err(LogError::OtherLog);
        }
        if receipt_hash(&batch.head.document) != head.document {
            return Err(LogError::Evidence);
        }
        // Reopened first, where it had failed, so that the trees in memory are those on disk.
        self.database()?;
        let mut frontier = self
            .close_on_failure(self.tree(&batch.log))?
            .map_or_else(Frontier::new, Arc::unwrap_or_clone);
        if head.size < frontier.size() {
            return Err(LogError::RolledBack {
                size: head.size,
                stored: frontier.size(),
            });
        }
        let first = frontier.size();
        let mut nodes = Vec::new();
        for leaf in &batch.leaves {
            frontier.append(leaf, |position, hash| nodes.push((position, hash)));
        }
        if frontier.size() != head.size || frontier.root() != head.root {
            return Err(LogError::Forked { size: head.size });
        }
        // No new leaves: the request only told the enclave that all are stored.
        let published = self.logs().get(&batch.log).and_then(|log| log.published);
        if let Some(published) = published
            && published.size == head.size
            && head.time < published.time.saturating_add(HEAD_AGE)
        {
            return Ok(published);
        }
        let appended = Appended {
            first,
            published,
            nodes: &nodes,
        };
        self.close_on_failure(self.write(batch, &head, &appended))?;
        let tree = Some(Arc::new(frontier));
        let state = LogState {
            head,
            tree,
            published,
        };
        self.logs().insert(batch.log, state);
        Ok(head)
    }

    /// Publishes the newest head of every log.
    pub fn publish(&self) {
        for known in self.logs().values_mut() {
            known.published = Some(known.head);
        }
    }

    /// Writes leaves and nodes, and the head in place of one that was never published.
    fn write(
        &self,
        batch: &Batch,
        head: &TreeHead,
        &Appended {
            first,
            published,
            nodes,
        }: &Appended<'_>,
    ) -> Result<(), LogError> {
        let log = &batch.log;
        let database = self.database()?;
        let transaction = begin_write(&database)?;
        {
            let mut leaves = transaction.open_table(LEAVES)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            for (number, leaf) in (first..).zip(&batch.leaves) {
                leaves.insert((log, number), leaf)?;
                // A receipt that is in the log twice keeps its first index.
                if numbers.get((log, leaf))?.is_none() {
                    numbers.insert((log, leaf), number)?;
                }
            }
            let mut table = transaction.open_table(NODES)?;
            for (Position { level, index }, hash) in nodes {
                // Level 0 is computed from the leaves.
                if *level > 0 {
                    table.insert((log, *level, *index), hash)?;
                }
            }
            let mut heads = transaction.open_table(HEADS)?;
            if published.is_none_or(|published| published.size < first) {
                heads.remove((log, first))?;
            }
            heads.insert((log, head.size), batch.head.head.as_slice())?;
            let mut evidence = transaction.open_table(EVIDENCE)?;
            let SignedHead {
                document, manifest, ..
            } = &batch.head;
            evidence.insert(&head.document, (document.as_slice(), manifest.as_slice()))?;
        }
        // Returns after the data has reached the disk.
        transaction.commit()?;
        Ok(())
    }

    /// Returns the open file; reopens it and verifies its newest head where it had failed.
    pub(super) fn database(&self) -> Result<Arc<Database>, LogError> {
        let mut slot = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = &*slot {
            return Ok(Arc::clone(database));
        }
        let (database, mut logs) = open(&self.path)?;
        tracing::info!("the log file is open again");
        let mut before = self.logs();
        for (name, known) in &mut logs {
            known.published = before.get(name).and_then(|known| known.published);
        }
        // Only the state on disk counts, whatever the failed write left there.
        *before = logs;
        drop(before);
        Ok(Arc::clone(slot.insert(Arc::new(database))))
    }

    /// Returns `outcome`; closes the file where it could not be read or written.
    pub(super) fn close_on_failure<T>(&self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(LogError::Unavailable(_)) = &outcome {
            *self.database.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        outcome
    }

    pub(super) fn logs(&self) -> MutexGuard<'_, HashMap<Hash, LogState>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a log's tree, after verifying it at its first use since the start.
    pub(super) fn tree(&self, log: &Hash) -> Result<Option<Arc<Frontier>>, LogError> {
        match self.logs().get(log) {
            None => return Ok(None),
            Some(LogState {
                tree: Some(tree), ..
            }) => return Ok(Some(Arc::clone(tree))),
            Some(_) => {}
        }
        let tree = Arc::new(load::load_tree(&self.database()?.begin_read()?, log)?);
        if let Some(known) = self.logs().get_mut(log)
            && known.tree.is_none()
        {
            known.tree = Some(Arc::clone(&tree));
        }
        Ok(Some(tree))
    }
}

/// Makes a new name durable: otherwise the folder may not list the file after a power failure.
pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = match path.parent() {
        None => Path::new("/"),
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
    };
    std::fs::File::open(folder)?.sync_all()
}

fn open(path: &Path) -> Result<(Database, HashMap<Hash, LogState>), LogError> {
    catch_panics(|| {
        let database = builder().open(path)?;
        let logs = load::load_logs(&database.begin_read()?)?;
        Ok((database, logs))
    })
}

/// Turns a panic of the library, over pages that it did not write, into an error.
pub(crate) fn catch_panics<T>(read: impl FnOnce() -> Result<T, LogError>) -> Result<T, LogError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(LogError::Corrupt("its pages cannot be read".to_owned())))
}
