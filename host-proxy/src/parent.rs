//! The host's service for its enclave: HTTP/1.1 on a listener that only the enclave reaches.
//!
//! An enclave has no network and no disk. It gets from here:
//!
//! | endpoint | answers |
//! | --- | --- |
//! | `GET /v1/models/NAME/model.sealed` | the sealed container of a model, whole or one range of it |
//! | `GET /v1/models/NAME/data-key.wrapped` | its data key, wrapped by KMS |
//! | `POST /v1/kms/decrypt` | a data key in an envelope for the enclave ([`crate::kms`]) |
//! | `/v1/indexes/ID…` | sealed objects of private indexes ([`indexes`]) |
//!
//! The enclave trusts none of it. No client reaches these endpoints: the router of the public listener does not have them, and a
//! TCP address must be a loopback one.

mod indexes;
mod models;
mod problem;
mod range;
pub(crate) mod source;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sockets::{ListenAddress, Listener};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::kms;
use crate::pace::Paced;
use problem::ParentProblem;

/// Connections of the enclave at once: loading a model takes one or two, releasing a key one, an index one for each request.
const MAX_CONNECTIONS: usize = 16;
/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// A listener for the enclave that does not answer yet.
pub(crate) struct Parent {
    listener: Listener,
    router: Router,
    stall: Duration,
    idle: Duration,
}

impl Parent {
    /// Binds the address of `--parent-listen`, where there is one.
    pub(crate) async fn bind(config: &Config) -> anyhow::Result<Option<Self>> {
        let Some(address) = &config.parent_listen else {
            return Ok(None);
        };
        let listener = Listener::bind(address).await.with_context(|| {
            format!("cannot listen on {address}; choose another address with --parent-listen")
        })?;
        Ok(Some(Self {
            router: router(config).await?,
            listener,
            stall: config.stall_timeout,
            idle: config.idle_timeout,
        }))
    }

    /// The bound address, with the port that the system chose.
    pub(crate) fn address(&self) -> &ListenAddress {
        self.listener.address()
    }

    /// Answers while it is polled.
    pub(crate) async fn run(self) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.idle)
            .max_buf_size(MAX_HEAD_BYTES);
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let stream = match self.listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(kind = ?error.kind(), "cannot accept a connection of the enclave");
                    // Out of file descriptors, mostly: a pause lets some connection end.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let service = TowerToHyperService::new(self.router.clone());
            let stream = TokioIo::new(Paced::new(stream, self.stall));
            let connection = http.serve_connection(stream, service);
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(
                        timeout = error.is_timeout(),
                        incomplete = error.is_incomplete_message(),
                        "a connection of the enclave ended early"
                    );
                }
                drop(slot);
            });
        }
    }
}

/// Builds the service.
async fn router(config: &Config) -> anyhow::Result<Router> {
    let (region, simulated) = (&config.kms_region, &config.simulate_kms);
    let kms = kms::open(region.as_deref(), simulated.as_deref()).await?;
    let indexes = match &config.indexes {
        Some(folder) => Some(indexes::Store::open(folder, config.indexes_max)?),
        None => None,
    };
    Ok(models::routes(source::open(config.models.as_deref())?)
        .merge(indexes::routes(indexes))
        .merge(kms::routes(kms))
        .fallback(ParentProblem::NotFound)
        .method_not_allowed_fallback(ParentProblem::MethodNotAllowed))
}
