//! The relay (RFC 9458 §2): bytes in, bytes out, between a client and an enclave.

use crate::body::{Download, Terms, Whole, collect, paid, receive, refused};
use crate::config::Config;
use crate::connector::{self, Connector};
use crate::crls::Crls;
use crate::fleet::Fleet;
use crate::gather::{Batch, Gathering, Tick, shareable};
use crate::metrics::Metrics;
use crate::places::{Place, Places};
use crate::problem::Problem;
use crate::readiness::Readiness;
use crate::source::{Hold, Peer, Source, Supply};
use crate::turns::Turns;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error as _;
use std::time::Duration;
use tokio::time::Instant;

/// Names the enclave that should answer; a hint for load balancers, never believed by anyone.
pub(crate) const ENCLAVE_HINT: HeaderName = HeaderName::from_static("clearseal-enclave");

/// Everything else of a client's head stays here: cookies, origin, addresses and languages are not the enclave's business.
const TO_ENCLAVE: [HeaderName; 3] = [header::CONTENT_TYPE, header::ACCEPT, ENCLAVE_HINT];
/// Everything else of an answer's head ends here.
const TO_CLIENT: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CACHE_CONTROL,
    header::RETRY_AFTER,
    ENCLAVE_HINT,
];
/// A nonce of 64 bytes is 86 characters long; no endpoint takes more than that and a name.
const MAX_QUERY_BYTES: usize = 256;
/// Idle connections to the enclave that are kept; a restart of the enclave costs no more than these.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// Bytes of an answer's head, and of one read.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Documents that the enclave is asked for at once: enough that its security module never rests.
const ATTESTATIONS_AT_ONCE: usize = 4;
/// How long a request for a document waits for its turn.
const ATTESTATION_PATIENCE: Duration = Duration::from_secs(15);
/// Longest document and manifest; real ones have about 8 KiB.
const MAX_EVIDENCE_BYTES: u64 = 64 << 10;
/// An announced answer up to this length is taken whole, so that head and body leave in one write.
const SMALL_ANSWER_BYTES: u64 = 64 << 10;
/// How long a sealed request waits for a place when all are taken.
const PLACE_PATIENCE: Duration = Duration::from_secs(5);

/// A pooled client for the enclaves, and the limits on their use.
#[derive(Clone)]
pub(crate) struct Relay {
    client: Client<Connector, Full<Bytes>>,
    fleet: Fleet,
    /// Requests that the enclave works on.
    places: Places,
    /// Bytes of bodies that lie here.
    memory: Supply,
    attestations: Turns,
    gathering: Gathering,
    readiness: Readiness,
    /// Told of every document that passes.
    crls: Crls,
    metrics: Metrics,
    max_request: u64,
    max_answer: u64,
    first_byte: Duration,
    total: Duration,
    stall: Duration,
}

/// Bytes of what an enclave says of its start.
const READY_MAX: u64 = 4096;

impl Relay {
    pub(crate) fn new(config: &Config, metrics: Metrics, crls: Crls) -> Self {
        let connector = Connector {
            addresses: config.enclaves.clone().into(),
            timeout: config.connect_timeout,
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.idle_timeout)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            // Repeats a request only when not one byte of it was written: a pooled connection that had died.
            .retry_canceled_requests(true)
            .build(connector);
        Self {
            client,
            fleet: Fleet::new(config.enclaves.len()),
            places: Places::new(config.max_concurrent, config.source_share, PLACE_PATIENCE),
            memory: Supply::new(config.max_buffered_bytes, config.source_share),
            attestations: Turns::new(ATTESTATIONS_AT_ONCE, ATTESTATION_PATIENCE),
            gathering: Gathering::new(config.document_interval),
            readiness: Readiness::default(),
            crls,
            metrics,
            max_request: config.max_request_bytes,
            max_answer: config.max_answer_bytes,
            first_byte: config.first_byte_timeout,
            total: config.total_timeout,
            stall: config.stall_timeout,
        }
    }

    /// Which enclaves there are, and which of them answer.
    pub(crate) fn fleet(&self) -> Fleet {
        self.fleet.clone()
    }

    /// Relays one request of the public endpoints.
    pub(crate) async fn relay(&self, request: Request) -> Result<Response, Problem> {
        let peer = Peer::of(&request);
        if request.uri().query().map_or(0, str::len) > MAX_QUERY_BYTES {
            return Err(Problem::UriTooLong);
        }
        // The announced length is judged before anything is read, the real one while it comes.
        if request.body().size_hint().lower() > self.max_request {
            return Err(Problem::BodyTooLarge);
        }
        let deadline = Instant::now() + self.total;
        let (head, body) = request.into_parts();
        let terms = Terms {
            limit: self.max_request,
            allowance: self.stall,
            deadline,
        };
        // Whole, before the enclave hears of it: who sends slowly takes nobody's place.
        let received = receive(body, terms, peer.source, &self.memory).await?;
        let request = Request::from_parts(head, received.bytes);
        let hold = received.hold;
        let begun = Instant::now();
        if request.uri().path() == "/v1/attestation" {
            let (head, body) = match shareable(request.uri().query()) {
                Some(nonce) => self.share(nonce, deadline).await?,
                None => {
                    let _turn = self.attestations.turn(&peer).await?;
                    self.metrics.waited(begun.elapsed());
                    self.attest(request, deadline).await?
                }
            };
            // The turn is the next one's, however slowly this client reads, and whether or not there is memory left for it.
            drop(hold);
            let hold = self
                .memory
                .take(peer.source, paid(body.len()))
                .map_err(refused)?;
            return Ok(Response::from_parts(
                head,
                Body::new(Whole::new(body, hold)),
            ));
        }
        let place = self.places.place(peer.source).await?;
        self.metrics.waited(begun.elapsed());
        self.seal(request, deadline, (peer.source, place), hold)
            .await
    }

    /// A document together with all who wait for one.
    async fn share(&self, nonce: Vec<u8>, deadline: Instant) -> Result<(Parts, Bytes), Problem> {
        let (share, follow) = self.gathering.join(nonce)?;
        if follow {
            // A task, because the client that came first may go away while the others wait on.
            tokio::spawn(self.clone().follow_schedule());
        }
        let patience = (Instant::now() + ATTESTATION_PATIENCE).min(deadline);
        match tokio::time::timeout_at(patience, share).await {
            Ok(Ok(share)) => share?.into_answer(),
            // Too late, or nobody makes it any more: the proxy is going down.
            Ok(Err(_)) | Err(_) => Err(Problem::Busy),
        }
    }

    /// Has a document made at each tick, until no client waits for one.
    async fn follow_schedule(self) {
        loop {
            tokio::time::sleep_until(self.gathering.next_tick()).await;
            match self.gathering.tick() {
                Tick::Make(batch) => {
                    tokio::spawn(self.clone().make_document(batch));
                }
                Tick::Wait => {}
                Tick::Stop => return,
            }
        }
    }

    /// Has one document made for all of `batch`.
    async fn make_document(self, batch: Batch) {
        let request = http::Request::builder()
            .uri(batch.path())
            .header(header::ACCEPT, "application/cbor")
            .body(Bytes::new());
        let made = match request {
            Ok(request) => {
                let deadline = Instant::now() + ATTESTATION_PATIENCE;
                self.attest(request, deadline).await
            }
            Err(_) => Err(Problem::NotFound),
        };
        self.metrics.shared(batch.len());
        batch.answer(&made);
    }

    /// Has the enclave make a document, and takes the whole answer.
    async fn attest(
        &self,
        request: http::Request<Bytes>,
        deadline: Instant,
    ) -> Result<(Parts, Bytes), Problem> {
        let limit = self.max_answer.min(MAX_EVIDENCE_BYTES);
        let (head, body) = self.ask(request, deadline).await?.into_parts();
        if body.size_hint().lower() > limit {
            return Err(Problem::AnswerTooLarge);
        }
        let evidence = collect(body, limit, deadline).await?;
        self.crls.learn(&evidence);
        Ok((filter(head), evidence))
    }

    /// Passes a request on, and the answer back while it comes. `hold` pays for the request until it is answered.
    async fn seal(
        &self,
        request: http::Request<Bytes>,
        deadline: Instant,
        (source, place): (Source, Place),
        hold: Option<Hold>,
    ) -> Result<Response, Problem> {
        let (head, body) = self.ask(request, deadline).await?.into_parts();
        drop(hold);
        if body.size_hint().lower() > self.max_answer {
            return Err(Problem::AnswerTooLarge);
        }
        let head = filter(head);
        if body.is_end_stream() {
            return Ok(Response::from_parts(head, Body::empty()));
        }
        if body
            .size_hint()
            .upper()
            .is_some_and(|size| size <= SMALL_ANSWER_BYTES)
        {
            let body = collect(body, SMALL_ANSWER_BYTES, deadline).await?;
            // The enclave is done with it.
            drop(place);
            let hold =
                tokio::time::timeout_at(deadline, self.memory.wait(source, paid(body.len())))
                    .await
                    .map_err(|_| Problem::SourceBusy)?;
            return Ok(Response::from_parts(
                head,
                Body::new(Whole::new(body, hold)),
            ));
        }
        let paid = (source, self.memory.clone());
        let body = Download::begin(body, self.max_answer, deadline, paid, place);
        Ok(Response::from_parts(head, Body::new(body)))
    }

    /// What the enclave says when it takes requests.
    pub(crate) async fn ready(&self) -> Result<Bytes, Problem> {
        self.readiness.learn(|| self.probe()).await
    }

    async fn probe(&self) -> Result<Bytes, Problem> {
        let probe = Request::builder()
            .uri("/readyz")
            .body(Bytes::new())
            .map_err(|_| Problem::EnclaveInvalidAnswer)?;
        let deadline = Instant::now() + self.first_byte.min(Duration::from_secs(5));
        let answer = self.ask(probe, deadline).await?;
        match answer.status() {
            StatusCode::OK => collect(answer.into_body(), READY_MAX, deadline).await,
            status => {
                // Why is for the log alone: without a reason it is as unready.
                let body = collect(answer.into_body(), READY_MAX, deadline).await;
                let code = body.ok().and_then(|body| code_of(&body));
                tracing::warn!(
                    status = status.as_u16(),
                    code = code.as_deref(),
                    "the enclave takes no requests"
                );
                Err(Problem::EnclaveNotReady)
            }
        }
    }

    /// Asks the enclave on the proxy's own account: status and body, of at most `limit` bytes.
    pub(crate) async fn fetch(
        &self,
        path: &str,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), Problem> {
        let request = Request::builder()
            .uri(path)
            .body(Bytes::new())
            .map_err(|_| Problem::NotFound)?;
        let deadline = Instant::now() + self.first_byte.min(Duration::from_secs(10));
        let answer = self.ask(request, deadline).await?;
        let status = answer.status();
        let body = collect(answer.into_body(), limit as u64, deadline).await?;
        Ok((status, body))
    }

    async fn ask(
        &self,
        request: http::Request<Bytes>,
        deadline: Instant,
    ) -> Result<Response<Incoming>, Problem> {
        let (head, body) = request.into_parts();
        let headers = only(&head.headers, &TO_ENCLAVE);
        let asks = head.method == Method::GET;
        // A GET changes nothing, so one that a dying connection swallowed may be asked again, of the same enclave where it is
        // the only one. Another enclave cannot open what was sealed to the one that is gone: its answer tells the client so.
        let attempts = self.fleet.len().max(if asks { 2 } else { 1 });
        let mut tried = Vec::with_capacity(attempts);
        loop {
            let index = self.fleet.choose(headers.get(ENCLAVE_HINT), &tried);
            let mut outgoing = http::Request::new(Full::new(body.clone()));
            *outgoing.uri_mut() = enclave_uri(&head.uri, index)?;
            outgoing.headers_mut().clone_from(&headers);
            outgoing.method_mut().clone_from(&head.method);
            let answer = self.ask_once(outgoing, deadline).await;
            tried.push(index);
            let last = tried.len() >= attempts;
            match answer {
                // A member that is starting or draining says so; another one may be ready.
                Ok(answer) if asks && !last && self.fleet.len() > 1 && is_unready(&answer) => {
                    self.fleet.failed(index);
                }
                Ok(answer) => {
                    self.fleet
                        .answered(index, answer.headers().get(ENCLAVE_HINT));
                    return Ok(answer);
                }
                Err(problem) => {
                    let gone = matches!(problem, Problem::EnclaveUnreachable);
                    if gone || matches!(problem, Problem::EnclaveTimeout) {
                        self.fleet.failed(index);
                    }
                    if last || !gone {
                        return Err(problem);
                    }
                }
            }
        }
    }

    async fn ask_once(
        &self,
        request: http::Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Response<Incoming>, Problem> {
        let first_byte = (Instant::now() + self.first_byte).min(deadline);
        match tokio::time::timeout_at(first_byte, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(why(&error)),
            Err(_) => Err(Problem::EnclaveTimeout),
        }
    }
}

/// A short answer that is passed on whole, without what is not on the list.
pub(crate) async fn answer(
    response: Response<Incoming>,
    deadline: Instant,
) -> Result<Response, Problem> {
    let (head, body) = response.into_parts();
    let body = collect(body, SMALL_ANSWER_BYTES, deadline).await?;
    Ok(Response::from_parts(filter(head), Body::from(body)))
}

/// The head of an answer, without what is not on the list.
fn filter(mut head: Parts) -> Parts {
    head.headers = only(&head.headers, &TO_CLIENT);
    head.headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    head
}

fn is_unready(answer: &Response<Incoming>) -> bool {
    answer.status() == StatusCode::SERVICE_UNAVAILABLE
}

/// Path and query as they came; the authority is a name for the pool only.
pub(crate) fn enclave_uri(uri: &Uri, enclave: usize) -> Result<Uri, Problem> {
    let path = uri.path_and_query().ok_or(Problem::NotFound)?;
    Uri::builder()
        .scheme("http")
        .authority(connector::host(enclave))
        .path_and_query(path.clone())
        .build()
        .map_err(|_| Problem::NotFound)
}

fn only(headers: &HeaderMap, allowed: &[HeaderName]) -> HeaderMap {
    allowed
        .iter()
        .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())))
        .collect()
}

/// Code of the enclave's problem, for the log; nothing where it does not read like one.
fn code_of(problem: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Coded {
        code: String,
    }
    let Coded { code } = serde_json::from_slice(problem).ok()?;
    let shouted = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (code.len() <= 64 && code.bytes().all(shouted)).then_some(code)
}

fn why(error: &ClientError) -> Problem {
    let mut cause = error.source();
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

#[cfg(test)]
mod tests {
    use super::{TO_CLIENT, TO_ENCLAVE, code_of};

    #[test]
    fn what_passes_is_listed_among_what_strangers_learn() {
        let threats = include_str!("../../docs/THREATS.md");
        for name in TO_ENCLAVE.iter().chain(&TO_CLIENT) {
            assert!(threats.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn only_what_reads_like_a_code_reaches_the_log() {
        let codes = [
            (r#"{"code":"DRAINING","detail":"x"}"#, Some("DRAINING")),
            (r#"{"code":"draining\nby nobody"}"#, None),
            (r#"{"code":7}"#, None),
            ("DRAINING", None),
        ];
        for (problem, code) in codes {
            assert_eq!(code_of(problem.as_bytes()).as_deref(), code, "{problem}");
        }
        let long = format!(r#"{{"code":"{}"}}"#, "A".repeat(65));
        assert_eq!(code_of(long.as_bytes()), None);
    }
}
