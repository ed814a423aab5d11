//! The outer router, which anyone may call, and the private one, which is reached only through sealed requests.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};

use crate::metrics::Labels;
use crate::serve::HangUp;

mod admission;
mod answer_steps;
mod attestation;
mod body;
pub mod budget;
mod channel;
mod commitments;
pub mod counters;
mod development_policy;
mod embeddings;
mod encoding;
mod error;
mod exchange;
mod gateway;
mod indexes;
pub mod inner;
mod input;
mod log;
pub mod models;
mod offload;
#[cfg(test)]
mod openapi;
mod problem;
mod prompt;
mod readiness;
mod receipt;
pub mod replay;
mod request;
mod request_error;
mod rerank;
mod service;
pub mod state;
mod unseal;

pub use admission::Limits;
pub use answer_steps::AnswerSteps;
pub use error::ApiError;
pub use problem::Problem;
pub use service::Service;

use problem::ProblemCode;

/// The outer router.
///
/// | endpoint | answers |
/// | --- | --- |
/// | `GET /v1/attestation?nonce=` | document and manifest, `application/cbor` |
/// | `POST /v1/gateway` | a sealed answer, `message/ohttp-res` |
/// | `GET /v1/channel` | 101, then the attested channel |
/// | `GET /v1/development-policy` | a trust policy, only when simulating |
/// | `GET /v1/log`, `/v1/log/leaves` | the log of receipts, for the host to store |
/// | `GET /healthz` | 200 |
/// | `GET /readyz` | 200 with the stages of the start in JSON; 503 while draining, without valid keys, or when the engine has ended or hangs |
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/attestation", get(attestation::attestation))
        .route("/v1/gateway", post(gateway::gateway))
        .route("/v1/channel", get(channel::channel))
        .route(
            "/v1/development-policy",
            get(development_policy::development_policy),
        )
        .route("/v1/log", get(log::logs))
        .route("/v1/log/leaves", get(log::leaves))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness::ready))
        .fallback(async || NOT_FOUND)
        .method_not_allowed_fallback(async || METHOD_NOT_ALLOWED)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            observe,
        ))
        .with_state(service)
}

/// Router for connections accepted after the signal to stop: the logs, so that the host can store their last leaves, and the
/// state of the service. For any other request the connection is closed without an answer, as if nothing listened: the sender
/// then turns to another replica.
pub fn closing_router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/log", get(log::logs))
        .route("/v1/log/leaves", get(log::leaves))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness::ready))
        .fallback(async || Extension(HangUp))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            observe,
        ))
        .with_state(service)
}

/// Router of the metrics listener: `GET /metrics`, Prometheus text.
pub fn metrics_router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(async || NOT_FOUND)
        .with_state(service)
}

/// Logs and counts a request. Every value recorded here is this program's own; the caller chooses none of them.
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

async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        service.encode_metrics(),
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
