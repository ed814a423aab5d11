//! Versions of an index in the store: reads them, and commits new ones.

use std::sync::Arc;
use std::time::Instant;

use sealed_index::{Head, Index, IndexId, IndexKey, ObjectName, Opening, Writes};

use super::opened::{OpenIndex, Table};
use super::store::{BlobStore, Created, StoreError};
use super::{IndexesError, copy_key};

/// States that are kept: the newest and the one before, which another enclave may be reading.
const STATES_KEPT: usize = 2;

/// The versions of an index that the store lists, rising.
pub(super) struct States(Vec<u64>);

impl States {
    pub(super) fn read(store: &dyn BlobStore, id: &IndexId) -> Result<Self, StoreError> {
        let mut versions = Vec::new();
        for (name, _) in store.list(&id.to_string())? {
            if let Some(version) = name.strip_prefix("states/") {
                versions.push(version.parse().map_err(|_| StoreError::Invalid)?);
            }
        }
        versions.sort_unstable();
        Ok(Self(versions))
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

fn state_name(id: &IndexId, version: u64) -> String {
    format!("{id}/states/{version:020}")
}

pub(super) fn object_name(id: &IndexId, name: &ObjectName) -> String {
    format!("{id}/segments/{name}")
}

/// Reads the newest state and its segments. Another enclave may compact the index meanwhile, so after a missing object a newer state
/// is looked for.
pub(super) fn read_newest(
    store: &dyn BlobStore,
    key: &IndexKey,
    table: &Arc<Table>,
    until: Instant,
) -> Result<OpenIndex, IndexesError> {
    let mut tried = None;
    loop {
        let version = States::read(store, &key.id())?.newest();
        let version = version.ok_or(IndexesError::Unknown)?;
        if tried.is_some_and(|tried| tried >= version) {
            return Err(IndexesError::Incomplete);
        }
        tried = Some(version);
        if let Some(index) = read_version(store, key, version, table, until)? {
            return Ok(index);
        }
    }
}

/// Reads one version; `None` if an object is missing.
fn read_version(
    store: &dyn BlobStore,
    key: &IndexKey,
    version: u64,
    table: &Arc<Table>,
    until: Instant,
) -> Result<Option<OpenIndex>, IndexesError> {
    let id = key.id();
    let Some(state) = store.get(&state_name(&id, version))? else {
        return Ok(None);
    };
    let opening = Opening::new(copy_key(key)?, version, state)?;
    let bytes = opening.segments().map(|segment| segment.size).sum::<u64>();
    let lease = table.lease(usize::try_from(bytes).unwrap_or(usize::MAX), until)?;
    let mut opened = Vec::new();
    for segment in opening.segments() {
        let Some(object) = store.get(&object_name(&id, &segment.name))? else {
            return Ok(None);
        };
        opened.push(opening.open_segment(segment.number, object)?);
    }
    let index = opening.finish(opened)?;
    Ok(Some(lease.hold(index, until)?))
}

/// Whether the history of a stored version has this head; `None` if an object is missing.
fn continues(
    store: &dyn BlobStore,
    key: &IndexKey,
    version: u64,
    head: &Head,
) -> Result<Option<bool>, IndexesError> {
    let id = key.id();
    let Some(state) = store.get(&state_name(&id, version))? else {
        return Ok(None);
    };
    let opening = Opening::new(copy_key(key)?, version, state)?;
    let checked = match opening.check(head) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => {
            let Some(object) = store.get(&object_name(&id, &name))? else {
                return Ok(None);
            };
            opening.check_older(head, name, object)?
        }
        Err(error) => Err(error),
    };
    Ok(Some(checked.is_ok()))
}

/// The outcome of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// The version is in the index's history.
    Done,
    /// It is not: another writer was first, or the index that it continues was deleted.
    Conflict,
}

/// Stores segments, then the state of `index` that names them. Deletes what is obsolete once the state is durable.
pub(super) fn commit(
    store: &dyn BlobStore,
    key: &IndexKey,
    index: &Index,
    writes: &Writes,
) -> Result<Commit, IndexesError> {
    let id = index.id();
    for (name, bytes) in &writes.objects {
        // Names are random: an object that exists is the one of an attempt whose answer was lost.
        store.create(&object_name(&id, name), bytes)?;
    }
    let (version, state) = &writes.state;
    let name = state_name(&id, *version);
    if store.create(&name, state)? == Created::Exists
        && let Some(found) = store.get(&name)?
        && found != *state
    {
        delete_objects(store, &id, writes)?;
        return Ok(Commit::Conflict);
    }
    // If the answer to an earlier attempt was lost, the state may be gone again: later versions have replaced it, or the index was
    // deleted. A writer that has read a state which was deleted since finds its successor's name free, although there are newer states.
    // So the newest state decides.
    let mut tried = None;
    let versions = loop {
        let States(versions) = States::read(store, &id)?;
        match versions.last() {
            Some(newest) if newest == version => break versions,
            Some(newest) if newest > version && tried < Some(*newest) => {
                tried = Some(*newest);
                match continues(store, key, *newest, &index.head())? {
                    // Nothing is deleted: the newest state may name any of these objects.
                    Some(true) => return Ok(Commit::Done),
                    Some(false) => return Ok(Commit::Conflict),
                    None => {}
                }
            }
            _ => return Ok(Commit::Conflict),
        }
    };
    // Two states are kept. Without the one before, the index was deleted or replaced since it was read, and its segments are gone.
    if let Some(before) = version.checked_sub(1) {
        let head = Head {
            version: before,
            head: index.statement().previous,
        };
        if continues(store, key, before, &head)? != Some(true) {
            store.delete(&name)?;
            delete_objects(store, &id, writes)?;
            return Ok(Commit::Conflict);
        }
    }
    let kept = versions.len().saturating_sub(STATES_KEPT);
    let old = versions.iter().take(kept);
    let old = old.map(|version| state_name(&id, *version));
    let obsolete = writes.obsolete.iter().map(|name| object_name(&id, name));
    for name in old.chain(obsolete) {
        // The change is stored. An object that stays is deleted with the index.
        if let Err(error) = store.delete(&name) {
            tracing::warn!(%error, "an obsolete object of an index was not deleted");
        }
    }
    Ok(Commit::Done)
}

/// Deletes new objects that no state names.
fn delete_objects(store: &dyn BlobStore, id: &IndexId, writes: &Writes) -> Result<(), StoreError> {
    writes
        .objects
        .iter()
        .try_for_each(|(name, _)| store.delete(&object_name(id, name)))
}
