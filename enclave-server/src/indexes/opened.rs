//! The opened indexes, in bounded memory.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sealed_index::{Index, IndexId};
use tokio::sync::Mutex as AsyncMutex;

use super::IndexesError;

/// Upper bound on an entry in the table, in bytes.
const SLOT_BYTES: usize = 1024;
/// An index that waits for memory looks this often whether others can be dropped.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A version of an index in memory, counted until the last request drops it.
pub struct OpenIndex {
    index: Index,
    lease: Lease,
}

impl Deref for OpenIndex {
    type Target = Index;

    fn deref(&self) -> &Index {
        &self.index
    }
}

/// The opened indexes. The least recently used one is dropped first.
pub(super) struct Table {
    opened: Mutex<Opened>,
    /// Bytes of all leases: those of indexes in the table, and of others that requests hold.
    leased: Mutex<usize>,
    freed: Condvar,
    max_bytes: usize,
}

#[derive(Default)]
struct Opened {
    slots: HashMap<IndexId, Slot>,
    uses: u64,
}

/// An index that is opened or that requests are about.
struct Slot {
    /// Held to open the index and to change it.
    writer: Arc<AsyncMutex<()>>,
    newest: Option<Arc<OpenIndex>>,
    /// Number of [`Place`]s.
    users: usize,
    last_use: u64,
}

/// An index of the table. All requests about one index have the same lock: its slot stays while there is a place.
pub(super) struct Place {
    table: Arc<Table>,
    id: IndexId,
    pub(super) writer: Arc<AsyncMutex<()>>,
}

/// Memory of an index.
pub(super) struct Lease {
    table: Arc<Table>,
    bytes: usize,
}

impl Table {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            opened: Mutex::default(),
            leased: Mutex::new(0),
            freed: Condvar::new(),
            max_bytes,
        }
    }

    /// The place of the index `id`, which may not be opened yet.
    pub(super) fn place(self: &Arc<Self>, id: IndexId) -> Place {
        let mut opened = self.opened();
        opened.uses += 1;
        let last_use = opened.uses;
        let slot = opened.slots.entry(id).or_insert_with(|| Slot {
            writer: Arc::default(),
            newest: None,
            users: 0,
            last_use,
        });
        slot.last_use = last_use;
        slot.users += 1;
        Place {
            table: Arc::clone(self),
            id,
            writer: Arc::clone(&slot.writer),
        }
    }

    /// Refuses an index that could never be in memory.
    pub(super) fn check_size(&self, bytes: usize) -> Result<(), IndexesError> {
        let max = self.max_bytes;
        match bytes <= max {
            true => Ok(()),
            false => Err(IndexesError::TooLarge { bytes, max }),
        }
    }

    /// Memory for an index that is about to be read: drops others, and waits for requests that still hold dropped ones. Blocks.
    ///
    /// # Errors
    /// [`IndexesError::TooLarge`], and [`IndexesError::Busy`] if there is none by `until`.
    pub(super) fn lease(
        self: &Arc<Self>,
        bytes: usize,
        until: Instant,
    ) -> Result<Lease, IndexesError> {
        let mut lease = Lease {
            table: Arc::clone(self),
            bytes: 0,
        };
        lease.grow(bytes, until)?;
        Ok(lease)
    }

    /// Counts an index that is in memory already: the next version of an opened one, or an empty one.
    pub(super) fn hold(self: &Arc<Self>, index: Index) -> OpenIndex {
        let bytes = index.memory() + SLOT_BYTES;
        *self.leased() += bytes;
        let lease = Lease {
            table: Arc::clone(self),
            bytes,
        };
        OpenIndex { index, lease }
    }

    /// Drops indexes until those in the table and `more` bytes fit.
    fn evict(&self, more: usize) {
        let mut opened = self.opened();
        let cached = |slot: &Slot| slot.newest.as_ref().map_or(0, |index| index.lease.bytes);
        let all: usize = opened.slots.values().map(cached).sum();
        let mut excess = (all + more).saturating_sub(self.max_bytes);
        if excess == 0 {
            return;
        }
        let mut order: Vec<_> = opened
            .slots
            .iter()
            .filter_map(|(id, slot)| {
                let is_held = Arc::strong_count(slot.newest.as_ref()?) > 1;
                Some((is_held, slot.last_use, *id))
            })
            .collect();
        // Dropping an index that a request holds frees nothing yet.
        order.sort_unstable_by_key(|(is_held, last_use, _)| (*is_held, *last_use));
        let mut dropped = Vec::new();
        for (_, _, id) in order {
            let Some(slot) = opened.slots.get_mut(&id) else {
                continue;
            };
            excess = excess.saturating_sub(cached(slot));
            dropped.extend(slot.newest.take());
            if slot.users == 0 {
                opened.slots.remove(&id);
            }
            if excess == 0 {
                break;
            }
        }
        // A large index takes long to be freed.
        drop(opened);
        drop(dropped);
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leased(&self) -> MutexGuard<'_, usize> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(super) fn newest(&self) -> Option<Arc<OpenIndex>> {
        self.table.opened().slots.get(&self.id)?.newest.clone()
    }

    /// Gives an index to readers, unless they have a newer version.
    pub(super) fn publish(&self, index: OpenIndex) -> Arc<OpenIndex> {
        let index = Arc::new(index);
        let mut opened = self.table.opened();
        let slot = opened.slots.get_mut(&self.id);
        let replaced = slot.and_then(|slot| match &slot.newest {
            Some(newest) if newest.head().version > index.head().version => None,
            _ => slot.newest.replace(Arc::clone(&index)),
        });
        drop(opened);
        drop(replaced);
        self.table.evict(0);
        index
    }

    /// Lets the next request read what the store has.
    pub(super) fn forget(&self) {
        let mut opened = self.table.opened();
        let slot = opened.slots.get_mut(&self.id);
        let forgotten = slot.and_then(|slot| slot.newest.take());
        drop(opened);
        drop(forgotten);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut opened = self.table.opened();
        if let Some(slot) = opened.slots.get_mut(&self.id) {
            slot.users -= 1;
            if slot.users == 0 && slot.newest.is_none() {
                opened.slots.remove(&self.id);
            }
        }
    }
}

impl Lease {
    /// The index that was read under this lease, which may be larger than its objects.
    ///
    /// # Errors
    /// Those of [`Table::lease`].
    pub(super) fn hold(mut self, index: Index, until: Instant) -> Result<OpenIndex, IndexesError> {
        self.grow(index.memory() + SLOT_BYTES, until)?;
        Ok(OpenIndex { index, lease: self })
    }

    fn grow(&mut self, to: usize, until: Instant) -> Result<(), IndexesError> {
        self.table.check_size(to)?;
        let more = to.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        loop {
            self.table.evict(to);
            let mut leased = self.table.leased();
            if *leased + more <= self.table.max_bytes {
                *leased += more;
                self.bytes += more;
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(IndexesError::Busy);
            }
            let freed = &self.table.freed;
            drop(freed.wait_timeout(leased, left.min(LOOK_AGAIN)));
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.table.leased() -= self.bytes;
        self.table.freed.notify_all();
    }
}
