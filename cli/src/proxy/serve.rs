//! HTTP server of the local port.

use super::Stop;
use super::gate::Gate;
use super::receipts::ReceiptFile;
use super::status::{self, Counts};
use super::truncation;
use crate::args::ProxyArgs;
use anyhow::Result;
use bytes::Bytes;
use clearseal_client::{Client, Error};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// Largest body: what fits into one sealed message.
const MAX_BODY: usize = protocol::inner::MAX_REQUEST - (64 << 10);
/// Bodies in memory at once, in bytes; above it new ones wait before they are read.
const MEMORY: usize = 128 << 20;
/// Part of [`MEMORY`] that is handed out at a time.
const PORTION: usize = 64 << 10;
/// For a request's head, and for all of its body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Local connections; above it new ones wait.
const MAX_CONNECTIONS: usize = 1024;
/// Pauses between attempts while the service is away: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// For requests that are under way when the proxy is told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything that requests share.
pub(super) struct Proxy {
    client: Client,
    counts: Counts,
    receipts: Option<ReceiptFile>,
    gate: Gate,
    /// A host gives one address a part of its places: more at once would be refused by it.
    places: Arc<Semaphore>,
    concurrency: u16,
    /// Portions of [`MEMORY`] that are free.
    memory: Arc<Semaphore>,
    /// Longest that a request waits for its memory, and for its place.
    queue_timeout: Duration,
    /// Longest that a request is held while the service is away.
    wait: Duration,
    refuse_long: bool,
    /// Set when the proxy is told to stop: requests wait no longer.
    stopping: watch::Sender<bool>,
}

impl Proxy {
    pub(super) fn new(client: Client, args: &ProxyArgs, receipts: Option<ReceiptFile>) -> Self {
        Self {
            client,
            counts: Counts::default(),
            receipts,
            gate: Gate::new(args),
            places: Arc::new(Semaphore::new(usize::from(args.concurrency))),
            concurrency: args.concurrency,
            memory: Arc::new(Semaphore::new(MEMORY / PORTION)),
            queue_timeout: Duration::from_secs(args.queue_timeout.into()),
            wait: Duration::from_secs(args.wait.into()),
            refuse_long: args.refuse_long,
            stopping: watch::Sender::new(false),
        }
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Reply {
        match self.route(request).await {
            Ok(reply) => reply,
            Err(refusal) => refusal.into_reply(),
        }
    }

    async fn route(self: &Arc<Self>, request: Request<Incoming>) -> Result<Reply, Refusal> {
        self.gate.admit(request.uri(), request.headers())?;
        let path = without_trailing_slash(request.uri().path());
        match (request.method(), path) {
            // hyper sends no content to HEAD (RFC 9110 §9.3.2).
            (&Method::GET | &Method::HEAD, "/") => {
                self.gate.authorize_status(request.headers())?;
                Ok(reply(
                    StatusCode::OK,
                    "text/html; charset=utf-8",
                    status::page(&self.client, &self.counts),
                ))
            }
            (&Method::GET | &Method::HEAD, "/healthz") => {
                self.gate.authorize_status(request.headers())?;
                let status = match self.client.is_ready() {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                let json = status::json(&self.client, &self.counts);
                Ok(reply(status, "application/json", json.to_string()))
            }
            (&Method::GET | &Method::HEAD | &Method::POST, path) if path.starts_with("/v1/") => {
                self.gate.authorize(request.headers())?;
                self.relay(request).await
            }
            (_, path) => {
                self.gate.authorize_status(request.headers())?;
                match path {
                    "/" | "/healthz" => Ok(refuse_method("GET, HEAD")),
                    path if path.starts_with("/v1/") => Ok(refuse_method("GET, HEAD, POST")),
                    _ => Err(Refusal::NOT_FOUND),
                }
            }
        }
    }

    /// Waits for permits of a limited resource, up to `queue_timeout`.
    async fn reserve(
        &self,
        scarce: &Arc<Semaphore>,
        count: u32,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = Arc::clone(scarce).acquire_many_owned(count);
        match tokio::time::timeout(self.queue_timeout, permit).await {
            Ok(permit) => permit.map_err(|_| Refusal::BUSY),
            Err(_) => Err(Refusal::BUSY),
        }
    }

    async fn relay(self: &Arc<Self>, request: Request<Incoming>) -> Result<Reply, Refusal> {
        let (parts, body) = request.into_parts();
        let portions = portions(body.size_hint().upper());
        let memory = self.reserve(&self.memory, portions).await?;
        let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect());
        let body = match body.await {
            Err(_) => return Err(Refusal::SLOW),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Refusal::TOO_LARGE),
            Ok(Err(_)) => return Err(Refusal::BROKEN),
            Ok(Ok(body)) => body.to_bytes(),
        };
        let is_embedding = without_trailing_slash(parts.uri.path()) == "/v1/embeddings";
        let body = match self.refuse_long && is_embedding {
            true => truncation::forbid_truncation(body).map_err(|_| Refusal::TRUNCATION)?,
            false => body,
        };
        let mut sealed = Request::new(body);
        // A HEAD would be computed as a GET is, and its sealed answer is read as one.
        *sealed.method_mut() = match parts.method {
            Method::HEAD => Method::GET,
            method => method,
        };
        *sealed.uri_mut() = parts.uri;
        // The enclave needs no more. An API key is between this proxy and its clients.
        for name in [
            header::CONTENT_TYPE,
            header::CONTENT_ENCODING,
            header::ACCEPT,
        ] {
            if let Some(value) = parts.headers.get(&name) {
                sealed.headers_mut().insert(name, value.clone());
            }
        }
        let place = self.reserve(&self.places, 1).await?;
        let outcome = self
            .exchange_or_wait(&sealed, Arc::new((memory, place)))
            .await;
        if outcome.is_err() {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Sends a request, again and again while the service is away, for at most `wait`. Ends if the client leaves meanwhile.
    async fn exchange_or_wait(
        self: &Arc<Self>,
        sealed: &Request<Bytes>,
        permits: Arc<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    ) -> Result<Reply, Refusal> {
        let end = Instant::now() + self.wait;
        let mut pause = FIRST_PAUSE;
        loop {
            let (proxy, permits) = (Arc::clone(self), Arc::clone(&permits));
            let sealed = sealed.clone();
            // A separate task, because hyper drops this future when the client leaves, and the receipt of a sealed request must
            // be written.
            let exchange = tokio::spawn(async move {
                let answer = proxy.exchange(sealed).await;
                drop(permits);
                answer
            });
            let outcome = exchange
                .await
                .unwrap_or_else(|_| Err(Refusal::of(&Error::Internal)));
            let next = Instant::now() + pause;
            match &outcome {
                Err(refusal) if refusal.is_transient && next < end => {}
                _ => return outcome,
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.wait_until_stopping() => return outcome,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn wait_until_stopping(&self) {
        let mut stopping = self.stopping.subscribe();
        // Fails only if the sender is gone, which is `self`'s.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// One sealed request. Returns when the receipt of its answer is on the disk.
    async fn exchange(&self, sealed: Request<Bytes>) -> Result<Reply, Refusal> {
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let length = u64::try_from(sealed.body().len()).unwrap_or(u64::MAX);
        let answer = self.client.fetch(sealed).await;
        let answer = answer.map_err(|error| Refusal::of(&error))?;
        self.counts
            .sealed_bytes
            .fetch_add(length, Ordering::Relaxed);
        match answer.status().is_success() {
            true => count(&self.counts.answered),
            false => count(&self.counts.refused),
        };
        let mut fields = answer.headers().iter();
        if let Some((_, kind)) = fields.find(|(name, _)| name == "content-type") {
            let truncated = truncation::count_truncated(kind.as_bytes(), answer.content());
            self.counts
                .truncated
                .fetch_add(truncated as u64, Ordering::Relaxed);
        }
        if let (Some(file), Some(bundle)) = (&self.receipts, answer.bundle(false)) {
            let written = bundle.to_json().map_err(anyhow::Error::from);
            // The user relies on receipts: an answer without its line would be a silent gap.
            let written = match written {
                Ok(json) => file.write(&json).await,
                Err(error) => Err(error),
            };
            if written.is_err() {
                return Ok(Refusal::RECEIPTS.into_reply());
            }
        }
        let mut response = answer.into_response();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().remove(header::DATE);
        Ok(response.map(Full::new))
    }
}

type Reply = Response<Full<Bytes>>;

/// Accepts connections until the first stop signal. Returns when the requests in progress have ended, after [`DRAIN_TIMEOUT`], or at
/// the second signal.
pub(super) async fn serve(listener: TcpListener, proxy: Arc<Proxy>, mut stop: Stop) -> Result<()> {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let place = Arc::clone(&connections).acquire_owned().await?;
            anyhow::Ok((listener.accept().await, place))
        };
        let (accepted, place) = tokio::select! {
            next = next => next?,
            () = stop.wait() => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely: some come back when connections end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Without it small answers wait for the acknowledgement of what came before.
        let _ = stream.set_nodelay(true);
        let (proxy, watcher) = (Arc::clone(&proxy), graceful.watcher());
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let proxy = Arc::clone(&proxy);
                async move { Ok::<_, Infallible>(proxy.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // A client may close the connection at any time.
            let _ = watcher.watch(connection).await;
            drop(place);
        });
    }
    drop(listener);
    proxy.stopping.send_replace(true);
    let ended = async {
        graceful.shutdown().await;
        // Also wait for requests whose clients have left. Nothing closes the semaphore, so this does not fail.
        let _ = proxy.places.acquire_many(proxy.concurrency.into()).await;
    };
    tokio::select! {
        () = ended => {}
        () = tokio::time::sleep(DRAIN_TIMEOUT) => {}
        () = stop.wait() => {}
    }
    Ok(())
}

/// A path as it is compared: some clients add a slash at its end.
fn without_trailing_slash(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(path) => path,
    }
}

/// Number of portions of [`MEMORY`] for a body of at most `longest` bytes; a body of unknown length reserves the maximum.
fn portions(longest: Option<u64>) -> u32 {
    let longest = longest.and_then(|length| usize::try_from(length).ok());
    let longest = longest.unwrap_or(MAX_BODY).min(MAX_BODY);
    u32::try_from(longest.div_ceil(PORTION).max(1)).unwrap_or(u32::MAX)
}

/// An answer of the proxy's own, in OpenAI's error object.
pub(super) struct Refusal {
    status: StatusCode,
    code: Cow<'static, str>,
    message: Cow<'static, str>,
    /// Whether the same request may succeed later.
    is_transient: bool,
}

impl Refusal {
    pub(super) const HOST: Self = Self::new(
        StatusCode::FORBIDDEN,
        "HOST_NOT_LOCAL",
        "the Host field does not name this machine; use 127.0.0.1 or localhost, or start the proxy with --allow-host and the name that clients use",
    );
    pub(super) const ORIGIN: Self = Self::new(
        StatusCode::FORBIDDEN,
        "ORIGIN_REFUSED",
        "web pages are not answered here; a page verifies the enclave by itself",
    );
    pub(super) const KEY: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "API_KEY_WRONG",
        "the request does not have the key of --api-key; send it as `authorization: Bearer KEY`, once",
    );
    const METHOD: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "METHOD_NOT_ALLOWED",
        "this address does not take this method; the Allow header lists those that it takes",
    );
    const NOT_FOUND: Self = Self::new(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "there is nothing at this path; let the client's base URL end with /v1, or try POST /v1/embeddings, GET /v1/models, GET / or GET /healthz",
    );
    const BUSY: Self = Self::new(
        StatusCode::TOO_MANY_REQUESTS,
        "PROXY_BUSY",
        "other requests held this proxy's memory or places for all of --queue-timeout; send it again later, or raise --concurrency",
    )
    .transient();
    const SLOW: Self = Self::new(
        StatusCode::REQUEST_TIMEOUT,
        "BODY_TIMEOUT",
        "the body did not arrive in time; send it again",
    )
    .transient();
    const TOO_LARGE: Self = Self::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "BODY_TOO_LARGE",
        "send fewer texts in one request",
    );
    const BROKEN: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "BODY_INCOMPLETE",
        "the body broke off; send it again",
    );
    const TRUNCATION: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "TRUNCATION_REFUSED",
        "the request asks for truncation, and the proxy was started with --refuse-long; leave `truncate` out, or send false",
    );
    const RECEIPTS: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "RECEIPT_NOT_WRITTEN",
        "the answer came, and its receipt could not be written to the file of --receipts",
    );

    const fn new(status: StatusCode, code: &'static str, message: &'static str) -> Self {
        Self {
            status,
            code: Cow::Borrowed(code),
            message: Cow::Borrowed(message),
            is_transient: false,
        }
    }

    const fn transient(mut self) -> Self {
        self.is_transient = true;
        self
    }

    fn of(error: &Error) -> Self {
        let status = match error {
            Error::Exchange(_) => StatusCode::BAD_GATEWAY,
            Error::RequestInvalid => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            status,
            code: error.code().to_owned().into(),
            message: format!("{error}. {}", error.remedy()).into(),
            is_transient: error.is_transient(),
        }
    }

    fn into_reply(self) -> Reply {
        let kind = match self.status.is_server_error() {
            true => "server_error",
            false => "invalid_request_error",
        };
        let body = serde_json::json!({
            "error": {"message": self.message, "type": kind, "param": null, "code": self.code}
        });
        let mut reply = reply(self.status, "application/json", body.to_string());
        let headers = reply.headers_mut();
        // RFC 9110 §15.5.2.
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.is_transient {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // OpenAI's clients would otherwise repeat every request that got 408, 429 or 5xx.
        let advice = if self.is_transient { "true" } else { "false" };
        headers.insert("x-should-retry", HeaderValue::from_static(advice));
        reply
    }
}

/// RFC 9110 §15.5.6: the answer lists the allowed methods.
fn refuse_method(methods: &'static str) -> Reply {
    let mut reply = Refusal::METHOD.into_reply();
    let methods = HeaderValue::from_static(methods);
    reply.headers_mut().insert(header::ALLOW, methods);
    reply
}

fn reply(status: StatusCode, kind: &'static str, body: String) -> Reply {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_takes_memory_by_its_length() {
        assert_eq!(portions(Some(0)), 1);
        assert_eq!(portions(Some(PORTION as u64)), 1);
        assert_eq!(portions(Some(PORTION as u64 + 1)), 2);
        let most = portions(None);
        assert_eq!(portions(Some(u64::MAX)), most);
        assert!(most as usize <= MEMORY / PORTION);
    }
}
