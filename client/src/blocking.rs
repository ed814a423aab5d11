//! The same for programs that wait: a terminal, a script.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::bulk::Batch;
use crate::embeddings::Embeddings;
use crate::error::Error;
use crate::message::Answer;
use crate::state::{Session, State};

/// [`crate::Client`] whose methods return when they are done. Not for use inside an asynchronous runtime.
pub struct Client {
    client: crate::Client,
    runtime: Runtime,
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
        take: impl FnMut(&Batch<T>, Embeddings) -> Result<(), Error>,
        stop: impl Future<Output = ()>,
    ) -> Result<u64, Error> {
        self.runtime.block_on(async {
            tokio::select! {
                outcome = self.client.bulk(batches, take) => outcome,
                () = stop => Err(Error::Stopped),
            }
        })
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

fn runtime() -> Result<Runtime, Error> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|_| Error::Internal)
}
