//! A folder of objects: created once, durable before the answer, bounded in size.
//!
//! `object_store` writes an object to a temporary file, synchronises it, links it to its name, which fails where the name exists,
//! and synchronises the folder. Added here: an object that exists already is synchronised too before its creation is refused,
//! because an earlier process may have been killed between the last two steps; so are deletions and, at the start, all that an
//! earlier process left. Temporary files of a killed process are removed at the start.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::stream::{BoxStream, TryStreamExt as _};
use object_store::local::LocalFileSystem;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _, PutMode};
use tokio::sync::RwLock;

use super::name::{IndexName, ObjectName};

/// A folder of objects.
pub(in crate::parent) struct Store {
    files: Arc<LocalFileSystem>,
    /// Held to write while an object is created or deleted: no reader sees an object that a power failure could still take away.
    changes: RwLock<()>,
    /// Bytes of all objects.
    used: AtomicU64,
    max: u64,
}

/// An object that is being read.
pub(super) struct StoredObject {
    pub(super) size: u64,
    pub(super) bytes: BoxStream<'static, object_store::Result<Bytes>>,
}

/// The outcome of a creation. The object is durable in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    New,
    /// An object of this name exists, with these bytes or others.
    Exists,
}

/// Why an object was not read or written. The text is for the operator's log.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// `--indexes-max` is reached.
    #[error(
        "the indexes would have more than {0} bytes; raise --indexes-max, or compact or delete indexes"
    )]
    Full(u64),
    /// The disk is full, or the user's quota is used up.
    #[error("the disk of the folder of --indexes is full: {0}")]
    Disk(Error),
    /// Another failure.
    #[error("the folder of --indexes cannot be used: {0}")]
    Failed(Error),
}

impl Store {
    /// Opens a folder, which is created where it is missing: removes temporary files, and makes durable what is there.
    pub(in crate::parent) fn open(folder: &Path, max: u64) -> anyhow::Result<Self> {
        let shown = || format!("--indexes {} cannot be used", folder.display());
        fs::create_dir_all(folder).with_context(shown)?;
        let mut found = Found::default();
        found.recover(folder, 0).with_context(shown)?;
        if found.removed > 0 {
            let files = found.removed;
            tracing::warn!(files, "removed unfinished objects of indexes");
        }
        tracing::info!(
            folder = %folder.display(),
            objects = found.objects,
            bytes = found.bytes,
            "keeping sealed indexes"
        );
        let files = LocalFileSystem::new_with_prefix(folder).with_context(shown)?;
        Ok(Self {
            files: Arc::new(files.with_fsync(true)),
            changes: RwLock::new(()),
            used: AtomicU64::new(found.bytes),
            max,
        })
    }

    pub(super) async fn list(
        &self,
        index: &IndexName,
    ) -> Result<Vec<(ObjectName, u64)>, StoreError> {
        let _shared = self.changes.read().await;
        let listed = self.files.list(Some(&index.path()));
        let listed: Vec<_> = listed.try_collect().await.map_err(store_error)?;
        let named = listed.into_iter().filter_map(|object| {
            let name = ObjectName::from_path(object.location.as_ref())?;
            Some((name, object.size))
        });
        Ok(named.collect())
    }

    pub(super) async fn read(&self, name: &ObjectName) -> Result<Option<StoredObject>, StoreError> {
        let _shared = self.changes.read().await;
        match self.files.get(&name.path()).await {
            Ok(found) => Ok(Some(StoredObject {
                size: found.meta.size,
                bytes: found.into_stream(),
            })),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }

    pub(super) async fn create(
        &self,
        name: &ObjectName,
        bytes: Bytes,
    ) -> Result<Created, StoreError> {
        let _exclusive = self.changes.write().await;
        let path = name.path();
        let length = bytes.len() as u64;
        if self.used.load(Ordering::Relaxed).saturating_add(length) > self.max {
            // A name that exists needs no space.
            return match self.files.head(&path).await {
                Ok(_) => self.sync(&path).await.map(|()| Created::Exists),
                Err(Error::NotFound { .. }) => Err(StoreError::Full(self.max)),
                Err(error) => Err(store_error(error)),
            };
        }
        match self
            .files
            .put_opts(&path, bytes.into(), PutMode::Create.into())
            .await
        {
            Ok(_) => {
                self.used.fetch_add(length, Ordering::Relaxed);
                Ok(Created::New)
            }
            Err(Error::AlreadyExists { .. }) => self.sync(&path).await.map(|()| Created::Exists),
            Err(error) => Err(store_error(error)),
        }
    }

    pub(super) async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let _exclusive = self.changes.write().await;
        let path = name.path();
        let size = match self.files.head(&path).await {
            Ok(found) => found.size,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(store_error(error)),
        };
        self.files.delete(&path).await.map_err(store_error)?;
        self.release(size);
        self.sync_folder(&path).await
    }

    /// Subtracts the size of a deleted object. One that was copied into the folder while this process ran was never counted.
    fn release(&self, size: u64) {
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let subtract = |used: u64| Some(used.saturating_sub(size));
        // A failure is impossible: `subtract` always has a result.
        let _ = self.used.fetch_update(set, fetch, subtract);
    }

    /// Makes an object durable that another process may have created.
    async fn sync(&self, path: &object_store::path::Path) -> Result<(), StoreError> {
        let file = self.files.path_to_filesystem(path).map_err(store_error)?;
        let synced = blocking(move || File::open(file)?.sync_all()).await;
        synced.map_err(|error| io_error(&error, path))?;
        self.sync_folder(path).await
    }

    async fn sync_folder(&self, path: &object_store::path::Path) -> Result<(), StoreError> {
        let file = self.files.path_to_filesystem(path).map_err(store_error)?;
        let synced = blocking(move || match file.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        });
        synced.await.map_err(|error| io_error(&error, path))
    }
}

/// The contents of a folder at the start.
#[derive(Default)]
struct Found {
    objects: u64,
    bytes: u64,
    removed: u64,
}

/// Depth of the objects: `ID/KIND/NAME`.
const OBJECT_DEPTH: usize = 2;

impl Found {
    /// Counts and synchronises the objects below `folder`, and removes temporary files. Other files stay.
    fn recover(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() && depth < OBJECT_DEPTH {
                self.recover(&path, depth + 1)?;
            } else if kind.is_file() && depth == OBJECT_DEPTH {
                let name = entry.file_name();
                let is_temporary = name.to_str().is_some_and(is_temporary);
                if is_temporary {
                    fs::remove_file(&path)?;
                    self.removed += 1;
                } else {
                    let file = File::open(&path)?;
                    file.sync_all()?;
                    self.objects += 1;
                    self.bytes += file.metadata()?.len();
                }
            }
        }
        File::open(folder)?.sync_all()
    }
}

/// Whether `object_store` gave this name to a file that it had not finished: `NAME#NUMBER`.
fn is_temporary(name: &str) -> bool {
    name.split_once('#').is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

fn io_error(error: &io::Error, path: &object_store::path::Path) -> StoreError {
    store_error(Error::Generic {
        store: "LocalFileSystem",
        source: format!("{path}: {error}").into(),
    })
}

fn store_error(error: Error) -> StoreError {
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(one) = cause {
        let kind = one.downcast_ref::<io::Error>().map(io::Error::kind);
        if let Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) = kind {
            return StoreError::Disk(error);
        }
        cause = one.source();
    }
    StoreError::Failed(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(version: u64) -> ObjectName {
        let name = format!("{version:020}");
        ObjectName::parse(&"0".repeat(32), "states", &name).unwrap()
    }

    #[tokio::test]
    async fn deleting_a_file_that_was_never_counted_leaves_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), 1000).unwrap();
        // A copy that an operator puts back while the program runs.
        let copied = folder.path().join(state(1).path().as_ref());
        fs::create_dir_all(copied.parent().unwrap()).unwrap();
        fs::write(&copied, [0; 600]).unwrap();
        store.delete(&state(1)).await.unwrap();
        assert!(!copied.exists());
        for (version, expected) in [(2, true), (3, false)] {
            let created = store.create(&state(version), vec![0; 600].into()).await;
            assert_eq!(matches!(created, Ok(Created::New)), expected, "{version}");
        }
    }
}
