//! `POST /v1/gateway`: opens a sealed request, lets the private router answer it, signs a receipt, seals the answer.
//!
//! What goes wrong before the seal is open is a problem that anyone may read; whatever goes wrong after it is sealed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use getrandom::SysRng;
use protocol::exchange::DOCUMENT_UNKNOWN;
use protocol::inner::{self, InnerRequest, InnerResponse};
use protocol::ohttp::{self, Opened, SealError};
use protocol::terms::{self, Terms};
use rand_core::UnwrapErr;
use tower::ServiceExt;

use super::Service;
use super::error::ApiError;
use super::heavy::heavy;
use super::inner::Inference;
use super::problem::Problem;
use super::receipt::{ReceiptError, Subject};
use super::replay::Replay;
use crate::Moment;
use crate::engine::Client;
use crate::keys::Generation;
use crate::listener::ConnectionId;
use crate::nsm::Validity;

pub(super) async fn gateway(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    if request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_none_or(|kind| kind != ohttp::REQUEST_MEDIA_TYPE)
    {
        return Err(MEDIA_TYPE);
    }
    // The relay shares its connections among clients, so this is a hint: enough to let one connection not starve others.
    let client = request
        .extensions()
        .get::<ConnectInfo<ConnectionId>>()
        .map(|ConnectInfo(connection)| Client(connection.0))
        .unwrap_or_default();
    // Before the body is read: what waits here must not cost memory.
    let _slot = service.gateway_slots.try_acquire().map_err(|_| BUSY)?;
    let body = read(request.into_body(), &service).await?;
    let key_id = *body.first().ok_or(MALFORMED)?;
    let generation = service
        .keys
        .by_key_id(key_id, service.now())
        .ok_or(KEY_UNKNOWN)?;
    let opened = heavy(body.len(), || generation.sealing.open(&body));
    let (opened, sealer) = opened.map_err(|error| match error {
        // A request sealed to another process's key of the same number does not open either: RFC 9458 §5.3's answer
        // makes its client fetch the right one.
        SealError::UnknownKey(_) | SealError::OpenFailed => KEY_UNKNOWN,
        SealError::TooLarge => TOO_LARGE,
        _ => MALFORMED,
    })?;
    drop(body);
    let answer = service.answer(&generation, &opened, client).await;
    let sealed = heavy(answer.content.len(), || {
        let padded = encode(&answer)?;
        let sealed = sealer.seal(&padded, &mut UnwrapErr(SysRng));
        sealed.map_err(|_| INTERNAL)
    })?;
    service.metrics.answers.inc();
    Ok((
        [
            (header::CONTENT_TYPE, ohttp::RESPONSE_MEDIA_TYPE),
            (header::CACHE_CONTROL, "no-store"),
        ],
        sealed,
    )
        .into_response())
}

async fn read(body: Body, service: &Service) -> Result<Bytes, Problem> {
    let limit = service.limits.max_request_bytes;
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        // The body was over the limit, or its sender went away and reads no answer anyway.
        Ok(Err(_)) => Err(TOO_LARGE),
        Err(_) => Err(SLOW),
    }
}

impl Service {
    /// From an opened request to the response that will be sealed. Never fails: an error is an answer too.
    async fn answer(
        &self,
        generation: &Generation,
        opened: &Opened,
        client: Client,
    ) -> InnerResponse {
        let started = Instant::now();
        let now = self.now();
        let time = generation.time(now);
        let request = match InnerRequest::decode(&opened.inner) {
            Ok(request) => request,
            Err(error) => {
                return plain(
                    ApiError::bad_request(error.code(), error.to_string()).into_response(),
                )
                .await;
            }
        };
        let (terms, validity) = match self.read_terms(&request, generation, now) {
            Ok(read) => read,
            Err(error) => return plain(error.into_response()).await,
        };
        let admitted = self.replay.admit(
            &opened.enc,
            generation.steady_second(terms.date),
            generation.steady_second(time),
        );
        if let Err(replay) = admitted {
            return plain(refused(replay).into_response()).await;
        }
        let response = self.dispatch(request, client).await;
        let inferred = response.extensions().get::<Inference>().is_some();
        let mut response = plain(response).await;
        // A receipt says that an inference took place: what was refused, or only read, gets none, and leaves no leaf in the log.
        if !inferred || response.status >= 300 {
            return response;
        }
        let unpadded = inner::unpadded_len(&opened.inner).unwrap_or(opened.inner.len());
        let subject = Subject {
            request_hash: protocol::commitment::request_hash(&opened.inner[..unpadded]),
            response_hash: protocol::commitment::response_hash(&terms.salt, &response.content),
            document_hash: terms.document,
            nonce: Some(terms.nonce),
            validity,
            execution: started.elapsed(),
        };
        match self.receipt(generation, subject) {
            Ok(receipt) => response.headers.push((terms::RECEIPT.to_owned(), receipt)),
            Err(error @ ReceiptError::Over) => {
                tracing::warn!(code = "KEYS_EXPIRED", %error, "a request took longer than its keys");
                return plain(keys_expired().into_response()).await;
            }
            Err(error) => {
                tracing::error!(code = "RECEIPT_FAILED", %error, "a receipt was not made");
                return plain(internal().into_response()).await;
            }
        }
        response
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
            |error: terms::TermsError| ApiError::bad_request(error.code(), error.to_string());
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

    async fn dispatch(&self, request: InnerRequest, client: Client) -> Response {
        let mut builder = axum::http::Request::builder()
            .extension(client)
            .method(request.method.as_str())
            .uri(request.path.as_str());
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        match builder.body(Body::from(request.content)) {
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

const BODY_TIMEOUT: Duration = Duration::from_secs(30);

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
async fn plain(response: Response) -> InnerResponse {
    let (parts, body) = response.into_parts();
    let headers = parts
        .headers
        .iter()
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    match to_bytes(body, inner::MAX_MESSAGE).await {
        Ok(content) => InnerResponse {
            status: parts.status.as_u16(),
            headers,
            content: content.into(),
        },
        Err(_) => too_large(),
    }
}

fn encode(answer: &InnerResponse) -> Result<Vec<u8>, Problem> {
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
    "Send an encapsulated request as message/ohttp-req (RFC 9458).",
);
const BUSY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "GATEWAY_BUSY",
    "Too many requests are being worked on",
    "Try again in a moment.",
)
.retry_after(1);
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
    kind: ohttp::KEY_PROBLEM_TYPE,
    ..Problem::new(
        StatusCode::BAD_REQUEST,
        "KEY_UNKNOWN",
        "The key is not one of this service",
        "Verify the service again, and seal the request to the key that it attests now.",
    )
};
