//! Sealed errors, in OpenAI's format, so that its clients show them.

use std::fmt::Display;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{EmbedError, PoolError, TokenizerError};
use error_codes::Coded;
use serde::Serialize;

/// A sealed error. The message states what happened and what to do, and quotes nothing of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable code.
    pub code: &'static str,
    /// For a person.
    pub message: String,
    /// Member of the request that is to blame.
    pub param: Option<&'static str>,
    /// Seconds after which to retry.
    pub retry_after: Option<u64>,
}

impl ApiError {
    /// An error of the given status.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            param: None,
            retry_after: None,
        }
    }

    /// An error of status 400.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// An error with the message and the remedy of `error`.
    pub fn from_coded(
        status: StatusCode,
        error: &(impl Coded + Display),
        code: &'static str,
    ) -> Self {
        Self::new(status, code, format!("{error}. {}", error.remedy()))
    }

    /// Names the member of the request that is to blame.
    #[must_use]
    pub fn param(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }

    /// States when to retry.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

/// A refusal, in OpenAI's format.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Refusal"))]
#[derive(Serialize)]
pub(super) struct Body {
    error: Error,
}

/// The error and its remedy.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct Error {
    /// For a person. Quotes nothing of the request.
    message: String,
    /// `invalid_request_error`, `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Member of the request that is to blame.
    param: Option<&'static str>,
    /// Stable code.
    code: &'static str,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // OpenAI's clients choose their exception by status; `type` is for people.
        let kind = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let error = Error {
            message: self.message,
            kind,
            param: self.param,
            code: self.code,
        };
        let mut response = (self.status, Json(Body { error })).into_response();
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<EmbedError> for ApiError {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::Pool(error) => error.into(),
            EmbedError::Tokenizer {
                error: TokenizerError::Malformed(_) | TokenizerError::Failed,
                ..
            } => Self::from_coded(
                StatusCode::INTERNAL_SERVER_ERROR,
                &error,
                "TOKENIZER_FAILED",
            ),
            EmbedError::Overlong { .. } | EmbedError::Tokenizer { .. } => {
                Self::from_coded(StatusCode::BAD_REQUEST, &error, error.code()).param("input")
            }
        }
    }
}

impl From<PoolError> for ApiError {
    fn from(error: PoolError) -> Self {
        let status = match error {
            PoolError::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
            PoolError::Deadline => StatusCode::SERVICE_UNAVAILABLE,
            PoolError::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let answer = Self::from_coded(status, &error, error.code());
        match error {
            PoolError::Busy { retry_after } => answer.retry_after(retry_after.as_secs()),
            PoolError::Deadline => answer.retry_after(1),
            PoolError::Failed => answer,
        }
    }
}
