//! One exchange with an enclave: which enclave is asked, how often, and what its failures mean.

use std::error::Error;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::headers::{ENCLAVE_HINT, filter_answer, filter_request};
use super::{Limits, Relay};
use crate::body::collect;
use crate::connector;
use crate::problem::Problem;

/// Answers of an announced length up to this are buffered whole, so that head and body leave in one write.
pub(super) const SMALL_ANSWER_BYTES: u64 = 64 << 10;

impl Relay {
    /// Sends a request of the proxy itself, and returns status and body, of at most `limit` bytes.
    pub(crate) async fn fetch(
        &self,
        path: &str,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), Problem> {
        let request = Request::builder()
            .uri(path)
            .body(Bytes::new())
            .map_err(|_| Problem::NotFound)?;
        let deadline = self.probe_deadline(Duration::from_secs(10));
        let answer = self.ask(request, deadline).await?;
        let status = answer.status();
        let body = collect(answer.into_body(), limit as u64, deadline).await?;
        Ok((status, body))
    }

    /// Sends a request of the proxy itself to this enclave alone, as [`fetch`](Self::fetch) does.
    pub(crate) async fn fetch_from(
        &self,
        enclave: usize,
        path: &str,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), Problem> {
        let uri = path.parse().map_err(|_| Problem::NotFound)?;
        let mut request = Request::new(Full::default());
        *request.uri_mut() = enclave_uri(&uri, enclave)?;
        let deadline = self.probe_deadline(Duration::from_secs(10));
        let answer = self.ask_once(request, deadline).await?;
        let status = answer.status();
        let body = collect(answer.into_body(), limit as u64, deadline).await?;
        Ok((status, body))
    }

    /// The end of a short exchange that begins now.
    pub(super) fn probe_deadline(&self, longest: Duration) -> Instant {
        let Limits { first_byte, .. } = self.limits;
        Instant::now() + first_byte.min(longest)
    }

    /// Sends a request to an enclave, and to another one where that cannot be reached.
    pub(super) async fn ask(
        &self,
        request: Request<Bytes>,
        deadline: Instant,
    ) -> Result<Response<Incoming>, Problem> {
        let (head, body) = request.into_parts();
        let headers = filter_request(&head.headers);
        let is_get = head.method == Method::GET;
        // A GET changes nothing. It is sent a second time, because the first may have gone to a connection that was closing; with
        // one enclave, to that one. Another enclave cannot open a request that was sealed to a lost one; its answer tells the client
        // so.
        let attempts = self.fleet.len().max(if is_get { 2 } else { 1 });
        let mut tried = Vec::with_capacity(attempts);
        loop {
            let index = self.fleet.choose(headers.get(ENCLAVE_HINT), &tried);
            let mut outgoing = Request::new(Full::new(body.clone()));
            *outgoing.uri_mut() = enclave_uri(&head.uri, index)?;
            outgoing.headers_mut().clone_from(&headers);
            outgoing.method_mut().clone_from(&head.method);
            let is_fair = deadline >= Instant::now() + self.limits.reserved() / 2;
            let answer = self.ask_once(outgoing, deadline).await;
            tried.push(index);
            let is_last = tried.len() >= attempts;
            match answer {
                // This enclave is starting or draining; another one may be ready.
                Ok(answer) if is_get && !is_last && self.fleet.len() > 1 && is_unready(&answer) => {
                    self.fleet.record_failure(index);
                }
                Ok(answer) => {
                    self.fleet
                        .record_answer(index, answer.headers().get(ENCLAVE_HINT));
                    return Ok(answer);
                }
                Err(problem) => {
                    let unreachable = matches!(problem, Problem::EnclaveUnreachable);
                    // An enclave that had almost no time is not at fault.
                    if unreachable || is_fair && matches!(problem, Problem::EnclaveTimeout) {
                        self.fleet.record_failure(index);
                    }
                    if is_last || !unreachable {
                        return Err(problem);
                    }
                }
            }
        }
    }

    async fn ask_once(
        &self,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Response<Incoming>, Problem> {
        let first_byte = (Instant::now() + self.limits.first_byte).min(deadline);
        match tokio::time::timeout_at(first_byte, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(classify_error(&error)),
            Err(_) => Err(Problem::EnclaveTimeout),
        }
    }
}

/// Buffers a short answer, and drops the header fields that do not pass.
pub(crate) async fn collect_answer(
    response: Response<Incoming>,
    deadline: Instant,
) -> Result<Response, Problem> {
    let (head, body) = response.into_parts();
    let body = collect(body, SMALL_ANSWER_BYTES, deadline).await?;
    Ok(Response::from_parts(filter_answer(head), Body::from(body)))
}

/// The URI for this enclave: path and query of the client's. The authority is a name for the connection pool only.
pub(crate) fn enclave_uri(uri: &Uri, enclave: usize) -> Result<Uri, Problem> {
    let path = uri.path_and_query().ok_or(Problem::NotFound)?;
    Uri::builder()
        .scheme("http")
        .authority(connector::pool_name(enclave))
        .path_and_query(path.clone())
        .build()
        .map_err(|_| Problem::NotFound)
}

fn is_unready(answer: &Response<Incoming>) -> bool {
    answer.status() == StatusCode::SERVICE_UNAVAILABLE
}

/// Distinguishes a lost connection from bytes that are not HTTP.
pub(crate) fn classify_error(error: &(dyn Error + 'static)) -> Problem {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(http) = inner.downcast_ref::<hyper::Error>()
            && (http.is_parse() || http.is_parse_too_large())
        {
            return Problem::EnclaveInvalidAnswer;
        }
        cause = inner.source();
    }
    Problem::EnclaveUnreachable
}
