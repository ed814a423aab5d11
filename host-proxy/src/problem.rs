//! What the proxy itself answers when it cannot relay: RFC 9457 problem details.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

/// A refusal of the proxy. The enclave's own problems pass through untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// Nothing answers where the enclave should listen, or the connection was lost before an answer.
    EnclaveUnreachable,
    /// The enclave took the request but did not answer in time.
    EnclaveTimeout,
    /// The enclave answers its readiness probe with a refusal.
    EnclaveNotReady,
    /// What came back is not HTTP.
    EnclaveInvalidAnswer,
    /// The answer is longer than the limit.
    AnswerTooLarge,
    /// The request is longer than the limit.
    BodyTooLarge,
    /// The client stopped in the middle of its request.
    BodyIncomplete,
    /// The client did not finish its request in time.
    BodyTimeout,
    /// As many requests are in flight as are allowed.
    Busy,
    /// One address has as much in flight as a single one may.
    SourceBusy,
    /// No `host` field, or several.
    HostInvalid,
    /// No such endpoint or file.
    NotFound,
    /// The endpoint turns a connection into another protocol, and nothing else was asked.
    UpgradeRequired,
    /// An endpoint of OpenAI's API, which exists only inside the seal.
    SealedOnly,
    /// The endpoint exists, the method is not one of its own.
    MethodNotAllowed,
    /// The query is longer than any that an endpoint takes.
    UriTooLong,
    /// No log of this name is kept here.
    LogUnknown,
    /// The receipt is not in the stored tree.
    ReceiptNotLogged,
    /// No signed head of this size, or not so many leaves.
    TreeSizeUnknown,
    /// A parameter of the log's endpoints is missing or malformed.
    LogQueryInvalid,
    /// The log's file cannot be read.
    LogUnavailable,
}

impl Problem {
    /// The stable name of the problem.
    pub fn code(self) -> &'static str {
        self.parts().1
    }

    /// The HTTP status that carries it.
    pub fn status(self) -> StatusCode {
        self.parts().0
    }

    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::EnclaveUnreachable => (
                StatusCode::BAD_GATEWAY,
                "ENCLAVE_UNREACHABLE",
                "The enclave cannot be reached. It may be restarting: try again in a few seconds, then ask the operator.",
            ),
            Self::EnclaveTimeout => (
                StatusCode::GATEWAY_TIMEOUT,
                "ENCLAVE_TIMEOUT",
                "The enclave did not answer in time. Send less text at once, or try again later.",
            ),
            Self::EnclaveNotReady => (
                StatusCode::SERVICE_UNAVAILABLE,
                "ENCLAVE_NOT_READY",
                "The enclave is starting and takes no requests yet. Try again in a few seconds.",
            ),
            Self::EnclaveInvalidAnswer => (
                StatusCode::BAD_GATEWAY,
                "ENCLAVE_INVALID_ANSWER",
                "What answers in the enclave's place does not speak HTTP. The operator should check the proxy's --enclave address.",
            ),
            Self::AnswerTooLarge => (
                StatusCode::BAD_GATEWAY,
                "ANSWER_TOO_LARGE",
                "The answer is longer than the proxy relays. Send less text at once.",
            ),
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "BODY_TOO_LARGE",
                "The request is longer than the proxy relays. Send less text at once.",
            ),
            Self::BodyIncomplete => (
                StatusCode::BAD_REQUEST,
                "BODY_INCOMPLETE",
                "The request broke off in its middle. Send it again.",
            ),
            Self::BodyTimeout => (
                StatusCode::REQUEST_TIMEOUT,
                "BODY_TIMEOUT",
                "The request did not arrive in time. Check the connection and send it again.",
            ),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "BUSY",
                "The proxy relays as many requests as it may. Try again after the time in the Retry-After header.",
            ),
            Self::SourceBusy => (
                StatusCode::TOO_MANY_REQUESTS,
                "SOURCE_BUSY",
                "Your address has as many requests or bytes under way as one may. Wait for answers before you send more.",
            ),
            Self::HostInvalid => (
                StatusCode::BAD_REQUEST,
                "HOST_INVALID",
                "A request names its host exactly once (RFC 9112 §3.2). Send one `host` field.",
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "NOT_FOUND",
                "There is nothing at this address. Check the path.",
            ),
            Self::UpgradeRequired => (
                StatusCode::UPGRADE_REQUIRED,
                "UPGRADE_REQUIRED",
                "This endpoint opens channels alone. Use a client of this service, or send GET with `upgrade: clearseal-channel` or a WebSocket handshake.",
            ),
            Self::SealedOnly => (
                StatusCode::NOT_FOUND,
                "SEALED_ONLY",
                "This service takes sealed requests alone, so that its host cannot read them. Run `clearseal proxy --policy FILE` beside your client, and give the client the base URL http://127.0.0.1:8788/v1.",
            ),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "This address does not take this method. The Allow header lists those that it takes.",
            ),
            Self::UriTooLong => (
                StatusCode::URI_TOO_LONG,
                "URI_TOO_LONG",
                "The query is longer than this endpoint takes. A nonce has 16 to 64 bytes, in base64url.",
            ),
            Self::LogUnknown => (
                StatusCode::NOT_FOUND,
                "LOG_UNKNOWN",
                "No log of this name is kept here. A log's name is the receipt key in 64 lowercase hex digits; GET /v1/log lists them.",
            ),
            Self::ReceiptNotLogged => (
                StatusCode::NOT_FOUND,
                "RECEIPT_NOT_LOGGED",
                "The receipt is not in the stored log. One that was just issued is there within seconds: try again, then compare with a signed head.",
            ),
            Self::TreeSizeUnknown => (
                StatusCode::NOT_FOUND,
                "TREE_SIZE_UNKNOWN",
                "There is no signed head of this size, or the log has not so many leaves. Leave the size out for the newest.",
            ),
            Self::LogQueryInvalid => (
                StatusCode::BAD_REQUEST,
                "LOG_QUERY_INVALID",
                "A parameter is missing or malformed. receipt is SHA-256 in 64 lowercase hex digits; from, to and size are numbers of leaves.",
            ),
            Self::LogUnavailable => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "LOG_UNAVAILABLE",
                "The log's file cannot be read. The operator finds the reason in the proxy's log.",
            ),
        }
    }
}

/// A problem document (RFC 9457 §3).
pub(crate) fn document(status: StatusCode, code: &str, detail: &str) -> Response {
    let body = serde_json::json!({
        "type": "about:blank",
        // RFC 9457 §4.2.1: under about:blank the title is the status's own phrase.
        "title": status.canonical_reason().unwrap_or(code),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    let mut response = (status, body.to_string()).into_response();
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code, detail) = self.parts();
        let mut response = document(status, code, detail);
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(
            status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(self);
        response
    }
}
