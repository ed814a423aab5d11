//! An inner request and its answer: checks the terms, asks the private router, signs the receipt.
//!
//! ```text
//! request = decode(inner)
//! terms   = request's document, nonce, salt and date     refused unless recent, and unless this enclave issued the document
//! replay.admit(enc, date)                                only for sealed requests; a channel numbers its own
//! answer  = private router(request)
//! wait for the answer step                               the log would reveal the moment of a signature
//! receipt = sign(hashes of request and answer)           only where an inference took place
//! ```

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::commitment::ContentHash;
use protocol::exchange::DOCUMENT_UNKNOWN;
use protocol::inner::{self, InnerRequest, InnerResponse};
use protocol::terms::{self, Terms};
use zeroize::Zeroizing;

use super::body::zeroizing;
use super::budget::Reservation;
use super::commitments::Salt;
use super::counters::Inference;
use super::error::ApiError;
use super::indexes::{KEY_FIELD, KeyText};
use super::inner::without_trailing_slash;
use super::problem::Problem;
use super::receipt::{ReceiptError, ReceiptSubject};
use super::replay::Replay;
use super::service::Service;
use super::unseal::SEALING_FAILED;
use crate::Moment;
use crate::keys::Generation;
use crate::nsm::Validity;

/// The answer to an inner request before its receipt is signed.
pub(super) struct Inferred {
    response: InnerResponse,
    reservation: Reservation,
    /// Claims of its receipt, where an inference took place.
    subject: Option<ReceiptSubject>,
}

/// The answer to an inner request, to be sealed.
pub(super) struct Answer {
    pub(super) response: InnerResponse,
    /// Memory for the answer until it is written.
    pub(super) reservation: Reservation,
}

impl Answer {
    pub(super) async fn from_error(error: ApiError) -> Self {
        Self {
            response: collect_response(error.into_response()).await,
            reservation: Reservation::default(),
        }
    }
}

/// The answer to an inner request, whole or in parts.
pub(super) enum InferredParts {
    Whole(Box<Inferred>),
    Stream(Box<Stream>),
}

/// An answer whose content is still being made.
pub(super) struct Stream {
    pub(super) response: Response,
    pub(super) claims: Claims,
}

/// Marks a response whose content is made in parts, each of which may be sent at once.
#[derive(Clone, Copy)]
pub(super) struct IsStream;

/// The computation of a part failed after the first parts were sent.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub(super) struct PartFailed(pub(super) ApiError);

impl PartFailed {
    /// Finds the failure behind the error of a body.
    pub(super) fn find(error: &axum::Error) -> Option<ApiError> {
        let mut cause: &(dyn std::error::Error + 'static) = error;
        loop {
            if let Some(Self(error)) = cause.downcast_ref() {
                return Some(error.clone());
            }
            cause = cause.source()?;
        }
    }
}

/// Claims about a request, for the receipt of its answer.
pub(super) struct Claims {
    started: Instant,
    request_hash: [u8; 32],
    terms: Terms,
    document_validity: Validity,
}

impl Claims {
    fn salt(&self) -> Salt {
        Salt(Zeroizing::new(self.terms.salt))
    }

    /// Begins the commitment to an answer that is made in parts.
    pub(super) fn hash_parts(&self) -> ContentHash {
        ContentHash::new(&self.terms.salt)
    }

    /// The claims of a receipt for the answer of `model` whose commitment is `response_hash`.
    pub(super) fn subject(
        self,
        Inference(model): Inference,
        response_hash: [u8; 32],
    ) -> ReceiptSubject {
        ReceiptSubject {
            model,
            request_hash: self.request_hash,
            response_hash,
            document_hash: self.terms.document,
            nonce: Some(self.terms.nonce),
            document_validity: self.document_validity,
            execution: self.started.elapsed(),
        }
    }
}

/// Terms that were accepted, and the validity of the document that they name.
struct AcceptedTerms {
    terms: Terms,
    document_validity: Validity,
}

impl Service {
    /// Answers an inner request, without its receipt.
    ///
    /// `enc` is the encapsulated key, which a replay of the request would repeat; `None` for a channel, where nothing can be
    /// replayed.
    pub(super) async fn infer(
        &self,
        generation: &Generation,
        inner: Zeroizing<Vec<u8>>,
        enc: Option<&[u8]>,
    ) -> Result<Inferred, ApiError> {
        let (request, claims) = self.accept(generation, &inner, enc)?;
        drop(inner);
        let response = self.dispatch(request, claims.salt()).await;
        Ok(collect_answer(response, claims).await)
    }

    /// Like [`infer`](Self::infer), without waiting for the content of an answer that is made in parts.
    pub(super) async fn infer_in_parts(
        &self,
        generation: &Generation,
        inner: Zeroizing<Vec<u8>>,
        enc: &[u8],
    ) -> Result<InferredParts, ApiError> {
        let (request, claims) = self.accept(generation, &inner, Some(enc))?;
        drop(inner);
        let response = self.dispatch(request, claims.salt()).await;
        let is_stream = response.extensions().get::<IsStream>().is_some();
        Ok(match is_stream && response.status().is_success() {
            true => InferredParts::Stream(Box::new(Stream { response, claims })),
            false => InferredParts::Whole(Box::new(collect_answer(response, claims).await)),
        })
    }

    /// Checks the terms of an inner request.
    fn accept(
        &self,
        generation: &Generation,
        inner: &[u8],
        enc: Option<&[u8]>,
    ) -> Result<(InnerRequest, Claims), ApiError> {
        let started = Instant::now();
        let now = self.now();
        let (request, unpadded) = InnerRequest::decode_any(inner)
            .map_err(|error| ApiError::from_coded(StatusCode::BAD_REQUEST, &error, error.code()))?;
        let AcceptedTerms {
            terms,
            document_validity,
        } = self.read_terms(&request, generation, now)?;
        if let Some(enc) = enc {
            let date = generation.steady_second(terms.date);
            let now = generation.steady_second(generation.time(now));
            self.replay.admit(enc, date, now).map_err(replay_error)?;
        }
        let request_hash = protocol::commitment::request_hash(&inner[..unpadded]);
        let claims = Claims {
            started,
            request_hash,
            terms,
            document_validity,
        };
        Ok((request, claims))
    }

    /// Signs the receipt where there is to be one, and adds it to the answer.
    pub(super) fn sign_receipt(
        &self,
        generation: &Generation,
        inferred: Inferred,
    ) -> Result<Answer, ApiError> {
        let Inferred {
            mut response,
            reservation,
            subject,
        } = inferred;
        if let Some(subject) = subject {
            let receipt = self.receipt_field(generation, subject)?;
            response.headers.push(receipt);
        }
        Ok(Answer {
            response,
            reservation,
        })
    }

    /// Signs a receipt; returns the field that carries it.
    pub(super) fn receipt_field(
        &self,
        generation: &Generation,
        subject: ReceiptSubject,
    ) -> Result<(String, String), ApiError> {
        let receipt = self
            .receipt(generation, subject)
            .map_err(|error| match error {
                ReceiptError::Over => {
                    tracing::warn!(code = "KEYS_EXPIRED", %error, "a request took longer than its keys");
                    keys_expired()
                }
                ReceiptError::Random(_) => {
                    tracing::error!(code = "RECEIPT_FAILED", %error, "a receipt was not made");
                    internal_error()
                }
            })?;
        Ok((terms::RECEIPT.to_owned(), receipt))
    }

    /// Checks that the request is recent, and that its client verified one of this generation's documents.
    fn read_terms(
        &self,
        request: &InnerRequest,
        generation: &Generation,
        now: Moment,
    ) -> Result<AcceptedTerms, ApiError> {
        let to_api_error = |error: terms::TermsError| {
            ApiError::from_coded(StatusCode::BAD_REQUEST, &error, error.code())
        };
        let terms = Terms::read(request).map_err(to_api_error)?;
        let time = generation.time(now);
        terms.check_date(time).map_err(to_api_error)?;
        // The receipt names this document as the enclave's own, so the enclave has to have issued it. The receipt is appraised
        // as of its own time, so the document has to be valid for as long as an answer may take.
        let linger = self.keys.periods().linger().as_secs();
        match generation.issued.find(&terms.document) {
            Some(document_validity)
                if time.seconds().saturating_add(linger) <= document_validity.until =>
            {
                Ok(AcceptedTerms {
                    terms,
                    document_validity,
                })
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
            .uri(&*without_trailing_slash(&request.path));
        for (name, value) in request.headers {
            builder = match name == KEY_FIELD {
                true => builder.extension(KeyText(Arc::new(Zeroizing::new(value)))),
                false => builder.header(name, value),
            };
        }
        match builder.body(Body::from(zeroizing(request.content))) {
            Ok(request) => self.private_api.answer(request).await,
            Err(_) => ApiError::bad_request(
                "INNER_REQUEST_INVALID",
                "the inner request line or a field is not valid HTTP",
            )
            .into_response(),
        }
    }
}

fn replay_error(replay: Replay) -> ApiError {
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
            "more requests are coming than the replay window can hold; try again later",
        )
        .retry_after(30),
    }
}

async fn collect_answer(response: Response, claims: Claims) -> Inferred {
    let extensions = response.extensions();
    let inferred = extensions.get::<Inference>().cloned();
    let reservation = extensions.get::<Reservation>().cloned().unwrap_or_default();
    let response = collect_response(response).await;
    // A receipt proves an inference. Refusals and reads get none, and leave no leaf in the log.
    let inferred = inferred.filter(|_| response.status < 300);
    let subject = inferred.map(|inference| {
        let salt = claims.terms.salt;
        let response_hash = protocol::commitment::response_hash(&salt, &response.content);
        claims.subject(inference, response_hash)
    });
    Inferred {
        response,
        reservation,
        subject,
    }
}

/// The fields of a response that are sealed with it.
pub(super) fn list_fields(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        // The sealed form states the length of its content, and an answer to HEAD states that of another content.
        .filter(|(name, _)| **name != header::CONTENT_LENGTH)
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect()
}

/// Reads the content of a response into memory.
pub(super) async fn collect_response(response: Response) -> InnerResponse {
    let (parts, body) = response.into_parts();
    let headers = list_fields(&parts.headers);
    match to_bytes(body, inner::MAX_RESPONSE).await {
        Ok(content) => InnerResponse {
            status: parts.status.as_u16(),
            headers,
            content: content.into(),
        },
        Err(error) => match PartFailed::find(&error) {
            Some(failure) => Box::pin(collect_response(failure.into_response())).await,
            None => answer_too_large(),
        },
    }
}

/// Encodes and pads an answer.
pub(super) fn encode_response(response: &InnerResponse) -> Result<Vec<u8>, Problem> {
    response
        .encode_padded()
        .or_else(|error| {
            tracing::error!(code = error.code(), "an answer could not be encoded");
            answer_too_large().encode_padded()
        })
        .map_err(|_| SEALING_FAILED)
}

fn answer_too_large() -> InnerResponse {
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

fn internal_error() -> ApiError {
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "INTERNAL",
        "the request failed inside the service; try again",
    )
}
