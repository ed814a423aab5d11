//! HTTP server of the local port.

mod rerank;

use super::Stop;
use super::dialect::{self, Asked, Embedded, Form};
use super::empty::{self, OnEmpty, Split};
use super::gate::Gate;
use super::receipts::ReceiptFile;
use super::refusal::{Refusal, Reply, reply};
use super::routes::{self, Action, Found};
use super::status::{self, Counts};
use super::truncation;
use crate::args::ProxyArgs;
use anyhow::Result;
use bytes::Bytes;
use clearseal_client::{Client, Error, Session};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

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
    skip_empty: bool,
    /// SHA-256 of the last model that was asked about, and whether it has prompts.
    prompts: Mutex<Option<([u8; 32], bool)>>,
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
            skip_empty: args.empty == OnEmpty::Skip,
            prompts: Mutex::default(),
            stopping: watch::Sender::new(false),
        }
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Reply {
        let path = without_trailing_slash(request.uri().path()).to_owned();
        let found = routes::find(request.method(), &path);
        let dialect = found.dialect();
        match self.route(found, request).await {
            Ok(reply) => reply,
            Err(refusal) => refusal.into_reply(dialect),
        }
    }

    async fn route(
        self: &Arc<Self>,
        found: Found<'_>,
        request: Request<Incoming>,
    ) -> Result<Reply, Refusal> {
        let headers = request.headers();
        self.gate.admit(request.uri(), headers)?;
        let (route, rest) = match found {
            Found::Route { route, rest } => (route, rest),
            Found::OtherMethods(_, methods) => {
                self.gate.authorize_status(headers)?;
                return Err(Refusal::METHOD.allow(methods));
            }
            Found::Nothing(_) => {
                self.gate.authorize_status(headers)?;
                return Err(Refusal::NOT_FOUND);
            }
        };
        match route.action.is_status() {
            true => self.gate.authorize_status(headers)?,
            false => self.gate.authorize(headers)?,
        }
        match route.action {
            Action::StatusPage => {
                let page = status::page(&self.client, &self.counts);
                Ok(reply(StatusCode::OK, "text/html; charset=utf-8", page))
            }
            Action::Health => {
                let status = match self.client.is_ready() {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                let json = status::json(&self.client, &self.counts);
                Ok(reply(status, JSON, json.to_string()))
            }
            Action::Ready => match self.client.is_ready() {
                true => Ok(reply(StatusCode::OK, "text/plain", "")),
                false => Err(Refusal::NOT_READY),
            },
            Action::Forward => self.forward(request, rest).await,
            Action::ForwardTo => self.forward_to(request, rest).await,
            Action::Embed(form) => self.embed(request, form).await,
            Action::Rerank(form) => self.rerank(request, form).await,
            Action::OllamaModels => self.list_models().await,
            Action::OllamaVersion => Ok(reply(StatusCode::OK, JSON, dialect::write_version())),
            Action::TeiInfo => {
                let session = self.connect().await?;
                let model = &session.manifest().model;
                let info = dialect::write_info(model, !self.refuse_long, self.concurrency);
                Ok(reply(StatusCode::OK, JSON, info))
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Session>, Refusal> {
        let session = self.client.connect().await;
        session.map_err(|error| Refusal::of(&error))
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

    /// Seals a request that is in OpenAI's form.
    async fn forward(
        self: &Arc<Self>,
        request: Request<Incoming>,
        rest: &str,
    ) -> Result<Reply, Refusal> {
        let (parts, body) = request.into_parts();
        let (body, memory) = self.receive(body).await?;
        // The path as it came below `/v1/`, with its query and a slash at its end.
        let target = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
        let target = target.strip_prefix("/openai").unwrap_or(target);
        if parts.method == Method::POST && rest == "embeddings" {
            return self
                .forward_texts(target, &parts.headers, body, memory)
                .await;
        }
        let body = match self.refuse_long && rest == "rerank" {
            true => truncation::forbid_truncation(body).map_err(|_| Refusal::TRUNCATION)?,
            false => body,
        };
        let sealed = seal_ready(parts.method, target, &parts.headers, body)?;
        Ok(self.send(sealed, memory).await?.map(Full::new))
    }

    /// Seals OpenAI's request for embeddings by the model that the path names.
    async fn forward_to(
        self: &Arc<Self>,
        request: Request<Incoming>,
        model: &str,
    ) -> Result<Reply, Refusal> {
        let (parts, body) = request.into_parts();
        let (body, memory) = self.receive(body).await?;
        let body = dialect::name_model(body, model)?;
        self.forward_texts(EMBEDDINGS, &parts.headers, body, memory)
            .await
    }

    /// Seals OpenAI's request for embeddings.
    async fn forward_texts(
        self: &Arc<Self>,
        target: &str,
        headers: &HeaderMap,
        body: Bytes,
        memory: OwnedSemaphorePermit,
    ) -> Result<Reply, Refusal> {
        let body = match self.refuse_long {
            true => truncation::forbid_truncation(body).map_err(|_| Refusal::TRUNCATION)?,
            false => body,
        };
        let split = match self.skip_empty {
            true => empty::split(&body),
            false => None,
        };
        let Some(Split { rest, gaps }) = split else {
            let sealed = seal_ready(Method::POST, target, headers, body.clone())?;
            let answer = self.send(sealed, memory).await?;
            if answer.status() == StatusCode::BAD_REQUEST {
                let error = Refusal::of_sealed(answer.status(), answer.headers(), answer.body());
                if error.is_about_empty_item() {
                    return Err(error.name_empty(empty::first_empty(&body)));
                }
            }
            return Ok(answer.map(Full::new));
        };
        let skipped = gaps.places.len() as u64;
        let reply = match rest {
            None => {
                let answer = gaps.answer().map_err(|_| Refusal::ANSWER)?;
                reply(StatusCode::OK, JSON, answer)
            }
            Some(rest) => {
                let sealed = seal_ready(Method::POST, target, headers, rest)?;
                let (parts, content) = self.send_to_read(sealed, memory).await?.into_parts();
                let content = gaps.fill(&content).ok_or(Refusal::ANSWER)?;
                Response::from_parts(parts, Full::from(content))
            }
        };
        self.counts.skipped.fetch_add(skipped, Ordering::Relaxed);
        Ok(reply)
    }

    /// Translates a request for embeddings, and its answer.
    async fn embed(
        self: &Arc<Self>,
        request: Request<Incoming>,
        form: &'static Form,
    ) -> Result<Reply, Refusal> {
        let arrival = Instant::now();
        let (body, memory) = self.receive(request.into_body()).await?;
        let mut asked = Asked::read(form, &body)?;
        if self.refuse_long && asked.truncate.replace(false) == Some(true) {
            return Err(Refusal::TRUNCATION);
        }
        let empty = asked.empty_places();
        let skipped = match self.skip_empty {
            true => &empty[..],
            false => &[],
        };
        if !skipped.is_empty() && skipped.len() == asked.texts.len() {
            let mut embedded = Embedded::default();
            embedded.insert_empty(skipped);
            let content = embedded.write(form, &asked)?;
            self.counts
                .skipped
                .fetch_add(skipped.len() as u64, Ordering::Relaxed);
            return Ok(reply(StatusCode::OK, JSON, content));
        }
        let model = match asked.model.take() {
            Some(model) => model,
            None => self.connect().await?.manifest().model.id.clone(),
        };
        if asked.chooses_prompt() && !self.has_prompts().await? {
            asked.drop_purpose()?;
        }
        let body = asked.sealed_body(&model, skipped)?;
        let sealed = seal_ready(Method::POST, EMBEDDINGS, &json_fields(), body)?;
        let answer = self.send_to_read(sealed, memory).await;
        let answer = answer.map_err(|error| error.name_empty(empty.first().copied()))?;
        let (parts, content) = answer.into_parts();
        let mut embedded = Embedded::read(&content, asked.texts.len() - skipped.len())?;
        embedded.insert_empty(skipped);
        self.counts
            .skipped
            .fetch_add(skipped.len() as u64, Ordering::Relaxed);
        embedded.duration = arrival.elapsed();
        let mut reply = reply(StatusCode::OK, JSON, embedded.write(form, &asked)?);
        if let Some(receipt) = parts.headers.get(protocol::terms::RECEIPT) {
            let fields = reply.headers_mut();
            fields.insert(protocol::terms::RECEIPT, receipt.clone());
        }
        Ok(reply)
    }

    async fn list_models(self: &Arc<Self>) -> Result<Reply, Refusal> {
        let answer = self.fetch_models().await?;
        let session = self.connect().await?;
        let list = dialect::write_models(answer.body(), &session.manifest().model)?;
        Ok(reply(StatusCode::OK, JSON, list))
    }

    async fn fetch_models(self: &Arc<Self>) -> Result<Response<Bytes>, Refusal> {
        let memory = self.reserve(&self.memory, 1).await?;
        let sealed = seal_ready(Method::GET, "/v1/models", &HeaderMap::new(), Bytes::new())?;
        self.send_to_read(sealed, memory).await
    }

    /// Whether the model has prompts. Asks the enclave once for each model.
    async fn has_prompts(self: &Arc<Self>) -> Result<bool, Refusal> {
        let model = self.connect().await?.manifest().model.sha256;
        let known = *self.prompts.lock().await;
        if let Some((_, has_prompts)) = known.filter(|(known, _)| *known == model) {
            return Ok(has_prompts);
        }
        let has_prompts = dialect::has_prompts(self.fetch_models().await?.body());
        *self.prompts.lock().await = Some((model, has_prompts));
        Ok(has_prompts)
    }

    /// Reads a body, within the memory for bodies.
    async fn receive(&self, body: Incoming) -> Result<(Bytes, OwnedSemaphorePermit), Refusal> {
        let portions = portions(body.size_hint().upper());
        let memory = self.reserve(&self.memory, portions).await?;
        let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect());
        match body.await {
            Err(_) => Err(Refusal::SLOW),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::TOO_LARGE),
            Ok(Err(_)) => Err(Refusal::BROKEN),
            Ok(Ok(body)) => Ok((body.to_bytes(), memory)),
        }
    }

    /// Sends a request, and returns an error of the enclave as one.
    async fn send_to_read(
        self: &Arc<Self>,
        sealed: Request<Bytes>,
        memory: OwnedSemaphorePermit,
    ) -> Result<Response<Bytes>, Refusal> {
        let answer = self.send(sealed, memory).await?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(Refusal::of_sealed(
                answer.status(),
                answer.headers(),
                answer.body(),
            )),
        }
    }

    async fn send(
        self: &Arc<Self>,
        sealed: Request<Bytes>,
        memory: OwnedSemaphorePermit,
    ) -> Result<Response<Bytes>, Refusal> {
        let place = self.reserve(&self.places, 1).await?;
        let outcome = self
            .exchange_or_wait(&sealed, Arc::new((memory, place)))
            .await;
        if outcome
            .as_ref()
            .is_err_and(|refusal| !refusal.withholds_answer())
        {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Sends a request, again and again while the service is away, for at most `wait`. Ends if the client leaves meanwhile.
    async fn exchange_or_wait(
        self: &Arc<Self>,
        sealed: &Request<Bytes>,
        permits: Arc<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    ) -> Result<Response<Bytes>, Refusal> {
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
    async fn exchange(&self, sealed: Request<Bytes>) -> Result<Response<Bytes>, Refusal> {
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
                return Err(Refusal::RECEIPTS);
            }
        }
        let mut response = answer.into_response();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().remove(header::DATE);
        Ok(response)
    }
}

/// Accepts connections until the first stop signal. Returns when the requests in progress have ended, after [`DRAIN_TIMEOUT`], or at
/// the second signal.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    proxy: Arc<Proxy>,
    mut stop: Stop,
) -> Result<()> {
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
        let tls = tls.clone();
        tokio::spawn(async move {
            match tls {
                None => serve_connection(stream, proxy, watcher).await,
                // A client may be silent, speak another protocol, or leave.
                Some(tls) => {
                    let handshake = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream));
                    if let Ok(Ok(stream)) = handshake.await {
                        serve_connection(stream, proxy, watcher).await;
                    }
                }
            }
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

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    proxy: Arc<Proxy>,
    watcher: Watcher,
) {
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
}

const EMBEDDINGS: &str = "/v1/embeddings";
const JSON: &str = "application/json";

/// Builds a request for the enclave.
fn seal_ready(
    method: Method,
    target: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Request<Bytes>, Refusal> {
    let mut sealed = Request::new(body);
    // A HEAD would be computed as a GET is, and its sealed answer is read as one.
    *sealed.method_mut() = match method {
        Method::HEAD => Method::GET,
        method => method,
    };
    *sealed.uri_mut() = Uri::try_from(target).map_err(|_| Refusal::NOT_FOUND)?;
    // The enclave needs no more. An API key is between this proxy and its clients.
    for name in [
        header::CONTENT_TYPE,
        header::CONTENT_ENCODING,
        header::ACCEPT,
    ] {
        if let Some(value) = headers.get(&name) {
            sealed.headers_mut().insert(name, value.clone());
        }
    }
    Ok(sealed)
}

fn json_fields() -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(JSON))])
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
