//! Blocking client, for programs without an asynchronous runtime.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sealed_index::{IndexKey, Statement};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::bulk::{Batch, Part};
use crate::embeddings::Embeddings;
use crate::error::Error;
use crate::follow::{PolicyNews, PolicyStatus};
use crate::index::{
    Heads, IndexAnswer, IndexChange, IndexDescription, IndexQuery, IndexRow, IndexSettings,
};
use crate::message::Answer;
use crate::rerank::Ranking;
use crate::source::{PolicySource, SourceError};
use crate::state::{Session, State};
use crate::trust::PolicyChange;
use crate::witnesses::TrustPolicy;

/// Blocking form of [`crate::Client`]. Do not use it inside an asynchronous runtime.
pub struct Client {
    client: crate::Client,
    runtime: Runtime,
    /// Dropping these ends the threads that follow a policy.
    following: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Client {
    /// Wraps `client`.
    ///
    /// # Errors
    /// [`Error::Internal`] if the operating system cannot create a descriptor. Panics if it cannot create a thread.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        Ok(Self {
            client,
            runtime: build_runtime()?,
            following: Mutex::default(),
        })
    }

    /// Blocking form of [`crate::Client::connect`].
    ///
    /// # Errors
    /// The same.
    pub fn connect(&self) -> Result<Arc<Session>, Error> {
        self.runtime.block_on(self.client.connect())
    }

    /// Blocking form of [`crate::Client::fetch`].
    ///
    /// # Errors
    /// The same.
    pub fn fetch(&self, request: http::Request<Bytes>) -> Result<Answer, Error> {
        self.runtime.block_on(self.client.fetch(request))
    }

    /// Blocking form of [`crate::Client::embed`].
    ///
    /// # Errors
    /// The same.
    pub fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
        self.runtime.block_on(self.client.embed(texts))
    }

    /// Blocking form of [`crate::Client::rerank`].
    ///
    /// # Errors
    /// The same.
    pub fn rerank(
        &self,
        model: Option<&str>,
        query: &str,
        documents: &[String],
        top_n: Option<usize>,
    ) -> Result<Ranking, Error> {
        let ranking = self.client.rerank(model, query, documents, top_n);
        self.runtime.block_on(ranking)
    }

    /// The index of `key`: see [`crate::PrivateIndex::new`].
    pub fn index(&self, key: IndexKey, heads: Option<Heads>) -> PrivateIndex<'_> {
        PrivateIndex {
            index: crate::PrivateIndex::new(self.client.clone(), key, heads),
            runtime: &self.runtime,
        }
    }

    /// Calls [`crate::Client::bulk`] until `stop` resolves.
    ///
    /// # Errors
    /// The same, and [`Error::Stopped`] if `stop` resolves first.
    pub fn bulk<T>(
        &self,
        batches: &mut mpsc::Receiver<Batch<T>>,
        take: impl FnMut(&Batch<T>, Part) -> Result<(), Error>,
        stop: impl Future<Output = ()>,
    ) -> Result<u64, Error> {
        self.runtime.block_on(async {
            tokio::select! {
                outcome = self.client.bulk(batches, take) => outcome,
                () = stop => Err(Error::Stopped),
            }
        })
    }

    /// Blocking form of [`crate::Client::set_policy`].
    pub fn set_policy(&self, policy: impl Into<TrustPolicy>) -> PolicyChange {
        self.client.set_policy(policy)
    }

    /// Runs [`crate::Client::follow`] on a thread that ends with this client. A policy change also cancels requests in progress.
    ///
    /// # Errors
    /// [`Error::Internal`] if the operating system cannot create a thread.
    pub fn follow(
        &self,
        source: PolicySource,
        tell: impl FnMut(PolicyNews<'_>) + Send + 'static,
    ) -> Result<(), Error> {
        let (client, runtime) = (self.client.clone(), build_runtime()?);
        let (stop, stopped) = oneshot::channel();
        let follow = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = client.follow(source, tell) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("clearseal-policy".to_owned());
        thread.spawn(follow).map_err(|_| Error::Internal)?;
        let following = self.following.lock();
        following.unwrap_or_else(PoisonError::into_inner).push(stop);
        Ok(())
    }

    /// Blocking form of [`crate::Client::policy_status`].
    pub fn policy_status(&self) -> PolicyStatus {
        self.client.policy_status()
    }

    /// Blocking form of [`PolicySource::load`].
    ///
    /// # Errors
    /// The same.
    pub fn load(source: &mut PolicySource) -> Result<TrustPolicy, SourceError> {
        let runtime = build_runtime().map_err(|_| SourceError::Internal)?;
        runtime.block_on(source.load())
    }

    /// Blocking form of [`crate::Client::states`].
    pub fn states(&self) -> Vec<(String, State)> {
        self.client.states()
    }
}

/// Blocking form of [`crate::PrivateIndex`]. The errors are the same.
pub struct PrivateIndex<'a> {
    index: crate::PrivateIndex,
    runtime: &'a Runtime,
}

impl PrivateIndex<'_> {
    /// Blocking form of [`crate::PrivateIndex::create`].
    pub fn create(&self, settings: IndexSettings) -> Result<Statement, Error> {
        self.runtime.block_on(self.index.create(settings))
    }

    /// Blocking form of [`crate::PrivateIndex::change`].
    pub fn change(&self, rows: &[IndexRow], delete: &[String]) -> Result<IndexChange, Error> {
        self.runtime.block_on(self.index.change(rows, delete))
    }

    /// Blocking form of [`crate::PrivateIndex::query`].
    pub fn query(&self, query: &IndexQuery) -> Result<IndexAnswer, Error> {
        self.runtime.block_on(self.index.query(query))
    }

    /// Blocking form of [`crate::PrivateIndex::describe`].
    pub fn describe(&self) -> Result<IndexDescription, Error> {
        self.runtime.block_on(self.index.describe())
    }

    /// Blocking form of [`crate::PrivateIndex::compact`].
    pub fn compact(&self) -> Result<IndexDescription, Error> {
        self.runtime.block_on(self.index.compact())
    }

    /// Blocking form of [`crate::PrivateIndex::delete`].
    pub fn delete(&self) -> Result<u64, Error> {
        self.runtime.block_on(self.index.delete())
    }
}

/// Public endpoints of a host that are not sealed, such as the log.
pub struct Host {
    host: crate::Host,
    runtime: Runtime,
}

impl Host {
    /// Blocking form of [`crate::Host::new`].
    ///
    /// # Errors
    /// The same, and [`Error::Internal`].
    pub fn new(url: &str, timeout: Duration) -> Result<Self, Error> {
        Ok(Self {
            host: crate::Host::new(url, timeout)?,
            runtime: build_runtime()?,
        })
    }

    /// Blocking form of [`crate::Host::url`].
    pub fn url(&self) -> &str {
        self.host.url()
    }

    /// Blocking form of [`crate::Host::get`].
    ///
    /// # Errors
    /// The same.
    pub fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, Error> {
        self.runtime.block_on(self.host.get(path, limit))
    }
}

/// Builds a runtime with one worker thread, so that background work such as a renewal goes on after the call that started it. Panics
/// if the operating system cannot create that thread.
fn build_runtime() -> Result<Runtime, Error> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|_| Error::Internal)
}
