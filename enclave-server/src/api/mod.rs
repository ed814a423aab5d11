//! The outer router, which anyone may call, and the private one behind the seal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::attestation::{Policy, ServiceManifest, TrustAnchor};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use engine::Health;
use protocol::receipt::Measurements;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::keys::{KeyError, Keyring};
use crate::memory::PeakMemory;
use crate::metrics::{Labels, Metrics, StageLabels, Times};
use crate::nsm::{Nsm, ValidityReader};
use crate::provision::KeyRelease;
use crate::serve::HangUp;
use crate::stages::Stages;
use crate::{Clock, Moment};

mod attestation;
pub mod budget;
mod channel;
mod committed;
pub mod counters;
mod embeddings;
mod encoding;
mod error;
mod gateway;
mod heavy;
pub mod inner;
mod input;
pub mod issued;
mod log;
#[cfg(test)]
mod openapi;
mod problem;
mod receipt;
pub mod replay;
mod request;
pub mod state;
mod steps;
mod unreadable;

pub use error::ApiError;
pub use problem::Problem;
pub use steps::AnswerSteps;

use budget::Budget;
use problem::ProblemCode;
use replay::ReplayWindow;
use state::InnerState;

/// Limits of the outer endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest sealed request in bytes.
    pub max_request_bytes: usize,
    /// Most sealed requests worked on at once.
    pub max_in_flight: usize,
    /// How long a request waits for its turn before it is refused: for a slot, and a large one for memory.
    pub max_wait: Duration,
    /// Bytes of large requests that arrive and wait, and memory to open them in.
    pub arriving_bytes: usize,
    /// See [`arriving_bytes`](Self::arriving_bytes).
    pub opening_bytes: usize,
    /// Most requests remembered against replay.
    pub max_replay_entries: usize,
}

/// Everything that the endpoints share.
pub struct Service {
    keys: Keyring,
    nsm: Arc<dyn Nsm>,
    nsm_waiting: Semaphore,
    nsm_slots: Arc<Semaphore>,
    validities: ValidityReader,
    gateway_slots: Semaphore,
    arrivals: Budget,
    openings: Budget,
    channels: channel::Channels,
    replay: ReplayWindow,
    state: Arc<InnerState>,
    inner: Router,
    measurements: Measurements,
    memory: PeakMemory,
    metrics: Metrics,
    limits: Limits,
    answer_steps: Option<AnswerSteps>,
    clock: Clock,
    draining: AtomicBool,
    host: log::Host,
    start: Option<(Stages, KeyRelease)>,
}

impl Service {
    /// Puts the parts together.
    pub fn new(
        keys: Keyring,
        nsm: Arc<dyn Nsm>,
        state: InnerState,
        limits: Limits,
        clock: Clock,
    ) -> Self {
        let state = Arc::new(state);
        Self::with_inner(
            keys,
            nsm,
            Arc::clone(&state),
            inner::router(state),
            limits,
            clock,
        )
    }

    /// The same with another private router. A panic in one of its handlers becomes a sealed 500.
    pub fn with_inner(
        keys: Keyring,
        nsm: Arc<dyn Nsm>,
        state: Arc<InnerState>,
        inner: Router,
        limits: Limits,
        clock: Clock,
    ) -> Self {
        let times = Times::default();
        state.embedder.observe(Arc::new(times.clone()));
        Self {
            measurements: receipt::measurements(nsm.pcrs()),
            metrics: Metrics::new(times),
            keys,
            nsm,
            nsm_waiting: Semaphore::new(NSM_WAITING),
            nsm_slots: Arc::new(Semaphore::new(NSM_CONCURRENCY)),
            validities: ValidityReader::default(),
            gateway_slots: Semaphore::new(limits.max_in_flight),
            arrivals: Budget::new(limits.arriving_bytes, limits.max_wait),
            openings: Budget::new(limits.opening_bytes, limits.max_wait),
            channels: channel::Channels::default(),
            replay: ReplayWindow::new(limits.max_replay_entries),
            inner: inner::guarded(inner, Arc::clone(&state)),
            state,
            memory: PeakMemory::new(),
            limits,
            answer_steps: None,
            clock,
            draining: AtomicBool::new(false),
            host: log::Host::default(),
            start: None,
        }
    }

    /// Publishes how long the start took, in metrics and in [`readyz`](router), and who released the model's key.
    pub fn started(&mut self, stages: Stages, release: KeyRelease) {
        for (stage, took) in stages.iter() {
            self.metrics
                .stages
                .get_or_create(&StageLabels { stage })
                .set(took.as_secs_f64());
        }
        self.start = Some((stages, release));
    }

    /// Lets sealed answers, and those over channels, leave at `steps` only.
    #[must_use]
    pub fn with_answer_steps(mut self, steps: Option<AnswerSteps>) -> Self {
        self.answer_steps = steps;
        self
    }

    /// The keys.
    pub fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// Makes new keys now.
    ///
    /// # Errors
    /// [`KeyError`]; the old keys then stay.
    pub fn rotate(&self) -> Result<(), KeyError> {
        self.keys.rotate(&*self.nsm, self.now())
    }

    /// Forgets what is over: keys, and requests that need not be remembered any longer.
    pub fn tidy(&self) {
        let now = self.now();
        self.keys.retire(now);
        let generation = self.keys.current();
        self.replay
            .forget(generation.steady_second(generation.time(now)));
    }

    /// Now.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Takes what there is for large answers, as large requests do; for tests of who else is served then.
    #[doc(hidden)]
    pub async fn hold_all_answer_memory(&self) -> Option<budget::Share> {
        self.state.answers.take(usize::MAX / 2).await.ok()
    }

    /// How many requests are remembered against replay.
    pub fn remembered(&self) -> usize {
        self.replay.len()
    }

    /// From now on [`readyz`](router) says that no new requests should come, and channels end once they have answered.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.channels.drain();
    }

    /// Waits until no channel is open.
    pub async fn channels_ended(&self) {
        self.channels.ended().await;
    }
}

/// The outer router.
///
/// | endpoint | answers |
/// | --- | --- |
/// | `GET /v1/attestation?nonce=` | document and manifest, `application/cbor` |
/// | `POST /v1/gateway` | a sealed answer, `message/ohttp-res` |
/// | `GET /v1/channel` | 101, then the attested channel |
/// | `GET /v1/development-policy` | a trust policy, only when simulating |
/// | `GET /v1/log`, `/v1/log/leaves` | the log of receipts, for the host to keep |
/// | `GET /healthz` | 200 |
/// | `GET /readyz` | 200 with the stages of the start in JSON, or 503 while draining, without valid keys, or where its engine ended or hangs |
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/attestation", get(attestation::attestation))
        .route("/v1/gateway", post(gateway::gateway))
        .route("/v1/channel", get(channel::channel))
        .route("/v1/development-policy", get(development_policy))
        .route("/v1/log", get(log::logs))
        .route("/v1/log/leaves", get(log::leaves))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .fallback(async || NOT_FOUND)
        .method_not_allowed_fallback(async || METHOD_NOT_ALLOWED)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            observe,
        ))
        .with_state(service)
}

/// The router of connections that come after the signal to stop: the logs, for the host to store their last leaves, and the state of the
/// service. Any other request is not answered, as if nothing listened any more: its sender turns to another replica.
pub fn closing_router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/log", get(log::logs))
        .route("/v1/log/leaves", get(log::leaves))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .fallback(async || Extension(HangUp))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            observe,
        ))
        .with_state(service)
}

/// What the listener for metrics answers: `GET /metrics`, Prometheus text.
pub fn metrics_router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(async || NOT_FOUND)
        .with_state(service)
}

/// Documents made at once, and callers that may wait for one: each costs some hundred bytes.
const NSM_CONCURRENCY: usize = 1;
const NSM_WAITING: usize = 4096;

/// Logs and counts a request by what this program knows of it: nothing here was chosen by the caller.
async fn observe(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let started = Instant::now();
    let response = next.run(request).await;
    let status = response.status();
    let code = response
        .extensions()
        .get::<ProblemCode>()
        .map(|code| code.0);
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    if status.is_server_error() {
        tracing::warn!(route, status = status.as_u16(), code, micros, "answered");
    } else {
        tracing::debug!(route, status = status.as_u16(), code, micros, "answered");
    }
    service
        .metrics
        .requests
        .get_or_create(&Labels {
            route,
            status: status.as_u16(),
        })
        .inc();
    response
}

async fn development_policy(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    let root = service.nsm.development_root().ok_or(NOT_SIMULATED)?;
    let pinned: BTreeMap<_, _> = service
        .nsm
        .pcrs()
        .iter()
        .filter(|(index, _)| **index < 3)
        .map(|(index, pcr)| (*index, *pcr))
        .collect();
    let policy = TrustAnchor::development(root).ok().and_then(|anchor| {
        let manifest = ServiceManifest::decode(&service.keys.current().manifest).ok()?;
        Policy::for_development(anchor, pinned, &manifest).ok()
    });
    let policy = policy.ok_or(POLICY_FAILED)?.to_json();
    Ok((
        [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        policy,
    )
        .into_response())
}

async fn ready(State(service): State<Arc<Service>>) -> Result<Json<Value>, Problem> {
    if service.draining.load(Ordering::Relaxed) {
        Err(DRAINING)
    } else if !service.keys.current().accepts(service.now()) {
        Err(attestation::KEYS_EXPIRED)
    } else {
        match service.state.embedder.health() {
            Health::Ended => return Err(ENGINE_DEAD),
            Health::Stuck => return Err(ENGINE_STUCK),
            Health::Sound => {}
        }
        let start = service.start.as_ref();
        Ok(Json(json!({
            "status": "ready",
            "simulated": service.nsm.is_simulated(),
            "key_release": start.map(|(_, release)| release.as_str()),
            "start_ms": start.map(|(stages, _)| stages.to_json()),
        })))
    }
}

async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    let metrics = &service.metrics;
    metrics.replay_entries.set(service.replay.len() as u64);
    metrics
        .memory_peak
        .set(service.memory.stated_peak_mib() * 1024 * 1024);
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        metrics.encode(),
    )
}

const NOT_FOUND: Problem = Problem::new(
    StatusCode::NOT_FOUND,
    "ENDPOINT_UNKNOWN",
    "There is no such endpoint",
    "Private endpoints are reached through POST /v1/gateway only.",
);
const METHOD_NOT_ALLOWED: Problem = Problem::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "METHOD_NOT_ALLOWED",
    "The endpoint answers another method",
    "Use GET, or POST for the gateway.",
);
const NOT_SIMULATED: Problem = Problem::new(
    StatusCode::NOT_FOUND,
    "POLICY_NOT_SERVED",
    "This enclave serves no trust policy",
    "Use the policy that was released with the image; a judged service can never supply its own.",
);
const POLICY_FAILED: Problem = Problem::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "POLICY_FAILED",
    "The development policy could not be written",
    "Restart the service, and report it if it stays.",
);
const ENGINE_DEAD: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "ENGINE_DEAD",
    "An inference thread has ended",
    "Restart the enclave.",
);
const ENGINE_STUCK: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "ENGINE_STUCK",
    "An inference thread has computed one batch for longer than a whole request may take",
    "Restart the enclave if it stays.",
);
const DRAINING: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "DRAINING",
    "The service is shutting down",
    "Use another replica.",
);
