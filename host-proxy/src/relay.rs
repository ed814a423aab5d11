//! The relay (RFC 9458 §2): passes bytes unchanged between a client and an enclave.
//!
//! | module | question |
//! | --- | --- |
//! | [`headers`] | which header fields pass |
//! | [`exchange`] | which enclave is asked, how often, and what its failures mean |
//! | [`attestation`] | how documents are made, one by one or for several clients at once ([`nonce_batcher`]) |
//! | [`gateway`] | how a sealed request and its answer pass |
//! | [`readiness`] | whether an enclave takes requests |

mod attestation;
mod exchange;
mod gateway;
mod headers;
mod nonce_batcher;
mod readiness;

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Body as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;

use crate::admission::{ConcurrencyLimit, FairQueue, Quota};
use crate::body::{ReceiveLimits, receive};
use crate::config::Config;
use crate::connector::Connector;
use crate::crls::Crls;
use crate::deployment::Deployment;
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::source::Peer;
use gateway::Admitted;
use nonce_batcher::NonceBatcher;
use readiness::Readiness;

pub(crate) use exchange::{classify_error, collect_answer, enclave_uri};
pub(crate) use headers::ENCLAVE_HINT;

/// Longest query, bytes. A nonce of 64 bytes is 86 characters long, and no endpoint takes more than that and a name.
const MAX_QUERY_BYTES: usize = 256;
/// Idle connections that are kept to each enclave, and so those that a restart of the enclave costs.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// Bytes of an answer's head, and of one read.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Documents that the enclave is asked for at once: enough to keep its security module busy.
const ATTESTATIONS_AT_ONCE: usize = 4;
/// Longest wait of a request for a document.
const ATTESTATION_TIMEOUT: Duration = Duration::from_secs(15);
/// Time that a slow sender leaves to the enclave, but at most a quarter of the whole exchange.
const RESERVED: Duration = Duration::from_secs(5);
/// Longest wait of a sealed request for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A pooled client for the enclaves, and the limits on its use.
#[derive(Clone)]
pub(crate) struct Relay {
    client: Client<Connector, Full<Bytes>>,
    fleet: Fleet,
    /// Sealed requests that the enclave works on.
    concurrency: ConcurrencyLimit,
    /// Bytes of bodies that are buffered here.
    memory: Quota,
    attestations: FairQueue,
    nonces: NonceBatcher,
    readiness: Readiness,
    /// Notices new addresses of revocation lists in documents.
    crls: Crls,
    /// Notices new keys in documents, and proves that they are logged.
    deployment: Deployment,
    metrics: Metrics,
    limits: Limits,
}

/// Bounds that the operator sets on one exchange.
#[derive(Clone, Copy)]
struct Limits {
    /// Bytes of a request's body.
    request: u64,
    /// Bytes of an answer's body.
    answer: u64,
    /// Time until the enclave begins its answer.
    first_byte: Duration,
    /// Time for the whole exchange.
    total: Duration,
    /// Time that a client may send nothing.
    stall: Duration,
}

impl Limits {
    /// The part of the whole time that a slow sender leaves to the enclave.
    fn reserved(&self) -> Duration {
        self.first_byte.min(self.total / 4).min(RESERVED)
    }

    /// Longest time in which a request's body arrives.
    fn receiving(&self) -> Duration {
        let reserved = self.reserved();
        self.total - reserved - PERMIT_TIMEOUT.min(reserved)
    }
}

impl Relay {
    pub(crate) fn new(
        config: &Config,
        metrics: Metrics,
        crls: Crls,
        deployment: Deployment,
    ) -> Self {
        let connector = Connector {
            addresses: config.enclaves.clone().into(),
            timeout: config.connect_timeout,
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.idle_timeout)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            // Retries only where not one byte of the request was written: the pooled connection was already closed.
            .retry_canceled_requests(true)
            .build(connector);
        Self {
            client,
            fleet: Fleet::new(config.enclaves.len()),
            concurrency: ConcurrencyLimit::new(
                config.max_concurrent,
                config.source_share,
                PERMIT_TIMEOUT,
            ),
            memory: Quota::new(config.max_buffered_bytes, config.source_share),
            attestations: FairQueue::new(ATTESTATIONS_AT_ONCE, ATTESTATION_TIMEOUT),
            nonces: NonceBatcher::new(config.document_interval),
            readiness: Readiness::default(),
            crls,
            deployment,
            metrics,
            limits: Limits {
                request: config.max_request_bytes,
                answer: config.max_answer_bytes,
                first_byte: config.first_byte_timeout,
                total: config.total_timeout,
                stall: config.stall_timeout,
            },
        }
    }

    /// The enclaves, and which of them answer.
    pub(crate) fn fleet(&self) -> Fleet {
        self.fleet.clone()
    }

    /// Relays one request of the public endpoints.
    pub(crate) async fn relay(&self, request: Request) -> Result<Response, Problem> {
        let peer = Peer::of(&request);
        if request.uri().query().map_or(0, str::len) > MAX_QUERY_BYTES {
            return Err(Problem::UriTooLong);
        }
        // The announced length is checked before anything is read, the real one while it arrives.
        if request.body().size_hint().lower() > self.limits.request {
            return Err(Problem::BodyTooLarge);
        }
        let begun = Instant::now();
        let deadline = begun + self.limits.total;
        let (head, body) = request.into_parts();
        let limits = ReceiveLimits {
            bytes: self.limits.request,
            allowance: self.limits.stall,
            deadline: begun + self.limits.receiving(),
        };
        // Buffers the whole body first, so slow senders hold no permit.
        let received = receive(body, limits, peer.source, &self.memory).await?;
        let request = Request::from_parts(head, received.bytes);
        if request.uri().path() == "/v1/attestation" {
            return self
                .relay_attestation(request, deadline, &peer, received.memory)
                .await;
        }
        let begun = Instant::now();
        let permit = self.concurrency.acquire(peer.source).await?;
        self.metrics.waited(begun.elapsed());
        let admitted = Admitted {
            source: peer.source,
            permit,
            request_memory: received.memory,
        };
        self.relay_sealed(request, deadline, admitted).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_sender_leaves_time_to_the_enclave() {
        for (total, first_byte, reserved) in [(120, 60, 5.0), (8, 60, 2.0), (120, 1, 1.0)] {
            let limits = Limits {
                request: 0,
                answer: 0,
                first_byte: Duration::from_secs(first_byte),
                total: Duration::from_secs(total),
                stall: Duration::ZERO,
            };
            assert_eq!(limits.reserved(), Duration::from_secs_f64(reserved));
            let left = limits.total - limits.receiving();
            assert_eq!(left, limits.reserved() * 2, "for a permit, and the enclave");
        }
    }
}
