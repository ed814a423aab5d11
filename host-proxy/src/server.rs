//! Accepts connections, and lets them finish at the end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sockets::ListenAddress;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tower::ServiceExt as _;

use crate::admission::Quota;
use crate::config::Config;
use crate::crls::Crls;
use crate::deployment::Deployment;
use crate::log::Store;
use crate::metrics::Metrics;
use crate::pace::Paced;
use crate::parent::Parent;
use crate::rate::Rates;
use crate::router::{self, Service, metrics_router};
use crate::source::Peer;
use crate::web::Web;

/// Time to store the rest of the log, after the drain.
const LAST_PULL_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest head of a request, bytes. No endpoint needs more than a fraction of it.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// A proxy that listens and does not answer yet.
pub struct Proxy {
    config: Config,
    web: Web,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    parent: Option<Parent>,
    log: Option<Arc<Store>>,
    crls: Crls,
    deployment: Deployment,
}

impl Proxy {
    /// Binds the addresses, and opens and checks the log.
    ///
    /// # Errors
    /// Where another program uses either, or the log is corrupt.
    pub async fn bind(config: Config) -> anyhow::Result<Self> {
        let web = Web::open(config.web.as_deref())?;
        let listener = listen(config.listen, "--listen").await?;
        let metrics = match config.metrics {
            Some(address) => Some(listen(address, "--metrics").await?),
            None => None,
        };
        let parent = Parent::bind(&config).await?;
        let crls = Crls::open(&config.crls, &config.crl_hosts)?;
        let deployment = {
            let config = config.clone();
            tokio::task::spawn_blocking(move || Deployment::open(&config)).await??
        };
        let log = match config.receipt_log.clone() {
            None => None,
            Some(path) => {
                let opened = tokio::task::spawn_blocking(move || Store::open(&path)).await?;
                let store = opened
                    .map_err(|error| anyhow::anyhow!("{}", error_codes::ErrorLine(&error)))?;
                Some(Arc::new(store))
            }
        };
        Ok(Self {
            config,
            web,
            listener,
            metrics,
            parent,
            log,
            crls,
            deployment,
        })
    }

    /// The address for the enclave, where there is one.
    pub fn parent_address(&self) -> Option<&ListenAddress> {
        self.parent.as_ref().map(Parent::address)
    }

    /// The address of the metrics, where there is one.
    pub fn metrics_address(&self) -> Option<std::io::Result<SocketAddr>> {
        self.metrics.as_ref().map(TcpListener::local_addr)
    }

    /// The address for clients, with the port that the system chose.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `shutdown` resolves. Then lets requests in flight finish, for at most the drain timeout, and stores the rest
    /// of the log.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            config,
            web,
            listener,
            metrics: metrics_listener,
            parent,
            log,
            crls,
            deployment,
        } = self;
        let metrics = Metrics::new();
        let (finish, finished) = oneshot::channel::<()>();
        let finished = async { drop(finished.await) };
        let Service {
            router,
            channels,
            follow_log,
            refresh_crls,
            keep_deployment,
        } = router::build(&config, &metrics, web, log, finished, crls, deployment);
        let follow_log = follow_log.map(tokio::spawn);
        let refresh_crls = Some(tokio::spawn(refresh_crls));
        let keep_deployment = Some(tokio::spawn(keep_deployment));
        let metrics_task = metrics_listener.map(|listener| {
            tokio::spawn(async move {
                if let Err(error) = axum::serve(listener, metrics_router(metrics)).await {
                    tracing::error!(kind = ?error.kind(), "the metrics ended");
                }
            })
        });
        let parent = parent.map(|parent| {
            tracing::info!(address = %parent.address(), "listening for the enclave");
            tokio::spawn(parent.run())
        });
        let slots = Arc::new(Semaphore::new(config.max_connections));
        let connections_per_source = Quota::new(config.max_connections, config.source_share);
        let rates = Rates::new(config.source_rate);
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(config.idle_timeout)
            .max_buf_size(MAX_HEAD_BYTES);
        // Each connection holds a receiver, which tells it to finish, and by which it is counted.
        let (connections, stop) = watch::channel(false);
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = accept(&listener, &slots) => accepted,
            };
            let accepted = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, mostly: a pause lets some connection end.
                    tracing::warn!(kind = ?error.kind(), "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Accepted {
                stream,
                address,
                slot,
            } = accepted;
            let peer = Peer::new(address.ip());
            // Closed at once: one address must not hold every connection.
            let Ok(share) = connections_per_source.reserve(peer.source, 1) else {
                tracing::debug!("a source has reached its share of connections");
                continue;
            };
            let waiting = Arc::<AtomicBool>::default();
            let paced = Paced::new(stream, config.stall_timeout)
                .with_rate(rates.clone(), peer.source)
                .tell(Arc::clone(&waiting));
            let requester = peer.clone();
            let service = router.clone().map_request(move |mut request: Request<_>| {
                request.extensions_mut().insert(requester.clone());
                request
            });
            let connection =
                http.serve_connection(TokioIo::new(paced), TowerToHyperService::new(service));
            let mut stop = stop.clone();
            tokio::spawn(async move {
                let mut connection = std::pin::pin!(connection.with_upgrades());
                let outcome = tokio::select! {
                    outcome = connection.as_mut() => outcome,
                    // An error means that the proxy has been dropped.
                    _ = async { stop.wait_for(|stopped| *stopped).await.is_ok() } => {
                        connection.as_mut().graceful_shutdown();
                        tokio::select! {
                            outcome = connection.as_mut() => outcome,
                            // Otherwise one half-sent head would delay the stop to the drain timeout.
                            () = stay_idle(&peer, &waiting) => Ok(()),
                        }
                    }
                };
                if let Err(error) = outcome {
                    tracing::debug!(
                        timeout = error.is_timeout(),
                        incomplete = error.is_incomplete_message(),
                        parse = error.is_parse(),
                        "connection ended early"
                    );
                }
                drop((slot, share));
            });
        }
        drop(listener);
        channels.stop();
        drop(stop);
        tracing::info!(connections = connections.receiver_count(), "draining");
        connections.send_replace(true);
        match tokio::time::timeout(config.drain_timeout, connections.closed()).await {
            Ok(()) => tracing::info!("drained"),
            Err(_) => tracing::warn!("the drain timeout passed; requests in flight are cut off"),
        }
        // No answer is sent any more, so the enclave's log now holds every receipt that clients have.
        drop(finish);
        if let Some(mut follow_log) = follow_log
            && tokio::time::timeout(LAST_PULL_TIMEOUT, &mut follow_log)
                .await
                .is_err()
        {
            tracing::warn!(
                code = "LOG_UNFINISHED",
                "the last leaves of the log could not be stored; they are pulled at the next start, if the enclave still runs then"
            );
            follow_log.abort();
        }
        for task in [metrics_task, parent, refresh_crls, keep_deployment]
            .into_iter()
            .flatten()
        {
            task.abort();
            // An error says that it was aborted. Its files are closed then.
            let _ = task.await;
        }
    }
}

/// Time for a connection to send the end of its last answer, which is in its buffers.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits until the connection has had no request in flight for a while, and no bytes wait for its client.
async fn stay_idle(peer: &Peer, waiting: &AtomicBool) {
    loop {
        peer.finish_requests().await;
        let next = tokio::time::timeout(FLUSH_TIMEOUT, peer.await_request()).await;
        if next.is_err() && !waiting.load(Ordering::Relaxed) {
            return;
        }
    }
}

struct Accepted {
    stream: TcpStream,
    address: SocketAddr,
    slot: OwnedSemaphorePermit,
}

/// Accepts a connection once there is a slot for it.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> std::io::Result<Accepted> {
    let slot = slots
        .clone()
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(Accepted {
        stream,
        address,
        slot,
    })
}

async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
}
