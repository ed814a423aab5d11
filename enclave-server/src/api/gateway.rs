//! `POST /v1/gateway`: opens a sealed request, lets the private router answer it, signs a receipt, seals the answer.
//!
//! What goes wrong before the seal is open is a problem that anyone may read; whatever goes wrong after it is sealed.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use getrandom::SysRng;
use hyper::body::Frame;
use protocol::candidates::{self, Name};
use protocol::exchange::DOCUMENT_UNKNOWN;
use protocol::inner::{self, InnerRequest, InnerResponse};
use protocol::ohttp::{self, Opened, ResponseSealer, SealError};
use protocol::terms::{self, Terms};
use rand_core::UnwrapErr;
use tokio::time::timeout;
use tower::ServiceExt;
use zeroize::{Zeroize as _, Zeroizing};

use super::Service;
use super::budget::{Arriving, Share, hold, wiped};
use super::committed::Salt;
use super::counters::Inference;
use super::error::ApiError;
use super::heavy::heavy;
use super::problem::Problem;
use super::receipt::{ReceiptError, Subject};
use super::replay::Replay;
use crate::keys::Generation;
use crate::metrics::Phase;
use crate::nsm::Validity;
use crate::{Moment, allocator};

pub(super) async fn gateway(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let several = match kind {
        Some(kind) if kind == ohttp::REQUEST_MEDIA_TYPE => false,
        Some(kind) if kind == candidates::REQUEST_MEDIA_TYPE => true,
        _ => return Err(MEDIA_TYPE),
    };
    let (body, arrived) = read(request.into_body(), &service).await?;
    let arrival = service.arrival();
    // Before anything is opened, and before a slot is taken: what waits here holds nothing but its own bytes.
    let opening = body.len().saturating_mul(OPENING_COPIES);
    let room = service.openings.take(opening).await.map_err(|_| MEMORY)?;
    let slot = service.gateway_slots.acquire();
    let slot = tokio::time::timeout(service.limits.max_wait, slot)
        .await
        .map_err(|_| BUSY)?
        .map_err(|_| BUSY)?;
    let (generation, (opened, sealer), name) = match several {
        false => open(&service, &body)?,
        true => open_as_candidate(&service, &body)?,
    };
    drop((body, arrived));
    let Opened { inner, enc, .. } = opened;
    let inner = Zeroizing::new(inner);
    let inferred = service.infer(&generation, inner, Some(&enc[..])).await;
    let is_large = room.is_large();
    let _held = service.wait_for_step(arrival, (slot, room)).await;
    let answered = inferred.and_then(|inferred| service.conclude(&generation, inferred));
    let (mut answer, share) = match answered {
        Ok(answered) => answered,
        Err(error) => (plain(error.into_response()).await, Share::default()),
    };
    let started = Instant::now();
    let sealed = heavy(answer.content.len(), || {
        let padded = encode(&answer).map(Zeroizing::new);
        answer.content.zeroize();
        let padded = padded?;
        let sealed = sealer.seal(&padded, &mut UnwrapErr(SysRng));
        let sealed = sealed.map_err(|_| INTERNAL)?;
        Ok(match &name {
            Some(name) => candidates::answer(name, &sealed),
            None => sealed,
        })
    })?;
    service.metrics.answers.inc();
    service.metrics.times.record(Phase::Seal, started.elapsed());
    if is_large || share.is_large() {
        allocator::give_back();
    }
    let kind = match several {
        false => ohttp::RESPONSE_MEDIA_TYPE,
        true => candidates::RESPONSE_MEDIA_TYPE,
    };
    Ok((
        [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "no-store"),
        ],
        hold(sealed, share),
    )
        .into_response())
}

/// What came out of a seal: the keys that opened it, the request, what seals its answer, and under which name the answer goes.
type Unsealed = (Arc<Generation>, (Opened, ResponseSealer), Option<Name>);

fn open(service: &Service, body: &[u8]) -> Result<Unsealed, Problem> {
    let key_id = *body.first().ok_or(MALFORMED)?;
    let generation = service.keys.by_key_id(key_id, service.now());
    let generation = generation.ok_or(KEY_UNKNOWN)?;
    let opened = heavy(body.len(), || generation.sealing.open(body));
    Ok((generation, opened.map_err(unopened)?, None))
}

/// Opens a request that was sealed to this enclave and to others.
fn open_as_candidate(service: &Service, body: &[u8]) -> Result<Unsealed, Problem> {
    let sealed = candidates::Sealed::parse(body).map_err(unopened)?;
    // Of this enclave's own keys the newest.
    let generation = service.keys.generations(service.now()).into_iter();
    let generation = generation
        .filter(|generation| generation.accepts(service.now()))
        .find(|generation| sealed.names().any(|name| *name == generation.name()))
        .ok_or(KEY_UNKNOWN)?;
    let name = generation.name();
    let opened = heavy(body.len(), || sealed.open(&name, &generation.sealing));
    Ok((generation, opened.map_err(unopened)?, Some(name)))
}

fn unopened(error: SealError) -> Problem {
    match error {
        // A request sealed to another process's key of the same number does not open either: RFC 9458 §5.3's answer
        // makes its client fetch the right one.
        SealError::UnknownKey(_) | SealError::OpenFailed => KEY_UNKNOWN,
        SealError::TooLarge => TOO_LARGE,
        _ => MALFORMED,
    }
}

/// A request is there as it came, opened, decoded and parsed; token ids take up to twice as much as their JSON.
pub(super) const OPENING_COPIES: usize = 4;

/// Reads the body. Who is slow keeps a connection busy, and nothing that others need.
async fn read(mut body: Body, service: &Service) -> Result<(Vec<u8>, Share), Problem> {
    let mut arriving = Arriving::new(&service.arrivals);
    let all = async {
        while let Some(frame) = timeout(STALL_TIMEOUT, next_frame(&mut body))
            .await
            .map_err(|_| SLOW)?
        {
            // Its sender went away, and reads no answer anyway.
            let frame = frame.map_err(|_| SLOW)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if arriving.received() + data.len() > service.limits.max_request_bytes {
                return Err(TOO_LARGE);
            }
            arriving.push(&data).map_err(|_| MEMORY)?;
        }
        Ok(())
    };
    timeout(BODY_TIMEOUT, all).await.map_err(|_| SLOW)??;
    Ok(arriving.finish())
}

async fn next_frame(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Longest between two parts of a body, and for all of it.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The answer to an inner request before its receipt is signed.
pub(super) struct Inferred {
    response: InnerResponse,
    /// Memory that the answer may use until it is written.
    share: Share,
    /// Claims of its receipt, where an inference took place.
    subject: Option<Subject>,
}

impl Service {
    /// From an inner request to its answer.
    ///
    /// `enc` is what a repeat of the request would have as well; a carrier that repeats nothing has none.
    pub(super) async fn infer(
        &self,
        generation: &Generation,
        inner: Zeroizing<Vec<u8>>,
        enc: Option<&[u8]>,
    ) -> Result<Inferred, ApiError> {
        let started = Instant::now();
        let now = self.now();
        let request = InnerRequest::decode(&inner)
            .map_err(|error| ApiError::of(StatusCode::BAD_REQUEST, &error, error.code()))?;
        let (terms, validity) = self.read_terms(&request, generation, now)?;
        if let Some(enc) = enc {
            let date = generation.steady_second(terms.date);
            let now = generation.steady_second(generation.time(now));
            self.replay.admit(enc, date, now).map_err(refused)?;
        }
        let unpadded = inner::unpadded_len(&inner).unwrap_or(inner.len());
        let request_hash = protocol::commitment::request_hash(&inner[..unpadded]);
        drop(inner);
        let salt = Salt(Zeroizing::new(terms.salt));
        let response = self.dispatch(request, salt).await;
        let extensions = response.extensions();
        let inferred = extensions.get::<Inference>().is_some();
        let share = extensions.get::<Share>().cloned().unwrap_or_default();
        let response = plain(response).await;
        // A receipt says that an inference took place: what was refused, or only read, gets none, and leaves no leaf in the log.
        let subject = (inferred && response.status < 300).then(|| Subject {
            request_hash,
            response_hash: protocol::commitment::response_hash(&terms.salt, &response.content),
            document_hash: terms.document,
            nonce: Some(terms.nonce),
            validity,
            execution: started.elapsed(),
        });
        Ok(Inferred {
            response,
            share,
            subject,
        })
    }

    /// Signs the receipt, and returns the response that will be sealed with the memory that it may use until it is written.
    pub(super) fn conclude(
        &self,
        generation: &Generation,
        inferred: Inferred,
    ) -> Result<(InnerResponse, Share), ApiError> {
        let Inferred {
            mut response,
            share,
            subject,
        } = inferred;
        let Some(subject) = subject else {
            return Ok((response, share));
        };
        let receipt = self
            .receipt(generation, subject)
            .map_err(|error| match error {
                ReceiptError::Over => {
                    tracing::warn!(code = "KEYS_EXPIRED", %error, "a request took longer than its keys");
                    keys_expired()
                }
                ReceiptError::Random(_) => {
                    tracing::error!(code = "RECEIPT_FAILED", %error, "a receipt was not made");
                    internal()
                }
            })?;
        response.headers.push((terms::RECEIPT.to_owned(), receipt));
        Ok((response, share))
    }

    /// Reads what the request says of itself: recent, and sealed by a client that verified one of these keys' documents. Also
    /// returns for which moments that document is good.
    fn read_terms(
        &self,
        request: &InnerRequest,
        generation: &Generation,
        now: Moment,
    ) -> Result<(Terms, Validity), ApiError> {
        let refused =
            |error: terms::TermsError| ApiError::of(StatusCode::BAD_REQUEST, &error, error.code());
        let terms = Terms::read(request).map_err(refused)?;
        let time = generation.time(now);
        terms.check_date(time).map_err(refused)?;
        // The receipt will name this document as the enclave's own, so it has to be one; and it has to be good for as long as
        // an answer may take, since the receipt is judged as of its own time.
        let linger = self.keys.periods().linger().as_secs();
        match generation.issued.find(&terms.document) {
            Some(validity) if time.seconds().saturating_add(linger) <= validity.until => {
                Ok((terms, validity))
            }
            _ => Err(ApiError::bad_request(
                DOCUMENT_UNKNOWN,
                "this enclave issued no such attestation document for these keys, or its certificate is about to end; verify the service again",
            )),
        }
    }

    async fn dispatch(&self, request: InnerRequest, salt: Salt) -> Response {
        let mut builder = axum::http::Request::builder()
            .extension(salt)
            .method(request.method.as_str())
            .uri(request.path.as_str());
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        match builder.body(Body::from(wiped(request.content))) {
            Ok(request) => match self.inner.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Err(_) => ApiError::bad_request(
                "INNER_REQUEST_INVALID",
                "the inner request line or a field is not valid HTTP",
            )
            .into_response(),
        }
    }
}

fn refused(replay: Replay) -> ApiError {
    match replay {
        Replay::Repeated => ApiError::bad_request(
            "REPLAYED",
            "this request was answered before; seal it again to repeat it",
        ),
        Replay::Narrow(seconds) => ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "REPLAY_WINDOW_NARROW",
            format!(
                "many requests are coming, so only those are taken whose date is at most {seconds} s from the service's clock; take its time from a fresh attestation document and ask again"
            ),
        )
        .retry_after(1),
        Replay::Full => ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "REPLAY_WINDOW_FULL",
            "more requests are coming than can be told from replays; try again later",
        )
        .retry_after(30),
    }
}

/// An HTTP response with its content in memory.
pub(super) async fn plain(response: Response) -> InnerResponse {
    let (parts, body) = response.into_parts();
    let headers = parts
        .headers
        .iter()
        // The content is here: its length is known, and the one that an answer to HEAD states is another's.
        .filter(|(name, _)| **name != header::CONTENT_LENGTH)
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    match to_bytes(body, inner::MAX_RESPONSE).await {
        Ok(content) => InnerResponse {
            status: parts.status.as_u16(),
            headers,
            content: content.into(),
        },
        Err(_) => too_large(),
    }
}

pub(super) fn encode(answer: &InnerResponse) -> Result<Vec<u8>, Problem> {
    answer
        .encode_padded()
        .or_else(|error| {
            tracing::error!(code = error.code(), "an answer could not be encoded");
            too_large().encode_padded()
        })
        .map_err(|_| INTERNAL)
}

fn too_large() -> InnerResponse {
    InnerResponse {
        status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        content: br#"{"error":{"message":"the answer is too large to be sealed; ask for fewer texts at once","type":"server_error","param":null,"code":"ANSWER_TOO_LARGE"}}"#.to_vec(),
    }
}

fn keys_expired() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "KEYS_EXPIRED",
        "the request was not finished while its keys were valid; verify the service again and repeat it",
    )
    .retry_after(1)
}

fn internal() -> ApiError {
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "INTERNAL",
        "the request failed inside the service; try again",
    )
}

const MEDIA_TYPE: Problem = Problem::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "MEDIA_TYPE_UNSUPPORTED",
    "The request is not sealed",
    "Send an encapsulated request as message/ohttp-req (RFC 9458), or one to several enclaves.",
);
const BUSY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "GATEWAY_BUSY",
    "Too many requests are being worked on",
    "Try again in a moment.",
)
.retry_after(1);
const MEMORY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "MEMORY_BUSY",
    "Large requests use all memory that there is for them",
    "Send fewer or shorter texts at once, or try again.",
)
.retry_after(2);
const TOO_LARGE: Problem = Problem::new(
    StatusCode::PAYLOAD_TOO_LARGE,
    "REQUEST_TOO_LARGE",
    "The sealed request is too large",
    "Send fewer texts in one request.",
);
const SLOW: Problem = Problem::new(
    StatusCode::REQUEST_TIMEOUT,
    "REQUEST_TOO_SLOW",
    "The sealed request did not arrive in time",
    "Send it again.",
);
const MALFORMED: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "ENCAPSULATION_MALFORMED",
    "The bytes are no encapsulated request",
    "Seal the request as RFC 9458 §4.3 says, with a suite that the key configuration lists.",
);
const INTERNAL: Problem = Problem::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "SEALING_FAILED",
    "The answer could not be sealed",
    "Try again, and report it if it stays.",
);
/// RFC 9458 §5.3: tells the client that its key configuration is out of date.
const KEY_UNKNOWN: Problem = Problem {
    kind: Some(ohttp::KEY_PROBLEM_TYPE),
    ..Problem::new(
        StatusCode::BAD_REQUEST,
        "KEY_UNKNOWN",
        "The key is not one of this service",
        "Verify the service again, and seal the request to the key that it attests now.",
    )
};
