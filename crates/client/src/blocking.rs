//! The same for programs that wait: a terminal, a script.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use attestation::Policy;
use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::bulk::{Batch, Part};
use crate::embeddings::Embeddings;
use crate::error::Error;
use crate::follow::{PolicyNews, PolicyStatus};
use crate::message::Answer;
use crate::source::{PolicySource, SourceError};
use crate::state::{Session, State};
use crate::trust::PolicyChange;

/// [`crate::Client`] whose methods return when they are done. Not for use inside an asynchronous runtime.
pub struct Client {
    client: crate::Client,
    runtime: Runtime,
    /// Dropped with this client, and then the threads that follow a policy end.
    following: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Client {
    /// Wraps `client`.
    ///
    /// # Errors
    /// [`Error::Internal`] where the operating system gives no thread or descriptor.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        Ok(Self {
            client,
            runtime: runtime()?,
            following: Mutex::default(),
        })
    }

    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    /// The same.
    pub fn connect(&self) -> Result<Arc<Session>, Error> {
        self.runtime.block_on(self.client.connect())
    }

    /// As [`crate::Client::fetch`].
    ///
    /// # Errors
    /// The same.
    pub fn fetch(&self, request: http::Request<Bytes>) -> Result<Answer, Error> {
        self.runtime.block_on(self.client.fetch(request))
    }

    /// As [`crate::Client::embed`].
    ///
    /// # Errors
    /// The same.
    pub fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
        self.runtime.block_on(self.client.embed(texts))
    }

    /// As [`crate::Client::bulk`], until `stop` resolves.
    ///
    /// # Errors
    /// The same, and [`Error::Stopped`].
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

    /// See [`crate::Client::set_policy`].
    pub fn set_policy(&self, policy: Policy) -> PolicyChange {
        self.client.set_policy(policy)
    }

    /// Does the work of [`crate::Client::follow`], on a thread that ends with this client. Requests under way are cut, too.
    ///
    /// # Errors
    /// [`Error::Internal`] where the operating system gives no thread.
    pub fn follow(
        &self,
        source: PolicySource,
        tell: impl FnMut(PolicyNews<'_>) + Send + 'static,
    ) -> Result<(), Error> {
        let (client, runtime) = (self.client.clone(), runtime()?);
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

    /// See [`crate::Client::policy_status`].
    pub fn policy_status(&self) -> PolicyStatus {
        self.client.policy_status()
    }

    /// See [`PolicySource::load`].
    ///
    /// # Errors
    /// The same.
    pub fn load(source: &mut PolicySource) -> Result<Policy, SourceError> {
        let runtime = runtime().map_err(|_| SourceError::Internal)?;
        runtime.block_on(source.load())
    }

    /// As [`crate::Client::states`].
    pub fn states(&self) -> Vec<(String, State)> {
        self.client.states()
    }
}

/// A host's public endpoints, for what is not sealed: the log, its policy.
pub struct Host {
    host: crate::Host,
    runtime: Runtime,
}

impl Host {
    /// As [`crate::Host::new`].
    ///
    /// # Errors
    /// The same, and [`Error::Internal`].
    pub fn new(url: &str, timeout: Duration) -> Result<Self, Error> {
        Ok(Self {
            host: crate::Host::new(url, timeout)?,
            runtime: runtime()?,
        })
    }

    /// As [`crate::Host::url`].
    pub fn url(&self) -> &str {
        self.host.url()
    }

    /// As [`crate::Host::get`].
    ///
    /// # Errors
    /// The same.
    pub fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, Error> {
        self.runtime.block_on(self.host.get(path, limit))
    }
}

/// With a thread of its own: what a call began beside its request goes on after it, as a renewal does.
fn runtime() -> Result<Runtime, Error> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|_| Error::Internal)
}
