//! The logs in their file.
//!
//! One transaction takes leaves, nodes and head together and is on disk before anybody is told of them. At start the newest
//! head is verified, of every other log when it is first used; [`Store::check`] makes every tree again from its leaves and
//! compares it with its nodes and with every head that was signed.

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
use super::file::{EVIDENCE, HEADS, LEAVES, NODES, NUMBERS, begin, begin_write, builder};
use super::load::{self, Known};
use super::{LogError, thin};

/// Leaves that were pulled, up to a head that covers exactly them.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The log that was asked for.
    pub log: Hash,
    /// Data of leaves, from the first that is not stored.
    pub leaves: Vec<Hash>,
    /// The signed head over everything, and its evidence.
    pub head: SignedHead,
}

/// An open log file. One process at a time has it.
pub struct Store {
    path: PathBuf,
    /// None after a write or read has failed, such as on a full disk: the library takes nothing more then, and the file is
    /// opened again when it is next used.
    database: Mutex<Option<Arc<Database>>>,
    logs: Mutex<HashMap<Hash, Known>>,
}

/// Seconds after which the published head of a log that does not grow is exchanged for a newer one.
const HEAD_AGE: u64 = 30;

impl Store {
    /// Opens `path`, or begins it, and verifies the newest head. Takes no longer for an old log than for a young one.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] where what was read does not agree with itself; [`LogError::InUse`], [`LogError::Unavailable`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let unavailable = |error: std::io::Error| LogError::Unavailable(error.to_string());
        match std::fs::metadata(path) {
            // A file that was begun is never empty: one that is has lost what was in it.
            Ok(found) if found.len() == 0 => {
                return Err(LogError::Corrupt("it is empty".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Begun beside its place, so that a crash in between leaves no half of a file there.
                let fresh = path.with_added_extension("new");
                match std::fs::remove_file(&fresh) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(unavailable(error));
                    }
                    _ => {}
                }
                begin(&fresh)?;
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

    /// Checks a whole file, which nobody else may have open: every page, every leaf, every head that was signed.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(path: &Path) -> Result<Checked, LogError> {
        let found = std::fs::metadata(path);
        let found = found.map_err(|error| LogError::Unavailable(error.to_string()))?;
        if found.len() == 0 {
            return Err(LogError::Corrupt("it is empty".to_owned()));
        }
        sound(|| {
            let database = builder().set_check_integrity_on_open(true).open(path)?;
            rebuild(&database.begin_read()?)
        })
    }

    /// Thins old heads as of `now` (Unix seconds): every head of the last day stays, then one an hour, after 30 days one a
    /// day, and the newest of each log. Returns how many were removed.
    ///
    /// # Errors
    /// Those of the file.
    pub fn thin(&self, now: u64) -> Result<u64, LogError> {
        let logs: Vec<Hash> = self.logs().keys().copied().collect();
        let mut thinned = 0;
        for log in logs {
            let database = self.database()?;
            thinned += self.heed(thin::thin(&database, &log, now))?;
        }
        Ok(thinned)
    }

    /// Number of stored leaves of `log`; 0 where there is no such log.
    pub fn size(&self, log: &Hash) -> u64 {
        self.logs().get(log).map_or(0, |known| known.head.size)
    }

    /// Number of stored leaves of all logs.
    pub fn leaves(&self) -> u64 {
        self.logs().values().map(|known| known.head.size).sum()
    }

    /// Takes a batch: verifies the head, appends the leaves to the stored ones, compares the root, and commits. When this
    /// returns, everything is on disk. A head without new leaves is stored only where the stored one is half a minute older.
    /// Returns the newest head that is stored.
    ///
    /// # Errors
    /// [`LogError`]; nothing has changed then.
    pub fn extend(&self, batch: &Batch) -> Result<TreeHead, LogError> {
        let head = TreeHead::verify(&batch.head.head)?;
        if head.log != batch.log {
            return Err(LogError::OtherLog);
        }
        if receipt_hash(&batch.head.document) != head.document {
            return Err(LogError::Evidence);
        }
        // Opened again first, where it had failed: what is known of the trees is then what is on disk.
        self.database()?;
        let mut frontier = self
            .heed(self.tree(&batch.log))?
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
        // Nothing new: the enclave is only told that everything is stored, or its log was looked at.
        let published = self.logs().get(&batch.log).and_then(|log| log.published);
        if let Some(published) = published
            && published.size == head.size
            && head.time < published.time.saturating_add(HEAD_AGE)
        {
            return Ok(published);
        }
        self.heed(self.write(batch, &head, (first, published), &nodes))?;
        let tree = Some(Arc::new(frontier));
        let known = Known {
            head,
            tree,
            published,
        };
        self.logs().insert(batch.log, known);
        Ok(head)
    }

    /// Shows the newest head of every log to strangers.
    pub fn publish(&self) {
        for known in self.logs().values_mut() {
            known.published = Some(known.head);
        }
    }

    /// Writes the leaves from number `first` on, and the head in place of one that was never published.
    fn write(
        &self,
        batch: &Batch,
        head: &TreeHead,
        (first, published): (u64, Option<TreeHead>),
        nodes: &[(Position, Hash)],
    ) -> Result<(), LogError> {
        let log = &batch.log;
        let database = self.database()?;
        let transaction = begin_write(&database)?;
        {
            let mut leaves = transaction.open_table(LEAVES)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            for (number, leaf) in (first..).zip(&batch.leaves) {
                leaves.insert((log, number), leaf)?;
                // Were a receipt in the log twice, its first place is the one with its own number.
                if numbers.get((log, leaf))?.is_none() {
                    numbers.insert((log, leaf), number)?;
                }
            }
            let mut table = transaction.open_table(NODES)?;
            for (Position { level, index }, hash) in nodes {
                // Level 0 follows from the leaves.
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
        // Durable: it returns after the data has reached the disk.
        transaction.commit()?;
        Ok(())
    }

    /// The open file; opened again, and its newest head verified, where it had failed.
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
        // What the failed write left on disk counts, and nothing else.
        *before = logs;
        drop(before);
        Ok(Arc::clone(slot.insert(Arc::new(database))))
    }

    /// Passes `outcome` on; lets go of a file that could not be read or written.
    pub(super) fn heed<T>(&self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(LogError::Unavailable(_)) = &outcome {
            *self.database.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        outcome
    }

    pub(super) fn logs(&self) -> MutexGuard<'_, HashMap<Hash, Known>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log's tree; one that nobody has used since the start is verified first.
    pub(super) fn tree(&self, log: &Hash) -> Result<Option<Arc<Frontier>>, LogError> {
        match self.logs().get(log) {
            None => return Ok(None),
            Some(Known {
                tree: Some(tree), ..
            }) => return Ok(Some(Arc::clone(tree))),
            Some(_) => {}
        }
        let tree = Arc::new(load::tree(&self.database()?.begin_read()?, log)?);
        if let Some(known) = self.logs().get_mut(log)
            && known.tree.is_none()
        {
            known.tree = Some(Arc::clone(&tree));
        }
        Ok(Some(tree))
    }
}

/// Makes a new name durable: after a power failure the file is otherwise there, and its folder does not list it.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = match path.parent() {
        None => Path::new("/"),
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
    };
    std::fs::File::open(folder)?.sync_all()
}

fn open(path: &Path) -> Result<(Database, HashMap<Hash, Known>), LogError> {
    sound(|| {
        let database = builder().open(path)?;
        let logs = load::logs(&database.begin_read()?)?;
        Ok((database, logs))
    })
}

/// Turns a panic of the library over pages that it did not write into an error.
fn sound<T>(read: impl FnOnce() -> Result<T, LogError>) -> Result<T, LogError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(LogError::Corrupt("its pages cannot be read".to_owned())))
}
