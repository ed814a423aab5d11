//! Counters for Prometheus, on a separate listener. Even on a quiet service they reveal nothing of a single request: no sums, and
//! times and lengths in coarse steps only.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use prometheus_client::registry::Registry;

use crate::log::LogError;
use crate::problem::Problem;

/// Every value of the label `route`. Text from clients never becomes a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Route {
    Attestation,
    Gateway,
    Channel,
    DevelopmentPolicy,
    Log,
    Crls,
    /// Every other path under `/v1`.
    Unknown,
    Operations,
    Web,
}

impl Route {
    pub(crate) fn of(path: &str) -> Self {
        match path {
            "/v1/attestation" => Self::Attestation,
            "/v1/gateway" => Self::Gateway,
            "/v1/channel" => Self::Channel,
            "/v1/development-policy" => Self::DevelopmentPolicy,
            "/v1/log" => Self::Log,
            log if log.starts_with("/v1/log/") => Self::Log,
            "/v1/crls" => Self::Crls,
            unknown if unknown.starts_with("/v1/") => Self::Unknown,
            "/healthz" | "/readyz" => Self::Operations,
            _ => Self::Web,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Attestation => "attestation",
            Self::Gateway => "gateway",
            Self::Channel => "channel",
            Self::DevelopmentPolicy => "development-policy",
            Self::Log => "log",
            Self::Crls => "crls",
            Self::Unknown => "unknown",
            Self::Operations => "operations",
            Self::Web => "web",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRoute {
    route: Route,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    route: Route,
    status: u16,
}

/// A coarse step: on a quiet service a sum, or a fine step, would reveal the time or the length of one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStep {
    route: Route,
    upto: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Step {
    upto: &'static str,
}

/// Upper bound of the step of a time, in seconds; each step is ten times the one before.
fn seconds_step(took: Duration) -> &'static str {
    match took.as_millis() {
        0..10 => "0.01",
        10..100 => "0.1",
        100..1_000 => "1",
        1_000..10_000 => "10",
        _ => "+Inf",
    }
}

/// Upper bound of the step of a body's length, in bytes; each step is 32 times the one before.
fn bytes_step(count: u64) -> &'static str {
    match count {
        0..=32_768 => "32768",
        32_769..=1_048_576 => "1048576",
        _ => "+Inf",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    code: &'static str,
}

/// The outcome of a request.
pub(crate) struct Ended {
    pub(crate) route: Route,
    pub(crate) status: u16,
    /// Set where the proxy itself answered.
    pub(crate) problem: Option<Problem>,
    pub(crate) took: Duration,
    /// Bytes of the request's body.
    pub(crate) received: u64,
    /// Bytes of the answer's body.
    pub(crate) sent: u64,
}

/// The proxy's counters. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    requests: Family<ByOutcome, Counter>,
    refusals: Family<ByCode, Counter>,
    times: Family<ByStep, Counter>,
    waits: Family<Step, Counter>,
    requests_of: Family<ByStep, Counter>,
    answers_of: Family<ByStep, Counter>,
    in_flight: Family<ByRoute, Gauge>,
    documents: Counter,
    documents_for: Counter,
    log_refusals: Family<ByCode, Counter>,
    log_failures: Family<ByCode, Counter>,
    log_leaves: Gauge<u64, AtomicU64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            requests: Family::default(),
            refusals: Family::default(),
            times: Family::default(),
            waits: Family::default(),
            requests_of: Family::default(),
            answers_of: Family::default(),
            in_flight: Family::default(),
            documents: Counter::default(),
            documents_for: Counter::default(),
            log_refusals: Family::default(),
            log_failures: Family::default(),
            log_leaves: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("clearseal_proxy");
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "refusals",
            "Problems that the proxy itself answered",
            metrics.refusals.clone(),
        );
        registry.register(
            "times",
            "Requests by the seconds from their head to the answer's last byte, at most",
            metrics.times.clone(),
        );
        registry.register(
            "waits",
            "Relayed requests by the seconds that they waited for a permit, at most",
            metrics.waits.clone(),
        );
        registry.register(
            "request_sizes",
            "Requests by the bytes of their body, at most",
            metrics.requests_of.clone(),
        );
        registry.register(
            "answer_sizes",
            "Answers by the bytes of their body, at most",
            metrics.answers_of.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests not yet answered to the end",
            metrics.in_flight.clone(),
        );
        registry.register(
            "shared_documents",
            "Documents asked for on behalf of clients that may share one",
            metrics.documents.clone(),
        );
        registry.register(
            "shared_documents_clients",
            "Clients that share those documents",
            metrics.documents_for.clone(),
        );
        registry.register(
            "log_refusals",
            "Heads and leaves of the log that were refused, by code: the enclave, or a server in its place, is dishonest",
            metrics.log_refusals.clone(),
        );
        registry.register(
            "log_failures",
            "Other pulls of the log that failed, by code: missing leaves, an enclave that does not answer, a full disk",
            metrics.log_failures.clone(),
        );
        registry.register(
            "log_leaves",
            "Leaves of the stored transparency logs: receipts, and one for each key",
            metrics.log_leaves.clone(),
        );
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// Counts a request that begins.
    pub(crate) fn begun(&self, route: Route) {
        self.in_flight.get_or_create(&ByRoute { route }).inc();
    }

    /// Counts a request that ended.
    pub(crate) fn ended(&self, ended: &Ended) {
        let Ended {
            route,
            status,
            problem,
            took,
            received,
            sent,
        } = *ended;
        self.in_flight.get_or_create(&ByRoute { route }).dec();
        let outcome = ByOutcome { route, status };
        self.requests.get_or_create(&outcome).inc();
        for (family, upto) in [
            (&self.times, seconds_step(took)),
            (&self.requests_of, bytes_step(received)),
            (&self.answers_of, bytes_step(sent)),
        ] {
            family.get_or_create(&ByStep { route, upto }).inc();
        }
        if let Some(problem) = problem {
            let code = problem.code();
            self.refusals.get_or_create(&ByCode { code }).inc();
        }
    }

    /// Counts the time that a request waited for its permit.
    pub(crate) fn waited(&self, took: Duration) {
        let upto = seconds_step(took);
        self.waits.get_or_create(&Step { upto }).inc();
    }

    /// Counts a document, and the clients that share it.
    pub(crate) fn shared(&self, clients: usize) {
        self.documents.inc();
        self.documents_for.inc_by(clients as u64);
    }

    /// Counts a pull that failed, as a refusal if it shows that the enclave is dishonest.
    pub(crate) fn log_failed(&self, error: &LogError) {
        let counters = match error.is_misbehaviour() {
            true => &self.log_refusals,
            false => &self.log_failures,
        };
        let code = error.code();
        counters.get_or_create(&ByCode { code }).inc();
    }

    /// Sets the number of stored leaves.
    pub(crate) fn log_stored(&self, leaves: u64) {
        self.log_leaves.set(leaves);
    }

    /// Writes the text that Prometheus scrapes.
    pub(crate) fn expose(&self) -> Response {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        let kind =
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        let fresh = HeaderValue::from_static("no-store");
        let fields = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, fresh)];
        (fields, text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_the_route_that_answers_it() {
        for (path, route) in [
            ("/v1/attestation", Route::Attestation),
            ("/v1/gateway", Route::Gateway),
            ("/v1/channel", Route::Channel),
            ("/v1/development-policy", Route::DevelopmentPolicy),
            ("/v1/log", Route::Log),
            ("/v1/log/0/head", Route::Log),
            ("/v1/crls", Route::Crls),
            ("/v1/models", Route::Unknown),
            ("/v1/embeddings", Route::Unknown),
            ("/v1/logs", Route::Unknown),
            ("/v1/gateway/", Route::Unknown),
            ("/healthz", Route::Operations),
            ("/readyz", Route::Operations),
            ("/", Route::Web),
            ("/v1", Route::Web),
            ("/v1.js", Route::Web),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
