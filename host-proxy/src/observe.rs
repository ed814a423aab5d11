//! Logs and counts each request: lengths and time, never content, query or address.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Buf as _, Bytes};
use http::{Method, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::metrics::{Ended, Metrics, Route};
use crate::problem::Problem;
use crate::source::{InFlight, Peer};

/// Counts, times and logs a request until the last byte of its answer.
pub(crate) async fn observe(
    State(metrics): State<Metrics>,
    request: Request,
    next: Next,
) -> Response {
    let mut observation = Observation::begin(metrics, Route::of(request.uri().path()));
    observation.in_flight = Some(Peer::of(&request).begin_request());
    let is_head = request.method() == Method::HEAD;
    let received = observation.received.clone();
    let request = request.map(|body| {
        Body::new(CountedBody {
            inner: body,
            bytes: received,
            observation: None,
        })
    });
    let response = next.run(request).await;
    observation.status = response.status().as_u16();
    observation.problem = response.extensions().get::<Problem>().copied();
    let bytes = observation.sent.clone();
    // hyper polls no body that is empty or not sent, and none beyond its announced length.
    let length = response.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let size = response.body().size_hint().exact().or(length);
    observation.is_complete = is_head || size == Some(0);
    observation.announced = size;
    response.map(|body| {
        Body::new(CountedBody {
            inner: body,
            bytes,
            observation: Some(observation),
        })
    })
}

/// One request. Reported when dropped, because a client may leave at any moment.
struct Observation {
    metrics: Metrics,
    route: Route,
    begun: Instant,
    status: u16,
    problem: Option<Problem>,
    received: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    /// Length of the answer's body, where it is known.
    announced: Option<u64>,
    /// Whether the body has ended, or has no bytes.
    is_complete: bool,
    in_flight: Option<InFlight>,
}

impl Observation {
    fn begin(metrics: Metrics, route: Route) -> Self {
        metrics.begun(route);
        Self {
            metrics,
            route,
            begun: Instant::now(),
            // Kept where the client leaves before the answer (nginx's status for that).
            status: 499,
            problem: None,
            received: Arc::default(),
            sent: Arc::default(),
            announced: None,
            is_complete: false,
            in_flight: None,
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let ended = Ended {
            route: self.route,
            status: self.status,
            problem: self.problem,
            took: self.begun.elapsed(),
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
        };
        self.metrics.ended(&ended);
        let is_complete = self.is_complete || self.announced == Some(ended.sent);
        tracing::info!(
            route = ended.route.name(),
            status = ended.status,
            code = ended.problem.as_ref().map(Problem::code),
            received = ended.received,
            sent = ended.sent,
            milliseconds = ended.took.as_millis() as u64,
            complete = is_complete,
            "request"
        );
    }
}

/// A body whose bytes are counted.
struct CountedBody {
    inner: Body,
    bytes: Arc<AtomicU64>,
    observation: Option<Observation>,
}

impl HttpBody for CountedBody {
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
        let is_complete = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.inner.is_end_stream(),
            _ => false,
        };
        if let Some(observation) = &mut self.observation {
            observation.is_complete |= is_complete;
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
