//! Private indexes: opened with their clients' keys, searched in memory, stored as ciphertext by the host
//! ([INDEX.md](../../docs/INDEX.md)).
//!
//! ```text
//! open     list the states, read the newest, read the segments that it names; the crate `sealed-index` refuses changed ones
//! change   stage in memory; create the segments; create the next state, which must not exist; look for a newer state
//!          only then publish to readers, and delete what is obsolete
//! ```
//!
//! Readers never wait for a writer: they take the newest published index, which is immutable. A change whose outcome is not certain
//! drops the index from memory, so that the next request opens what the store has. A request that its client gives up is completed
//! under its locks.

mod opened;
pub mod store;
mod versions;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use getrandom::SysRng;
use rand_core::TryRng;
use sealed_index::{
    Change, ChangeError, Head, HistoryError, Index, IndexError, IndexKey, Scope, Settings, Writes,
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::spawn_blocking;

pub use opened::OpenIndex;
use opened::{Place, Table};
use store::{BlobStore, StoreError};
use versions::{Commit, States, commit, object_name, read_newest};

/// Attempts at a change, each on the newest state of the store.
const ATTEMPTS: usize = 3;
/// Rounds of a deletion, each of the objects that the store still lists.
const DELETION_ROUNDS: usize = 8;
/// Longest wait for another request, and for memory.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The opened indexes, in bounded memory. Cheap to clone.
#[derive(Clone)]
pub struct Indexes {
    store: Option<Arc<dyn BlobStore>>,
    table: Arc<Table>,
    /// Held while objects are read: together, the opened indexes and this one take at most twice the memory.
    opening: Arc<AsyncMutex<()>>,
    wait: Duration,
    threads: NonZeroUsize,
}

/// A change that is stored.
pub struct Changed {
    /// The index after the change.
    pub index: Arc<OpenIndex>,
    /// Rows that were put.
    pub put: u64,
    /// Rows that were deleted.
    pub deleted: u64,
}

/// Why a request about an index was refused.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum IndexesError {
    /// See [`StoreError`].
    #[error(transparent)]
    #[coded(transparent)]
    Store(#[from] StoreError),
    /// See [`IndexError`].
    #[error(transparent)]
    #[coded(transparent)]
    Index(#[from] IndexError),
    /// See [`ChangeError`].
    #[error(transparent)]
    #[coded(transparent)]
    Change(#[from] ChangeError),
    /// See [`HistoryError`].
    #[error(transparent)]
    #[coded(transparent)]
    History(#[from] HistoryError),
    /// There is no state.
    #[error("the host stores no index of this key")]
    #[coded(
        "INDEX_UNKNOWN",
        remedy = "Create it with POST /v1/indexes. If it existed, the host has lost or deleted it: restore its folder."
    )]
    Unknown,
    /// There is a state already.
    #[error("the host stores an index of this key already")]
    #[coded(
        "INDEX_EXISTS",
        remedy = "Make another key, or delete the index first."
    )]
    Exists,
    /// A segment that the newest state names is missing.
    #[error("the host has lost a part of the index")]
    #[coded(
        "INDEX_INCOMPLETE",
        remedy = "Restore the host's folder of indexes from a copy that is as new; a client that remembers the head notices an older one."
    )]
    Incomplete,
    /// Other writers were first each time, or a wait took too long.
    #[error("other requests open or change indexes at the same time")]
    #[coded("INDEX_BUSY", remedy = "Try again.")]
    Busy,
    /// The index does not fit into memory.
    #[error("the index takes {bytes} bytes of memory, and this service has {max} for all indexes")]
    #[coded(
        "INDEX_TOO_LARGE",
        remedy = "Split the index, use a smaller precision, or ask the operator to raise --index-memory."
    )]
    TooLarge {
        /// Bytes of this index.
        bytes: usize,
        /// Bytes for all.
        max: usize,
    },
    /// The kernel gave no random bytes.
    #[error("the system gave no random bytes")]
    #[coded("NO_RANDOMNESS", remedy = "Try again, and report it if it stays.")]
    Random,
    /// A task ended early.
    #[error("the request failed inside the service")]
    #[coded("INTERNAL", remedy = "Try again, and report it if it stays.")]
    Internal,
}

impl Indexes {
    /// Indexes in `store`, of which at most `max_bytes` are in memory, searched by `threads`. Without a store every request is refused.
    pub fn new(store: Option<Arc<dyn BlobStore>>, max_bytes: usize, threads: NonZeroUsize) -> Self {
        Self {
            store,
            table: Arc::new(Table::new(max_bytes)),
            opening: Arc::default(),
            wait: MAX_WAIT,
            threads,
        }
    }

    /// Sets the longest wait for another request, and for memory.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Threads of a search.
    pub fn threads(&self) -> NonZeroUsize {
        self.threads
    }

    fn store(&self) -> Result<Arc<dyn BlobStore>, StoreError> {
        self.store.clone().ok_or(StoreError::Off)
    }

    async fn lock(&self, lock: &Arc<AsyncMutex<()>>) -> Result<OwnedMutexGuard<()>, IndexesError> {
        let locked = tokio::time::timeout(self.wait, Arc::clone(lock).lock_owned());
        locked.await.map_err(|_| IndexesError::Busy)
    }

    /// Creates an empty index.
    ///
    /// # Errors
    /// [`IndexesError`].
    pub async fn create(
        &self,
        key: &IndexKey,
        settings: Settings,
    ) -> Result<Arc<OpenIndex>, IndexesError> {
        let (store, random, key) = (self.store()?, random()?, copy_key(key)?);
        let place = self.table.place(key.id());
        let writer = self.lock(&place.writer).await?;
        let table = Arc::clone(&self.table);
        blocking(move || {
            let _writer = writer;
            if States::read(&*store, &key.id())?.newest().is_some() {
                return Err(IndexesError::Exists);
            }
            let (index, writes) = Index::create(copy_key(&key)?, settings, &random)?;
            match commit(&*store, &key, &index, &writes)? {
                Commit::Done => {
                    // An index of this key that was deleted elsewhere may be in memory.
                    place.forget();
                    Ok(place.publish(table.hold(index)))
                }
                Commit::Conflict => Err(IndexesError::Exists),
            }
        })
        .await
    }

    /// The newest index, opened if it is not in memory, or if the client has seen a newer one.
    ///
    /// # Errors
    /// [`IndexesError`].
    pub async fn open(
        &self,
        key: &IndexKey,
        at: Option<&Head>,
    ) -> Result<Arc<OpenIndex>, IndexesError> {
        self.store()?;
        let place = self.table.place(key.id());
        if let Some(index) = place.newest()
            && !is_older(&index, at)
        {
            return self.check(index, at).await;
        }
        let writer = self.lock(&place.writer).await?;
        let (indexes, key, at) = (self.clone(), copy_key(key)?, at.copied());
        complete(async move {
            let _writer = writer;
            indexes
                .open_newest(&key, &Arc::new(place), at.as_ref())
                .await
        })
        .await
    }

    /// Opens the newest index under the writer's lock.
    async fn open_newest(
        &self,
        key: &IndexKey,
        place: &Arc<Place>,
        at: Option<&Head>,
    ) -> Result<Arc<OpenIndex>, IndexesError> {
        if let Some(index) = place.newest() {
            if !is_older(&index, at) {
                return self.check(index, at).await;
            }
            // A client can state any version. The index is read only if the store has a newer one.
            let (store, id) = (self.store()?, key.id());
            let listed = blocking(move || Ok(States::read(&*store, &id)?.newest())).await?;
            match listed {
                Some(listed) if listed > index.head().version => {}
                Some(_) => return self.check(index, at).await,
                None => {
                    place.forget();
                    return Err(IndexesError::Unknown);
                }
            }
        }
        let opening = self.lock(&self.opening).await?;
        let (store, key, table) = (self.store()?, copy_key(key)?, Arc::clone(&self.table));
        let (until, publishing) = (Instant::now() + self.wait, Arc::clone(place));
        let opened = blocking(move || {
            let _opening = opening;
            let index = read_newest(&*store, &key, &table, until)?;
            Ok(publishing.publish(index))
        });
        match opened.await {
            Ok(index) => self.check(index, at).await,
            Err(error) => {
                place.forget();
                Err(error)
            }
        }
    }

    /// Checks that an index continues the history that a client has seen.
    async fn check(
        &self,
        index: Arc<OpenIndex>,
        at: Option<&Head>,
    ) -> Result<Arc<OpenIndex>, IndexesError> {
        let Some(seen) = at.copied() else {
            return Ok(index);
        };
        let Some(name) = index.check(&seen)? else {
            return Ok(index);
        };
        // So many versions have passed that this part of the history is not in memory.
        let opening = self.lock(&self.opening).await?;
        let store = self.store()?;
        blocking(move || {
            let _opening = opening;
            let object = store.get(&object_name(&index.id(), &name))?;
            let object = object.ok_or(IndexesError::Incomplete)?;
            index.check_older(&seen, name, object)??;
            Ok(index)
        })
        .await
    }

    /// Applies changes to the newest index, and returns once they are durable. `room` is kept until they are applied, also where the
    /// request is given up.
    ///
    /// # Errors
    /// [`IndexesError`]. After [`IndexesError::Store`], [`IndexesError::Index`] and [`IndexesError::Internal`] the change may be stored.
    /// After the others, [`IndexesError::Busy`] among them, nothing was changed.
    pub async fn change(
        &self,
        key: &IndexKey,
        at: Option<&Head>,
        changes: Vec<Change>,
        room: impl Send + Sync + 'static,
    ) -> Result<Changed, IndexesError> {
        self.write(
            key,
            at,
            Arc::new(move |index: &Index| {
                let _ = &room;
                let staged = index.stage(&changes, &random()?)?;
                Ok(Next {
                    index: staged.index,
                    writes: staged.writes,
                    put: staged.put,
                    deleted: staged.deleted,
                })
            }),
        )
        .await
    }

    /// Writes the segments again that have replaced or deleted rows, so that nothing is left of these.
    ///
    /// # Errors
    /// Those of [`change`](Self::change).
    pub async fn compact(
        &self,
        key: &IndexKey,
        at: Option<&Head>,
    ) -> Result<Arc<OpenIndex>, IndexesError> {
        let stage = |index: &Index| compact(index, Scope::Forget);
        Ok(self.write(key, at, Arc::new(stage)).await?.index)
    }

    /// Stores what `stage` makes of the newest index, if it has writes.
    async fn write(
        &self,
        key: &IndexKey,
        at: Option<&Head>,
        stage: Arc<Stage>,
    ) -> Result<Changed, IndexesError> {
        self.store()?;
        let place = self.table.place(key.id());
        let writer = self.lock(&place.writer).await?;
        let (indexes, key, at) = (self.clone(), copy_key(key)?, at.copied());
        complete(async move {
            let _writer = writer;
            indexes
                .write_next(&key, &Arc::new(place), at.as_ref(), stage)
                .await
        })
        .await
    }

    /// Stores the next version under the writer's lock.
    async fn write_next(
        &self,
        key: &IndexKey,
        place: &Arc<Place>,
        at: Option<&Head>,
        stage: Arc<Stage>,
    ) -> Result<Changed, IndexesError> {
        for _ in 0..ATTEMPTS {
            let index = self.open_newest(key, place, at).await?;
            let (store, key, table) = (self.store()?, copy_key(key)?, Arc::clone(&self.table));
            let (stage, publishing) = (Arc::clone(&stage), Arc::clone(place));
            let written = blocking(move || {
                let next = stage(&index)?;
                let (put, deleted) = (next.put, next.deleted);
                let Some(writes) = next.writes else {
                    let changed = Changed {
                        index,
                        put,
                        deleted,
                    };
                    return Ok(Some(changed));
                };
                table.check_size(next.index.memory())?;
                let mut next = table.hold(next.index);
                if commit(&*store, &key, &next, &writes)? == Commit::Conflict {
                    return Ok(None);
                }
                drop(writes);
                if let Some(tidied) = tidy(&*store, &key, &next) {
                    next = table.hold(tidied);
                }
                let index = publishing.publish(next);
                let changed = Changed {
                    index,
                    put,
                    deleted,
                };
                Ok(Some(changed))
            });
            match written.await {
                Ok(Some(changed)) => return Ok(changed),
                Ok(None) => place.forget(),
                Err(error) => {
                    // The store may have the change or not: the next request reads it.
                    if !matches!(
                        error,
                        IndexesError::Change(_) | IndexesError::TooLarge { .. }
                    ) {
                        place.forget();
                    }
                    return Err(error);
                }
            }
        }
        Err(IndexesError::Busy)
    }

    /// Deletes all objects of an index; returns their number. The key alone decides, so that an index that does not open any more can be
    /// deleted.
    ///
    /// # Errors
    /// [`StoreError`], [`IndexesError::Unknown`] if there is nothing, and [`IndexesError::Busy`] if others add objects meanwhile.
    pub async fn delete(&self, key: &IndexKey) -> Result<usize, IndexesError> {
        let (store, id) = (self.store()?, key.id());
        let place = self.table.place(id);
        let writer = self.lock(&place.writer).await?;
        blocking(move || {
            let _writer = writer;
            place.forget();
            let mut deleted = 0;
            // Another enclave may have begun a change before.
            for _ in 0..DELETION_ROUNDS {
                let objects = store.list(&id.to_string())?;
                if objects.is_empty() {
                    return match deleted {
                        0 => Err(IndexesError::Unknown),
                        deleted => Ok(deleted),
                    };
                }
                // States first, the newest of them last: until then the index is whole, and then it is gone.
                let mut names: Vec<_> = objects.into_iter().map(|(name, _)| name).collect();
                names.sort_by_key(|name| (!name.starts_with("states/"), name.clone()));
                for name in &names {
                    store.delete(&format!("{id}/{name}"))?;
                }
                deleted += names.len();
            }
            Err(IndexesError::Busy)
        })
        .await
    }
}

/// The next version of an index, before it is stored.
struct Next {
    index: Index,
    writes: Option<Writes>,
    put: u64,
    deleted: u64,
}

/// Makes the next version of an index.
type Stage = dyn Fn(&Index) -> Result<Next, IndexesError> + Send + Sync;

fn compact(index: &Index, scope: Scope) -> Result<Next, IndexesError> {
    let (index, writes) = match index.compact(scope, &random()?)? {
        Some((index, writes)) => (index, Some(writes)),
        None => (index.clone(), None),
    };
    Ok(Next {
        index,
        writes,
        put: 0,
        deleted: 0,
    })
}

/// Merges small segments after a change. The change is stored already, so a failure is only reported to the operator.
fn tidy(store: &dyn BlobStore, key: &IndexKey, index: &Index) -> Option<Index> {
    let tidied = compact(index, Scope::Small).and_then(|next| match next.writes {
        None => Ok(None),
        Some(writes) => match commit(store, key, &next.index, &writes)? {
            Commit::Done => Ok(Some(next.index)),
            Commit::Conflict => Ok(None),
        },
    });
    tidied.unwrap_or_else(|error| {
        tracing::warn!(%error, "the segments of an index were not merged");
        None
    })
}

/// Whether the client has seen a newer version.
fn is_older(index: &Index, at: Option<&Head>) -> bool {
    at.is_some_and(|at| at.version > index.head().version)
}

/// The crate's keys cannot be cloned by accident.
fn copy_key(key: &IndexKey) -> Result<IndexKey, IndexError> {
    IndexKey::from_base64url(&key.to_base64url())
}

fn random() -> Result<[u8; 32], IndexesError> {
    let mut random = [0; 32];
    SysRng
        .try_fill_bytes(&mut random)
        .map_err(|_| IndexesError::Random)?;
    Ok(random)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexesError> + Send + 'static,
) -> Result<T, IndexesError> {
    let done = spawn_blocking(work).await;
    done.map_err(|_| IndexesError::Internal)?
}

/// Runs to the end, also where the request is given up: its locks are released only then.
async fn complete<T: Send + 'static>(
    work: impl Future<Output = Result<T, IndexesError>> + Send + 'static,
) -> Result<T, IndexesError> {
    let done = tokio::spawn(work).await;
    done.map_err(|_| IndexesError::Internal)?
}
