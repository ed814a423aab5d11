//! What an operator sees of a request: counts and times, never content, query or address.

use crate::problem::Problem;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Buf as _, Bytes};
use http::{HeaderValue, StatusCode, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use prometheus_client::registry::Registry;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The only names that a label can have: nothing that a client writes becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Route {
    Attestation,
    Gateway,
    DevelopmentPolicy,
    Log,
    Operations,
    Web,
}

impl Route {
    fn of(path: &str) -> Self {
        match path {
            "/v1/attestation" => Self::Attestation,
            "/v1/gateway" => Self::Gateway,
            "/v1/development-policy" => Self::DevelopmentPolicy,
            "/v1/log" => Self::Log,
            log if log.starts_with("/v1/log/") => Self::Log,
            "/healthz" | "/readyz" => Self::Operations,
            _ => Self::Web,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Attestation => "attestation",
            Self::Gateway => "gateway",
            Self::DevelopmentPolicy => "development-policy",
            Self::Log => "log",
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

/// A coarse step: on a quiet service a sum, or a fine step, would be the time or the length of one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStep {
    route: Route,
    upto: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Step {
    upto: &'static str,
}

/// Seconds that something took at most, in steps of ten.
fn seconds(took: Duration) -> &'static str {
    match took.as_millis() {
        0..10 => "0.01",
        10..100 => "0.1",
        100..1_000 => "1",
        1_000..10_000 => "10",
        _ => "+Inf",
    }
}

/// Bytes of a body at most, in steps of 32.
fn bytes(count: u64) -> &'static str {
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

/// The proxy's counters.
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
    log_refusals: Family<ByCode, Counter>,
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
            log_refusals: Family::default(),
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
            "Relayed requests by the seconds that they waited for their place or turn, at most",
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
            "log_refusals",
            "Tree heads and leaves of the enclave that were not taken",
            metrics.log_refusals.clone(),
        );
        registry.register(
            "log_leaves",
            "Receipts in the stored transparency log",
            metrics.log_leaves.clone(),
        );
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// Counts how long a request waited for its place or turn.
    pub(crate) fn waited(&self, took: Duration) {
        let upto = seconds(took);
        self.waits.get_or_create(&Step { upto }).inc();
    }

    /// Counts a pull that came to nothing.
    pub(crate) fn log_refused(&self, code: &'static str) {
        self.log_refusals.get_or_create(&ByCode { code }).inc();
    }

    /// Says how many receipts are stored.
    pub(crate) fn log_stored(&self, leaves: u64) {
        self.log_leaves.set(leaves);
    }

    /// The text that Prometheus scrapes.
    pub(crate) fn expose(&self) -> Response {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        let kind =
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        ([(header::CONTENT_TYPE, kind)], text).into_response()
    }
}

/// Counts, times and logs a request, to the last byte of its answer.
pub(crate) async fn observe(
    State(metrics): State<Metrics>,
    request: Request,
    next: Next,
) -> Response {
    let mut observation = Observation::begin(metrics, Route::of(request.uri().path()));
    let received = observation.received.clone();
    let request = request.map(|body| {
        Body::new(Counted {
            inner: body,
            bytes: received,
            observation: None,
        })
    });
    let response = next.run(request).await;
    observation.status = response.status().as_u16();
    observation.problem = response.extensions().get::<Problem>().copied();
    let bytes = observation.sent.clone();
    response.map(|body| {
        Body::new(Counted {
            inner: body,
            bytes,
            observation: Some(observation),
        })
    })
}

/// One request; told when dropped, for a client may leave at any moment.
struct Observation {
    metrics: Metrics,
    route: Route,
    begun: Instant,
    status: u16,
    problem: Option<Problem>,
    received: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    complete: bool,
}

impl Observation {
    fn begin(metrics: Metrics, route: Route) -> Self {
        metrics.in_flight.get_or_create(&ByRoute { route }).inc();
        Self {
            metrics,
            route,
            begun: Instant::now(),
            // The client left before there was an answer (nginx's number for it).
            status: 499,
            problem: None,
            received: Arc::default(),
            sent: Arc::default(),
            complete: false,
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let Self {
            metrics,
            route,
            status,
            ..
        } = self;
        let label = ByRoute { route: *route };
        let elapsed = self.begun.elapsed();
        let received = self.received.load(Ordering::Relaxed);
        let sent = self.sent.load(Ordering::Relaxed);
        metrics.in_flight.get_or_create(&label).dec();
        metrics
            .requests
            .get_or_create(&ByOutcome {
                route: *route,
                status: *status,
            })
            .inc();
        for (family, upto) in [
            (&metrics.times, seconds(elapsed)),
            (&metrics.requests_of, bytes(received)),
            (&metrics.answers_of, bytes(sent)),
        ] {
            let route = *route;
            family.get_or_create(&ByStep { route, upto }).inc();
        }
        let code = self.problem.map(Problem::code);
        if let Some(code) = code {
            metrics.refusals.get_or_create(&ByCode { code }).inc();
        }
        tracing::info!(
            route = route.name(),
            status,
            code,
            received,
            sent,
            milliseconds = elapsed.as_millis() as u64,
            complete = self.complete,
            "request"
        );
    }
}

/// A body whose bytes are counted.
struct Counted {
    inner: Body,
    bytes: Arc<AtomicU64>,
    observation: Option<Observation>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.bytes
                .fetch_add(data.remaining() as u64, Ordering::Relaxed);
        }
        let ended = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.inner.is_end_stream(),
            _ => false,
        };
        if let Some(observation) = &mut self.observation {
            observation.complete |= ended;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
