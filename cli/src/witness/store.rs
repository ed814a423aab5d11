//! The last cosigned tree of each log, in one file.

use std::path::Path;

use ::witness::checkpoint::Checkpoint;
use ::witness::request::{AddCheckpoint, Refusal};
use merkle::verify::Tree;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::WitnessError;

/// `id` → the identifier that the key file names.
const IDENTITY: TableDefinition<'_, &str, &[u8; 32]> = TableDefinition::new("identity");
/// Origin of a log → size and root of the last tree that was cosigned, and its checkpoint.
const TREES: TableDefinition<'_, &str, (u64, &[u8; 32], &str)> = TableDefinition::new("trees");
/// Origin of a log → two checkpoints of one size with different roots, which the log signed.
const FORKS: TableDefinition<'_, &str, (&str, &str)> = TableDefinition::new("forks");

/// Origin of a log → time of the last cosignature, in Unix seconds.
const TIMES: TableDefinition<'_, &str, u64> = TableDefinition::new("times");

/// Bytes of the file that are cached in memory.
const CACHE: usize = 16 << 20;

/// Why a checkpoint is not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A larger tree must not have an earlier time.
    #[error("the clock shows {now}, and the last cosignature is of {last}")]
    Clock {
        /// Unix seconds.
        now: u64,
        /// Unix seconds.
        last: u64,
    },
    #[error("{0}")]
    Unavailable(#[from] redb::Error),
}

macro_rules! convert_through_redb_error {
    ($($kind:ident),*) => { $(
        impl From<redb::$kind> for StoreError {
            fn from(error: redb::$kind) -> Self {
                redb::Error::from(error).into()
            }
        }
    )* };
}
convert_through_redb_error!(
    DatabaseError,
    StorageError,
    TableError,
    TransactionError,
    CommitError
);

impl From<StoreError> for WitnessError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// An open database.
pub(super) struct Store(Database);

impl Store {
    /// Creates the database of a new key.
    pub(super) fn create(path: &Path, id: &[u8; 32]) -> Result<(), WitnessError> {
        let create = || {
            let database = Database::builder().set_cache_size(CACHE).create(path)?;
            let write = database.begin_write()?;
            write.open_table(IDENTITY)?.insert("id", id)?;
            write.open_table(TREES)?;
            write.open_table(FORKS)?;
            write.commit()?;
            Ok::<_, StoreError>(())
        };
        Ok(create()?)
    }

    /// Opens the database of the key whose file names `id`.
    ///
    /// # Errors
    /// [`WitnessError::Lost`] where it is missing, empty, or another one.
    pub(super) fn open(path: &Path, id: &[u8; 32]) -> Result<Self, WitnessError> {
        let lost = || WitnessError::Lost(path.display().to_string());
        // An empty file is one whose contents were lost.
        if std::fs::metadata(path).is_ok_and(|found| found.len() > 0) {
            let open = || {
                let mut builder = Database::builder();
                // A changed file is reported; otherwise the library may panic on it.
                let builder = builder.set_cache_size(CACHE);
                let database = builder.set_check_integrity_on_open(true).open(path)?;
                let read = database.begin_read()?;
                let found = read
                    .open_table(IDENTITY)?
                    .get("id")?
                    .map(|found| *found.value());
                drop(read);
                Ok::<_, StoreError>((found == Some(*id)).then_some(Self(database)))
            };
            return open()?.ok_or_else(lost);
        }
        Err(lost())
    }

    /// Decides on a request, and stores its tree where the witness may cosign it, with the time of the cosignature, which it returns.
    /// When this returns, both are on disk. One request at a time: a second one waits for the first, and reads the clock after it.
    pub(super) fn advance(
        &self,
        request: &AddCheckpoint,
        checkpoint: &Checkpoint,
        clock: impl FnOnce() -> u64,
    ) -> Result<u64, StoreError> {
        let origin = checkpoint.origin.as_str();
        let note = request.note.to_string();
        let mut write = self.0.begin_write()?;
        // Otherwise the library reads the whole file after a crash.
        write.set_quick_repair(true);
        let (outcome, is_changed) = {
            let mut trees = write.open_table(TREES)?;
            let stored = trees.get(origin)?.map(|stored| {
                let (size, root, note) = stored.value();
                (Tree { size, root: *root }, note.to_owned())
            });
            match request.decide(checkpoint, stored.as_ref().map(|(tree, _)| tree)) {
                Ok(()) => {
                    let mut times = write.open_table(TIMES)?;
                    let last = times.get(origin)?.map_or(0, |time| time.value());
                    let now = clock();
                    if now == 0 || now < last {
                        (Err(StoreError::Clock { now, last }), false)
                    } else {
                        let tree = &checkpoint.tree;
                        trees.insert(origin, (tree.size, &tree.root, note.as_str()))?;
                        times.insert(origin, now)?;
                        (Ok(now), true)
                    }
                }
                Err(refusal) => {
                    let mut is_new = false;
                    // Also in a request that is refused for its `old`: the log has signed the checkpoint.
                    if let Some((tree, first)) = &stored
                        && checkpoint.forks(tree)
                    {
                        let mut forks = write.open_table(FORKS)?;
                        is_new = forks.get(origin)?.is_none();
                        if is_new {
                            forks.insert(origin, (first.as_str(), note.as_str()))?;
                        }
                    }
                    (Err(refusal.into()), is_new)
                }
            }
        };
        // A refusal must not cost a write to the disk.
        match is_changed {
            true => write.commit()?,
            false => write.abort()?,
        }
        outcome
    }

    /// The last tree that was cosigned of the log with this origin.
    pub(super) fn tree(&self, origin: &str) -> Result<Option<Tree>, StoreError> {
        let trees = self.0.begin_read()?.open_table(TREES)?;
        let stored = trees.get(origin)?;
        Ok(stored.map(|stored| {
            let (size, root, _) = stored.value();
            Tree { size, root: *root }
        }))
    }

    /// The kept proofs of two histories: origin, and two checkpoints of one size.
    pub(super) fn list_forks(&self) -> Result<Vec<[String; 3]>, StoreError> {
        let read = self.0.begin_read()?;
        let mut found = Vec::new();
        for fork in read.open_table(FORKS)?.iter()? {
            let (origin, notes) = fork?;
            let (first, second) = notes.value();
            found.push([origin.value(), first, second].map(str::to_owned));
        }
        Ok(found)
    }
}

#[cfg(test)]
#[path = "../../tests/common/small_log.rs"]
mod small_log;
#[cfg(test)]
#[path = "tests.rs"]
mod tests;
