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
//! drops the index from memory, so that the next request opens what the store has.

pub mod store;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use getrandom::SysRng;
use rand_core::TryRng;
use sealed_index::{
    Change, ChangeError, Head, HistoryError, Index, IndexError, IndexId, IndexKey, ObjectName,
    Opening, Scope, Settings, Writes,
};
use tokio::sync::Mutex as AsyncMutex;

use store::{BlobStore, Created, StoreError};

/// Attempts at a change, each on the newest state of the store.
const ATTEMPTS: usize = 3;
/// States that are kept: the newest and the one before, which another enclave may be reading.
const STATES_KEPT: usize = 2;

/// Upper bound on an entry in the table of opened indexes, in bytes.
const SLOT_BYTES: usize = 1024;

/// The opened indexes, in bounded memory.
pub struct Indexes {
    store: Option<Arc<dyn BlobStore>>,
    opened: Mutex<Opened>,
    /// Held while an index is opened: together, the opened ones and this one take at most twice the memory.
    opening: AsyncMutex<()>,
    max_bytes: usize,
    threads: NonZeroUsize,
}

/// The least recently used index is dropped first.
#[derive(Default)]
struct Opened {
    slots: HashMap<IndexId, Slot>,
    uses: u64,
}

struct Slot {
    shared: Arc<SharedIndex>,
    last_use: u64,
    bytes: usize,
}

/// An index that requests share.
struct SharedIndex {
    newest: ArcSwapOption<Index>,
    /// Held to open the index and to change it.
    writer: AsyncMutex<()>,
}

/// A change that is stored.
pub struct Changed {
    /// The index after the change.
    pub index: Index,
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
    /// Other writers were first each time.
    #[error("other clients change the index at the same time")]
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
            opened: Mutex::default(),
            opening: AsyncMutex::new(()),
            max_bytes,
            threads,
        }
    }

    /// Threads of a search.
    pub fn threads(&self) -> NonZeroUsize {
        self.threads
    }

    fn store(&self) -> Result<Arc<dyn BlobStore>, StoreError> {
        self.store.clone().ok_or(StoreError::Off)
    }

    /// Creates an empty index.
    ///
    /// # Errors
    /// [`IndexesError`].
    pub async fn create(&self, key: &IndexKey, settings: Settings) -> Result<Index, IndexesError> {
        let (store, random, key) = (self.store()?, random()?, copy_key(key)?);
        let id = key.id();
        let created = blocking(move || {
            if States::read(&*store, &id)?.newest().is_some() {
                return Err(IndexesError::Exists);
            }
            let (index, writes) = Index::create(key, settings, &random)?;
            match commit(&*store, &id, &writes)? {
                Commit::Done => Ok(index),
                Commit::Conflict => Err(IndexesError::Exists),
            }
        });
        let index = created.await?;
        let shared = self.share(&id);
        let _writer = shared.writer.lock().await;
        self.publish(&id, &shared, &index);
        Ok(index)
    }

    /// The newest index, opened if it is not in memory, or if the client has seen a newer one.
    ///
    /// # Errors
    /// [`IndexesError`].
    pub async fn open(&self, key: &IndexKey, at: Option<&Head>) -> Result<Index, IndexesError> {
        self.store()?;
        let shared = self.share(&key.id());
        if let Some(index) = shared.newest.load_full()
            && !is_older(&index, at)
        {
            self.check(&index, at).await?;
            return Ok((*index).clone());
        }
        let _writer = shared.writer.lock().await;
        self.open_newest(key, &shared, at, false).await
    }

    /// Opens the newest index under the writer's lock. `again` also reads the store where an index is in memory.
    async fn open_newest(
        &self,
        key: &IndexKey,
        shared: &Arc<SharedIndex>,
        at: Option<&Head>,
        again: bool,
    ) -> Result<Index, IndexesError> {
        let id = key.id();
        if let Some(index) = shared.newest.load_full()
            && !again
            && !is_older(&index, at)
        {
            self.check(&index, at).await?;
            return Ok((*index).clone());
        }
        let (store, key, max) = (self.store()?, copy_key(key)?, self.max_bytes);
        let opening = self.opening.lock().await;
        let opened = blocking(move || read_newest(&*store, &key, max)).await;
        drop(opening);
        let index = match opened {
            Ok(index) => index,
            Err(error) => {
                self.drop_index(&id);
                return Err(error);
            }
        };
        self.publish(&id, shared, &index);
        self.check(&index, at).await?;
        Ok(index)
    }

    /// Checks that an index continues the history that a client has seen.
    async fn check(&self, index: &Index, at: Option<&Head>) -> Result<(), IndexesError> {
        let Some(seen) = at.copied() else {
            return Ok(());
        };
        let Some(name) = index.check(&seen)? else {
            return Ok(());
        };
        // So many versions have passed that this part of the history is not in memory.
        let (store, index) = (self.store()?, index.clone());
        blocking(move || {
            let object = store.get(&object_name(&index.id(), &name))?;
            let object = object.ok_or(IndexesError::Incomplete)?;
            Ok(index.check_older(&seen, name, object)??)
        })
        .await
    }

    /// Applies changes to the newest index, and returns once they are durable.
    ///
    /// # Errors
    /// [`IndexesError`]. Nothing was changed, except after [`IndexesError::Store`]: the change may then be stored.
    pub async fn change(
        &self,
        key: &IndexKey,
        at: Option<&Head>,
        changes: Vec<Change>,
    ) -> Result<Changed, IndexesError> {
        self.write(
            key,
            at,
            Arc::new(move |index: &Index| {
                let staged = index.stage(&changes, &random()?)?;
                let changed = Changed {
                    index: staged.index,
                    put: staged.put,
                    deleted: staged.deleted,
                };
                Ok((changed, staged.writes))
            }),
        )
        .await
    }

    /// Writes the segments again that have replaced or deleted rows, so that nothing is left of these.
    ///
    /// # Errors
    /// Those of [`change`](Self::change).
    pub async fn compact(&self, key: &IndexKey, at: Option<&Head>) -> Result<Index, IndexesError> {
        let changed = self.write(
            key,
            at,
            Arc::new(|index: &Index| compact(index, Scope::Forget)),
        );
        Ok(changed.await?.index)
    }

    /// Stores what `stage` makes of the newest index, if it has writes.
    async fn write(
        &self,
        key: &IndexKey,
        at: Option<&Head>,
        stage: Arc<Stage>,
    ) -> Result<Changed, IndexesError> {
        self.store()?;
        let id = key.id();
        let shared = self.share(&id);
        let _writer = shared.writer.lock().await;
        for attempt in 0..ATTEMPTS {
            let index = self.open_newest(key, &shared, at, attempt > 0).await?;
            let (store, max, stage) = (self.store()?, self.max_bytes, Arc::clone(&stage));
            let written = blocking(move || {
                let (mut changed, writes) = stage(&index)?;
                check_size(changed.index.memory(), max)?;
                if let Some(writes) = writes {
                    if let Commit::Conflict = commit(&*store, &id, &writes)? {
                        return Ok(None);
                    }
                    tidy(&*store, &mut changed);
                }
                Ok(Some(changed))
            });
            match written.await {
                Ok(Some(changed)) => {
                    self.publish(&id, &shared, &changed.index);
                    return Ok(changed);
                }
                Ok(None) => {}
                Err(error) => {
                    // The store may have the change or not: the next request reads it.
                    if let IndexesError::Store(_) | IndexesError::Internal = error {
                        self.drop_index(&id);
                    }
                    return Err(error);
                }
            }
        }
        self.drop_index(&id);
        Err(IndexesError::Busy)
    }

    /// Deletes all objects of an index; returns their number. The key alone decides, so that an index that does not open any more can be
    /// deleted.
    ///
    /// # Errors
    /// [`StoreError`], and [`IndexesError::Unknown`] if there is nothing.
    pub async fn delete(&self, key: &IndexKey) -> Result<usize, IndexesError> {
        let (store, id) = (self.store()?, key.id());
        let shared = self.share(&id);
        let _writer = shared.writer.lock().await;
        self.drop_index(&id);
        let deleted = blocking(move || {
            let objects = store.list(&id.to_string())?;
            // States first, the newest of them last: until then the index is whole, and then it is gone.
            let mut names: Vec<_> = objects.into_iter().map(|(name, _)| name).collect();
            names.sort_by_key(|name| (!name.starts_with("states/"), name.clone()));
            for name in &names {
                store.delete(&format!("{id}/{name}"))?;
            }
            Ok(names.len())
        });
        match deleted.await? {
            0 => Err(IndexesError::Unknown),
            deleted => Ok(deleted),
        }
    }

    /// The index of this id, which may not be opened yet.
    fn share(&self, id: &IndexId) -> Arc<SharedIndex> {
        let mut opened = self.opened();
        opened.uses += 1;
        let last_use = opened.uses;
        let slot = opened.slots.entry(*id).or_insert_with(|| Slot {
            shared: Arc::new(SharedIndex {
                newest: ArcSwapOption::empty(),
                writer: AsyncMutex::new(()),
            }),
            last_use,
            bytes: 0,
        });
        slot.last_use = last_use;
        Arc::clone(&slot.shared)
    }

    /// Gives an index to readers, and drops others until all fit into memory.
    fn publish(&self, id: &IndexId, shared: &Arc<SharedIndex>, index: &Index) {
        let mut opened = self.opened();
        shared.newest.store(Some(Arc::new(index.clone())));
        opened.uses += 1;
        let last_use = opened.uses;
        // The slot may have been dropped while its index was opened.
        let slot = Slot {
            shared: Arc::clone(shared),
            last_use,
            bytes: index.memory() + SLOT_BYTES,
        };
        opened.slots.insert(*id, slot);
        opened.shrink_to(self.max_bytes);
    }

    fn drop_index(&self, id: &IndexId) {
        if let Some(slot) = self.opened().slots.remove(id) {
            slot.shared.newest.store(None);
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    fn shrink_to(&mut self, max_bytes: usize) {
        loop {
            let all: usize = self.slots.values().map(|slot| slot.bytes).sum();
            let oldest = self.slots.iter().filter(|(_, slot)| slot.bytes > 0);
            let oldest = oldest
                .min_by_key(|(_, slot)| slot.last_use)
                .map(|(id, _)| *id);
            match oldest {
                Some(id) if all > max_bytes => {
                    if let Some(slot) = self.slots.remove(&id) {
                        slot.shared.newest.store(None);
                    }
                }
                _ => return,
            }
        }
    }
}

/// Makes the next index of an index, and what to store before it exists.
type Stage = dyn Fn(&Index) -> Result<(Changed, Option<Writes>), IndexesError> + Send + Sync;

fn compact(index: &Index, scope: Scope) -> Result<(Changed, Option<Writes>), IndexesError> {
    let compacted = index.compact(scope, &random()?)?;
    let (index, writes) = match compacted {
        Some((index, writes)) => (index, Some(writes)),
        None => (index.clone(), None),
    };
    let changed = Changed {
        index,
        put: 0,
        deleted: 0,
    };
    Ok((changed, writes))
}

/// Merges small segments after a change. The change is stored already, so a failure is only reported to the operator.
fn tidy(store: &dyn BlobStore, changed: &mut Changed) {
    let tidied = compact(&changed.index, Scope::Small).and_then(|(tidied, writes)| match writes {
        None => Ok(None),
        Some(writes) => match commit(store, &tidied.index.id(), &writes)? {
            Commit::Done => Ok(Some(tidied.index)),
            Commit::Conflict => Ok(None),
        },
    });
    match tidied {
        Ok(Some(index)) => changed.index = index,
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the segments of an index were not merged"),
    }
}

/// Whether the client has seen a newer version.
fn is_older(index: &Index, at: Option<&Head>) -> bool {
    at.is_some_and(|at| at.version > index.head().version)
}

/// The crate's keys cannot be cloned by accident.
fn copy_key(key: &IndexKey) -> Result<IndexKey, IndexError> {
    IndexKey::from_base64url(&key.to_base64url())
}

fn check_size(bytes: usize, max: usize) -> Result<(), IndexesError> {
    match bytes <= max {
        true => Ok(()),
        false => Err(IndexesError::TooLarge { bytes, max }),
    }
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
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| IndexesError::Internal)?
}

/// The versions of an index that the store lists, rising.
struct States(Vec<u64>);

impl States {
    fn read(store: &dyn BlobStore, id: &IndexId) -> Result<Self, StoreError> {
        let mut versions = Vec::new();
        for (name, _) in store.list(&id.to_string())? {
            if let Some(version) = name.strip_prefix("states/") {
                versions.push(version.parse().map_err(|_| StoreError::Invalid)?);
            }
        }
        versions.sort_unstable();
        Ok(Self(versions))
    }

    fn newest(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

fn state_name(id: &IndexId, version: u64) -> String {
    format!("{id}/states/{version:020}")
}

fn object_name(id: &IndexId, name: &ObjectName) -> String {
    format!("{id}/segments/{name}")
}

/// Reads the newest state and its segments. Another enclave may compact the index meanwhile, so after a missing object a newer state
/// is looked for.
fn read_newest(store: &dyn BlobStore, key: &IndexKey, max: usize) -> Result<Index, IndexesError> {
    let mut tried = None;
    loop {
        let version = States::read(store, &key.id())?.newest();
        let version = version.ok_or(IndexesError::Unknown)?;
        if tried.is_some_and(|tried| tried >= version) {
            return Err(IndexesError::Incomplete);
        }
        tried = Some(version);
        if let Some(index) = read_version(store, key, version, max)? {
            return Ok(index);
        }
    }
}

/// Reads one version; `None` if an object is missing.
fn read_version(
    store: &dyn BlobStore,
    key: &IndexKey,
    version: u64,
    max: usize,
) -> Result<Option<Index>, IndexesError> {
    let id = key.id();
    let Some(state) = store.get(&state_name(&id, version))? else {
        return Ok(None);
    };
    let opening = Opening::new(copy_key(key)?, version, state)?;
    let bytes = opening.segments().map(|segment| segment.size).sum::<u64>();
    check_size(usize::try_from(bytes).unwrap_or(usize::MAX), max)?;
    let mut opened = Vec::new();
    for segment in opening.segments() {
        let Some(object) = store.get(&object_name(&id, &segment.name))? else {
            return Ok(None);
        };
        opened.push(opening.open_segment(segment.number, object)?);
    }
    let index = opening.finish(opened)?;
    check_size(index.memory(), max)?;
    Ok(Some(index))
}

enum Commit {
    Done,
    /// Another writer was first.
    Conflict,
}

/// Stores segments, then the state that names them. Deletes what is obsolete once the state is durable.
fn commit(store: &dyn BlobStore, id: &IndexId, writes: &Writes) -> Result<Commit, IndexesError> {
    for (name, bytes) in &writes.objects {
        // Names are random: an object that exists is the one of an attempt whose answer was lost.
        store.create(&object_name(id, name), bytes)?;
    }
    let (version, state) = &writes.state;
    let name = state_name(id, *version);
    let is_ours = match store.create(&name, state)? {
        Created::New => true,
        Created::Exists => store.get(&name)?.is_some_and(|found| found == *state),
    };
    if !is_ours {
        // No state names these objects.
        for (name, _) in &writes.objects {
            store.delete(&object_name(id, name))?;
        }
        return Ok(Commit::Conflict);
    }
    // A writer that has read a state which was deleted since finds its successor's name free, although there are newer states. Nothing is
    // deleted then, because a newer state may continue this one.
    let States(versions) = States::read(store, id)?;
    if versions.last() != Some(version) {
        return Ok(Commit::Conflict);
    }
    let kept = versions.len().saturating_sub(STATES_KEPT);
    let old = versions.iter().take(kept);
    let old = old.map(|version| state_name(id, *version));
    let obsolete = writes.obsolete.iter().map(|name| object_name(id, name));
    for name in old.chain(obsolete) {
        // The change is stored. An object that stays is deleted with the index.
        if let Err(error) = store.delete(&name) {
            tracing::warn!(%error, "an obsolete object of an index was not deleted");
        }
    }
    Ok(Commit::Done)
}
