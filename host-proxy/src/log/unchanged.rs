//! A file that the library may read and believes to write: what it writes stays in memory. So a check leaves the file as it is.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::LogError;

/// Bytes of a block, the unit that is copied before it is changed.
const BLOCK: usize = 4096;

/// An open file with the changes to it.
#[derive(Debug)]
pub(super) struct Unchanged {
    file: File,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    /// Length of the file, or the changed length.
    length: u64,
    /// Bytes of the file beyond this are not read: it was shortened.
    readable: u64,
    /// Changed blocks by their number.
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
}

impl Unchanged {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`LogError::InUse`] where a proxy has it open, [`LogError::Unavailable`].
    pub(super) fn open(path: &Path) -> Result<Self, LogError> {
        let unavailable = |error: io::Error| LogError::Unavailable(error.to_string());
        let file = File::open(path).map_err(unavailable)?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LogError::InUse),
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
        let length = file.metadata().map_err(unavailable)?.len();
        let changes = Changes {
            length,
            readable: length,
            blocks: BTreeMap::new(),
        };
        Ok(Self {
            file,
            changes: Mutex::new(changes),
        })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a block of the file; bytes that it does not have are 0.
    fn read_block(&self, number: u64, readable: u64) -> io::Result<Box<[u8; BLOCK]>> {
        let mut block = Box::new([0; BLOCK]);
        let offset = number * BLOCK as u64;
        let length = readable.saturating_sub(offset).min(BLOCK as u64) as usize;
        if let Some(part) = block.get_mut(..length) {
            self.file.read_exact_at(part, offset)?;
        }
        Ok(block)
    }
}

/// Splits a range of bytes at the borders of blocks: the number of the block, the first byte in it, and how many.
fn split(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let block = BLOCK as u64;
        let first = (at % block) as usize;
        let count = (end - at).min(block - at % block) as usize;
        let part = (at / block, first, count);
        at += count as u64;
        (count > 0).then_some(part)
    })
}

impl StorageBackend for Unchanged {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset + out.len() as u64 > changes.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = out;
        for (number, first, count) in split(offset, rest.len()) {
            let Some((part, after)) = rest.split_at_mut_checked(count) else {
                break;
            };
            match changes.blocks.get(&number) {
                Some(block) => part.copy_from_slice(&block[first..first + count]),
                None => {
                    let block = self.read_block(number, changes.readable)?;
                    part.copy_from_slice(&block[first..first + count]);
                }
            }
            rest = after;
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.changes();
        changes.length = length;
        if length < changes.readable {
            changes.readable = length;
        }
        changes.blocks.split_off(&length.div_ceil(BLOCK as u64));
        let last = (length % BLOCK as u64) as usize;
        if let Some(block) = changes.blocks.get_mut(&(length / BLOCK as u64)) {
            block[last..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        let mut rest = data;
        for (number, first, count) in split(offset, data.len()) {
            let Some((part, after)) = rest.split_at_checked(count) else {
                break;
            };
            let readable = changes.readable;
            let block = match changes.blocks.entry(number) {
                std::collections::btree_map::Entry::Occupied(block) => block.into_mut(),
                std::collections::btree_map::Entry::Vacant(free) => {
                    free.insert(self.read_block(number, readable)?)
                }
            };
            block[first..first + count].copy_from_slice(part);
            rest = after;
        }
        changes.length = changes.length.max(offset + data.len() as u64);
        Ok(())
    }

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        // The shared lock on the file is held since it was opened.
        Ok(true)
    }

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
}
