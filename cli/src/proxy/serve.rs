//! The local port.

use super::receipts::ReceiptFile;
use super::status::{self, Counts};
use crate::args::ProxyArgs;
use anyhow::Result;
use bytes::Bytes;
use clearseal_client::{Client, Error};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::borrow::Cow;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

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

/// Everything that requests share.
pub(super) struct Proxy {
    client: Client,
    counts: Counts,
    receipts: Option<ReceiptFile>,
    api_key: Option<String>,
    /// Only names of this machine in the Host field.
    local: bool,
    /// A host gives one address a part of its places: more at once would be refused by it.
    places: Semaphore,
    /// Portions of [`MEMORY`] that are free.
    memory: Semaphore,
}

impl Proxy {
    pub(super) fn new(client: Client, args: &ProxyArgs, receipts: Option<ReceiptFile>) -> Self {
        Self {
            client,
            counts: Counts::default(),
            receipts,
            api_key: args.api_key.clone(),
            local: args.listen.ip().is_loopback(),
            places: Semaphore::new(usize::from(args.concurrency)),
            memory: Semaphore::new(MEMORY / PORTION),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        match self.route(request).await {
            Ok(reply) => reply,
            Err(refusal) => refusal.into_reply(),
        }
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Reply, Refusal> {
        self.admit(request.headers())?;
        let path = request.uri().path();
        match (request.method(), path) {
            (&Method::GET, "/") => Ok(reply(
                StatusCode::OK,
                "text/html; charset=utf-8",
                status::page(&self.client, &self.counts),
            )),
            (&Method::GET, "/healthz") => {
                let status = match self.client.is_ready() {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                let json = status::json(&self.client, &self.counts);
                Ok(reply(status, "application/json", json.to_string()))
            }
            (&Method::GET | &Method::POST, path) if path.starts_with("/v1/") => {
                self.authorize(request.headers())?;
                self.relay(request).await
            }
            (_, "/" | "/healthz") => Err(Refusal::METHOD),
            (_, path) if path.starts_with("/v1/") => Err(Refusal::METHOD),
            _ => Err(Refusal::NOT_FOUND),
        }
    }

    /// Refuses what a web page could have sent: its name rebound to this machine, or a request across origins.
    fn admit(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.local {
            let host = headers
                .get(header::HOST)
                .and_then(|host| host.to_str().ok());
            if !host.is_some_and(is_local) {
                return Err(Refusal::HOST);
            }
        }
        if headers.contains_key(header::ORIGIN) {
            return Err(Refusal::ORIGIN);
        }
        Ok(())
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(key) = &self.api_key else {
            return Ok(());
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .map(HeaderValue::as_bytes);
        let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
        match given.is_some_and(|given| given.ct_eq(key.as_bytes()).into()) {
            true => Ok(()),
            false => Err(Refusal::KEY),
        }
    }

    async fn relay(&self, request: Request<Incoming>) -> Result<Reply, Refusal> {
        let (parts, body) = request.into_parts();
        let portions = portions(body.size_hint().upper());
        let memory = self.memory.acquire_many(portions).await;
        let _memory = memory.map_err(|_| Refusal::BROKEN)?;
        let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect());
        let body = match body.await {
            Err(_) => return Err(Refusal::SLOW),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Refusal::TOO_LARGE),
            Ok(Err(_)) => return Err(Refusal::BROKEN),
            Ok(Ok(body)) => body.to_bytes(),
        };
        let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
        let mut sealed = Request::new(body);
        *sealed.method_mut() = parts.method;
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
        let _place = self.places.acquire().await.map_err(|_| Refusal::BROKEN)?;
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let answer = self.client.fetch(sealed).await.map_err(|error| {
            count(&self.counts.failed);
            Refusal::of(&error)
        })?;
        self.counts
            .sealed_bytes
            .fetch_add(length, Ordering::Relaxed);
        match answer.status().is_success() {
            true => count(&self.counts.answered),
            false => count(&self.counts.refused),
        };
        if let (Some(file), Some(bundle)) = (&self.receipts, answer.bundle(false)) {
            let written = bundle.to_json().map_err(anyhow::Error::from);
            // Who asked for receipts relies on them: an answer without its line would be a silent gap.
            if written.and_then(|json| file.write(&json)).is_err() {
                return Err(Refusal::RECEIPTS);
            }
        }
        let mut response = answer.into_response();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().remove(header::DATE);
        Ok(response.map(Full::new))
    }
}

type Reply = Response<Full<Bytes>>;

/// Accepts connections for as long as it is polled.
pub(super) async fn serve(listener: TcpListener, proxy: Arc<Proxy>) -> Result<()> {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = Arc::clone(&connections).acquire_owned().await?;
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: some come back when connections end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Without it small answers wait for the acknowledgement of what came before.
        let _ = stream.set_nodelay(true);
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let proxy = Arc::clone(&proxy);
                async move { Ok::<_, Infallible>(proxy.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // A client that went away is no fault.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// How much of [`MEMORY`] a body takes that is at most so long; one that does not say is as long as any may be.
fn portions(longest: Option<u64>) -> u32 {
    let longest = longest.and_then(|length| usize::try_from(length).ok());
    let longest = longest.unwrap_or(MAX_BODY).min(MAX_BODY);
    u32::try_from(longest.div_ceil(PORTION).max(1)).unwrap_or(u32::MAX)
}

/// Whether a Host field names this machine's loopback.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// An answer of the proxy's own, in OpenAI's error object.
struct Refusal {
    status: StatusCode,
    code: Cow<'static, str>,
    message: Cow<'static, str>,
}

impl Refusal {
    const HOST: Self = Self::new(
        StatusCode::FORBIDDEN,
        "HOST_NOT_LOCAL",
        "the Host field does not name this machine; use 127.0.0.1 or localhost",
    );
    const ORIGIN: Self = Self::new(
        StatusCode::FORBIDDEN,
        "ORIGIN_REFUSED",
        "web pages are not answered here; a page verifies the enclave by itself",
    );
    const KEY: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "API_KEY_WRONG",
        "the key is not the one of --api-key",
    );
    const METHOD: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "METHOD_NOT_ALLOWED",
        "use GET or POST",
    );
    const NOT_FOUND: Self = Self::new(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "try POST /v1/embeddings, GET /v1/models, GET / or GET /healthz",
    );
    const SLOW: Self = Self::new(
        StatusCode::REQUEST_TIMEOUT,
        "BODY_TIMEOUT",
        "the body did not arrive in time; send it again",
    );
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
        }
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
        reply(self.status, "application/json", body.to_string())
    }
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
    fn only_names_of_this_machine_are_local() {
        for good in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8788",
            "[::1]:8788",
            "127.3.2.1",
        ] {
            assert!(is_local(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "localhost.evil.example",
        ] {
            assert!(!is_local(bad), "{bad}");
        }
    }

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
