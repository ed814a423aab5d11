//! Plaintext errors: RFC 9457 problem details. The host reads them, so they reveal nothing of a sealed request.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A problem that anyone may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Problem type, where another document defines one.
    pub kind: Option<&'static str>,
    /// Stable code.
    pub code: &'static str,
    /// The event, in one clause.
    pub happened: &'static str,
    /// The remedy, in whole sentences.
    pub remedy: &'static str,
    /// Seconds after which to retry.
    pub retry_after: Option<u32>,
}

impl Problem {
    /// A problem without a separate type.
    pub const fn new(
        status: StatusCode,
        code: &'static str,
        happened: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self {
            status,
            kind: None,
            code,
            happened,
            remedy,
            retry_after: None,
        }
    }

    /// States that a retry after `seconds` may succeed.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body {
            #[serde(rename = "type")]
            kind: &'static str,
            title: &'static str,
            status: u16,
            detail: String,
            code: &'static str,
        }
        let body = Body {
            kind: self.kind.unwrap_or("about:blank"),
            // RFC 9457 §4.2.1: with about:blank the title is the phrase of the status.
            title: match (self.kind, self.status.canonical_reason()) {
                (None, Some(phrase)) => phrase,
                _ => self.happened,
            },
            status: self.status.as_u16(),
            detail: format!("{}. {}", self.happened, self.remedy),
            code: self.code,
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(ProblemCode(self.code));
        response
    }
}

/// Code of the problem that a response carries, for the log.
#[derive(Clone, Copy)]
pub(crate) struct ProblemCode(pub(crate) &'static str);
