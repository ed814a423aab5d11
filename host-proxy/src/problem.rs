//! The proxy's own refusals: RFC 9457 problem details.

use std::fmt::Display;

use axum::response::{IntoResponse, Response};
use error_codes::Coded;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;

/// A refusal of the proxy. The enclave's problems pass through unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Coded)]
#[coded(all)]
pub enum Problem {
    /// No process listens at the enclave's address, or the connection was lost before an answer.
    #[error("The enclave cannot be reached")]
    #[coded(
        "ENCLAVE_UNREACHABLE",
        remedy = "It may be restarting: try again in a few seconds, then ask the operator."
    )]
    EnclaveUnreachable,
    /// The enclave took the request but did not answer in time.
    #[error("The enclave did not answer in time")]
    #[coded(
        "ENCLAVE_TIMEOUT",
        remedy = "Send less text at once, or try again later."
    )]
    EnclaveTimeout,
    /// The enclave answers its readiness probe with a refusal: it is starting, draining, or unhealthy.
    #[error("The enclave takes no requests: it is starting, draining, or unhealthy")]
    #[coded(
        "ENCLAVE_NOT_READY",
        remedy = "Try again in a few seconds. If this lasts, the operator finds the enclave's reason in the proxy's log."
    )]
    EnclaveNotReady,
    /// The answer is not HTTP.
    #[error("The server at the enclave's address does not speak HTTP")]
    #[coded(
        "ENCLAVE_INVALID_ANSWER",
        remedy = "The operator should check the proxy's --enclave address."
    )]
    EnclaveInvalidAnswer,
    /// The answer is longer than the limit.
    #[error("The answer is longer than the proxy relays")]
    #[coded(
        "ANSWER_TOO_LARGE",
        remedy = "Send less text at once. For an answer to another request the operator should check the proxy's --enclave address."
    )]
    AnswerTooLarge,
    /// The request is longer than the limit.
    #[error("The request is longer than the proxy relays")]
    #[coded("BODY_TOO_LARGE", remedy = "Send less text at once.")]
    BodyTooLarge,
    /// The client stopped in the middle of its request.
    #[error("The request ended in its middle")]
    #[coded("BODY_INCOMPLETE", remedy = "Send it again.")]
    BodyIncomplete,
    /// The client did not finish its request in time.
    #[error("The request did not arrive in time")]
    #[coded("BODY_TIMEOUT", remedy = "Check the connection and send it again.")]
    BodyTimeout,
    /// A limit of the proxy is reached: requests, documents, channels or bytes at once.
    #[error("The proxy is at its limit of requests, channels or bytes at once")]
    #[coded("BUSY", remedy = "Try again after the time in the Retry-After header.")]
    Busy,
    /// The address has reached its share of a limit.
    #[error(
        "Your address has reached its share of concurrent requests, channels or buffered bytes"
    )]
    #[coded("SOURCE_BUSY", remedy = "Wait for answers before you send more.")]
    SourceBusy,
    /// No `host` field, or several.
    #[error("A request names its host exactly once (RFC 9112 §3.2)")]
    #[coded("HOST_INVALID", remedy = "Send one `host` field.")]
    HostInvalid,
    /// No such endpoint or file.
    #[error("There is nothing at this address")]
    #[coded("NOT_FOUND", remedy = "Check the path.")]
    NotFound,
    /// A client has added `/v1` to a base URL that ends with it.
    #[error("The path begins with /v1/v1")]
    #[coded(
        "PATH_DOUBLED",
        remedy = "The client adds /v1 itself: remove one /v1 from its base URL."
    )]
    PathDoubled,
    /// The endpoint only upgrades connections, and the request asks for no upgrade.
    #[error("This endpoint only opens channels")]
    #[coded(
        "UPGRADE_REQUIRED",
        remedy = "Use a client of this service, or send GET with `upgrade: clearseal-channel` or a WebSocket handshake."
    )]
    UpgradeRequired,
    /// An endpoint of OpenAI's API, which is served only for sealed requests.
    #[error("This service accepts only sealed requests, so that its host cannot read them")]
    #[coded(
        "SEALED_ONLY",
        remedy = "Run `clearseal proxy --policy FILE` next to your client, and give the client the base URL http://127.0.0.1:8788/v1."
    )]
    SealedOnly,
    /// The endpoint does not take this method.
    #[error("This address does not take this method")]
    #[coded(
        "METHOD_NOT_ALLOWED",
        remedy = "The Allow header lists those that it takes."
    )]
    MethodNotAllowed,
    /// No endpoint takes a query of this length.
    #[error("The query is longer than this endpoint takes")]
    #[coded("URI_TOO_LONG", remedy = "A nonce has 16 to 64 bytes, in base64url.")]
    UriTooLong,
    /// No log of this name is kept here.
    #[error("No log of this name is kept here")]
    #[coded(
        "LOG_UNKNOWN",
        remedy = "A log's name is the receipt key in 64 lowercase hex digits; GET /v1/log lists them."
    )]
    LogUnknown,
    /// The receipt is not in the stored tree.
    #[error("The receipt is not in the stored log")]
    #[coded(
        "RECEIPT_NOT_LOGGED",
        remedy = "One that was just issued is there within seconds: try again, then compare with a signed head."
    )]
    ReceiptNotLogged,
    /// No signed head of this size, or the log is shorter.
    #[error("There is no signed head of this size, or the log has fewer leaves")]
    #[coded("TREE_SIZE_UNKNOWN", remedy = "Leave the size out for the newest.")]
    TreeSizeUnknown,
    /// A parameter of the log's endpoints is missing or malformed.
    #[error("A parameter is missing or malformed")]
    #[coded(
        "LOG_QUERY_INVALID",
        remedy = "`receipt` is SHA-256 in 64 lowercase hex digits; `from`, `to` and `size` are numbers of leaves."
    )]
    LogQueryInvalid,
    /// The log's file cannot be read.
    #[error("The log's file cannot be read")]
    #[coded(
        "LOG_UNAVAILABLE",
        remedy = "The operator finds the reason in the proxy's log."
    )]
    LogUnavailable,
}

impl Problem {
    /// The HTTP status that carries it.
    pub fn status(self) -> StatusCode {
        match self {
            Self::EnclaveUnreachable | Self::EnclaveInvalidAnswer | Self::AnswerTooLarge => {
                StatusCode::BAD_GATEWAY
            }
            Self::EnclaveTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::EnclaveNotReady | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyIncomplete | Self::HostInvalid | Self::LogQueryInvalid => {
                StatusCode::BAD_REQUEST
            }
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::SourceBusy => StatusCode::TOO_MANY_REQUESTS,
            Self::NotFound
            | Self::PathDoubled
            | Self::SealedOnly
            | Self::LogUnknown
            | Self::ReceiptNotLogged
            | Self::TreeSizeUnknown => StatusCode::NOT_FOUND,
            Self::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::LogUnavailable => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Builds a problem document (RFC 9457 §3): the problem, then its remedy.
pub(crate) fn document(status: StatusCode, problem: &(impl Coded + Display)) -> Response {
    to_response(status, &members(status, problem))
}

fn members(status: StatusCode, problem: &(impl Coded + Display)) -> Value {
    serde_json::json!({
        "type": "about:blank",
        // RFC 9457 §4.2.1: the title of about:blank is the phrase of the status.
        "title": status.canonical_reason().unwrap_or(problem.code()),
        "status": status.as_u16(),
        "detail": format!("{problem}. {}", problem.remedy()),
        "code": problem.code(),
    })
}

fn to_response(status: StatusCode, body: &Value) -> Response {
    let mut response = (status, body.to_string()).into_response();
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl Problem {
    /// Builds the problem document with OpenAI's error object, for a client of its API. `has_text`: the request was one that
    /// carries text.
    pub(crate) fn to_openai_response(self, has_text: bool) -> Response {
        let status = self.status();
        let mut body = members(status, &self);
        let warning = match has_text {
            true => "The text of this request was sent in clear, and this host could read it. ",
            false => "",
        };
        let remedy = match self {
            Self::SealedOnly => String::new(),
            _ => format!(" {}", Self::SealedOnly.remedy()),
        };
        let kind = match status.is_server_error() {
            true => "server_error",
            false => "invalid_request_error",
        };
        body["error"] = serde_json::json!({
            "message": format!("{warning}{self}. {}{remedy}", self.remedy()),
            "type": kind,
            "param": null,
            "code": self.code(),
        });
        self.add_headers(to_response(status, &body))
    }

    fn add_headers(self, mut response: Response) -> Response {
        let status = response.status();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // RFC 9110 §15.5.22; RFC 6455 §4.4 for another version of WebSocket.
            StatusCode::UPGRADE_REQUIRED => {
                let protocols = HeaderValue::from_static("clearseal-channel, websocket");
                headers.insert(header::UPGRADE, protocols);
                let version = HeaderValue::from_static("13");
                headers.insert(header::SEC_WEBSOCKET_VERSION, version);
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.add_headers(document(self.status(), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_lists_every_code() {
        let protocol = include_str!("../../docs/PROTOCOL.md");
        for problem in Problem::ALL {
            let code = problem.code();
            assert!(protocol.contains(&format!("`{code}`")), "{code}");
        }
    }
}
