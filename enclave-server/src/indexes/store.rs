//! Stores of sealed objects: the parent's folder, and memory for tests.
//!
//! A store is not trusted: it may lose, change, exchange or invent objects. It only has to be asked within bounds; the index detects
//! the rest.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::parent::{Parent, ParentAddress, ParentError, Request, Timeouts};

/// Largest object in bytes.
pub const MAX_OBJECT: usize = 128 << 20;
/// Longest list of objects in bytes: some 100,000 names.
const MAX_LISTING: usize = 16 << 20;
/// Longest exchange with the parent.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUTS: Timeouts = Timeouts {
    stall: Duration::from_secs(10),
    least_rate: 64 * 1024,
};

/// A store of objects. Calls block.
pub trait BlobStore: Send + Sync {
    /// The object of this name, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores an object unless one of this name exists. It is durable when this returns, in both cases.
    ///
    /// # Errors
    /// [`StoreError`]. The object may then exist or not.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, StoreError>;

    /// Names and sizes of the objects of an index, as `KIND/NAME`.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list(&self, index: &str) -> Result<Vec<(String, u64)>, StoreError>;

    /// Deletes an object, if it exists.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&self, name: &str) -> Result<(), StoreError>;
}

/// The outcome of [`BlobStore::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The object was stored.
    New,
    /// An object of this name exists.
    Exists,
}

/// Why a store did not answer.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum StoreError {
    /// Neither this enclave nor its host is configured to store indexes.
    #[error("the service stores no indexes")]
    #[coded(
        "INDEXES_OFF",
        remedy = "Its operator starts enclave-server with --indexes ADDRESS, and host-proxy with --indexes FOLDER."
    )]
    Off,
    /// No space.
    #[error("the host has no space for another object of an index")]
    #[coded(
        "INDEXES_FULL",
        remedy = "Compact or delete indexes, or ask the operator to raise --indexes-max of host-proxy."
    )]
    Full,
    /// The connection failed.
    #[error("the host's store of indexes did not answer: {0}")]
    #[coded(
        "INDEX_STORE_UNAVAILABLE",
        remedy = "Try again; the operator finds the reason in host-proxy's log."
    )]
    Parent(#[from] ParentError),
    /// The parent refused.
    #[error("the host's store of indexes answered with status {0}")]
    #[coded(
        "INDEX_STORE_REFUSED",
        remedy = "Try again; the operator finds the reason in host-proxy's log."
    )]
    Refused(u16),
    /// Not a list of objects.
    #[error("the host's list of an index's objects is not valid")]
    #[coded(
        "INDEX_STORE_INVALID",
        remedy = "Run enclave and host-proxy of one release."
    )]
    Invalid,
}

/// The folder of the parent (`--indexes` of host-proxy).
pub struct ParentStore(Parent);

impl ParentStore {
    /// The store at `address`, which is `--parent-listen` of host-proxy.
    pub fn new(address: ParentAddress) -> Self {
        Self(Parent::new(address, TIMEOUTS))
    }

    fn ask(
        &self,
        method: &'static str,
        path: &str,
        body: &[u8],
        limit: usize,
    ) -> Result<(u16, Vec<u8>), StoreError> {
        let request = Request {
            method,
            path: &format!("/v1/indexes/{path}"),
            headers: &[],
            body,
        };
        let answer = self
            .0
            .exchange(request, Instant::now() + EXCHANGE_TIMEOUT)?;
        match answer.status() {
            status @ 200..=299 => Ok((status, answer.into_body().collect(limit)?)),
            status @ (404 | 409) => Ok((status, Vec::new())),
            501 => Err(StoreError::Off),
            507 => Err(StoreError::Full),
            status => Err(StoreError::Refused(status)),
        }
    }
}

impl BlobStore for ParentStore {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.ask("GET", name, &[], MAX_OBJECT)? {
            (404, _) => Ok(None),
            (200, bytes) => Ok(Some(bytes)),
            (status, _) => Err(StoreError::Refused(status)),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, StoreError> {
        // An answer that was lost is asked for again: the object is then the one of the first attempt.
        let outcome = match self.ask("POST", name, bytes, 0) {
            Err(StoreError::Parent(error)) if error.is_transient() => {
                self.ask("POST", name, bytes, 0)
            }
            outcome => outcome,
        };
        match outcome? {
            (201, _) => Ok(Created::New),
            (409, _) => Ok(Created::Exists),
            (status, _) => Err(StoreError::Refused(status)),
        }
    }

    fn list(&self, index: &str) -> Result<Vec<(String, u64)>, StoreError> {
        #[derive(Deserialize)]
        struct Listing {
            objects: Vec<Object>,
        }
        #[derive(Deserialize)]
        struct Object {
            name: String,
            size: u64,
        }
        let (status, bytes) = self.ask("GET", index, &[], MAX_LISTING)?;
        if status != 200 {
            return Err(StoreError::Refused(status));
        }
        let listing: Listing = serde_json::from_slice(&bytes).map_err(|_| StoreError::Invalid)?;
        let objects = listing.objects.into_iter();
        Ok(objects.map(|object| (object.name, object.size)).collect())
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        match self.ask("DELETE", name, &[], 0)? {
            (200, _) => Ok(()),
            (status, _) => Err(StoreError::Refused(status)),
        }
    }
}

/// A store in memory, for tests.
#[derive(Default)]
pub struct MemoryStore(Mutex<BTreeMap<String, Vec<u8>>>);

impl MemoryStore {
    /// Lets a test read and change the objects.
    pub fn edit<T>(&self, edit: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        edit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl BlobStore for MemoryStore {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.edit(|objects| objects.get(name).cloned()))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, StoreError> {
        Ok(self.edit(|objects| match objects.contains_key(name) {
            true => Created::Exists,
            false => {
                objects.insert(name.to_owned(), bytes.to_owned());
                Created::New
            }
        }))
    }

    fn list(&self, index: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let found = |(name, bytes): (&String, &Vec<u8>)| {
            let below = name.strip_prefix(index)?.strip_prefix('/')?;
            Some((below.to_owned(), bytes.len() as u64))
        };
        Ok(self.edit(|objects| objects.iter().filter_map(found).collect()))
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.edit(|objects| objects.remove(name));
        Ok(())
    }
}
