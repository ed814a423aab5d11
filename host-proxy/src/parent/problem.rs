//! Refusals of the enclave's requests, as RFC 9457 problem details.

use axum::response::{IntoResponse, Response};
use error_codes::Coded;
use http::StatusCode;

use crate::problem::document;

/// A refusal. The enclave reads the status; the code is for readers of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Coded)]
pub(crate) enum ParentProblem {
    /// No such endpoint.
    #[error("The parent has no such endpoint")]
    #[coded(
        "PARENT_ENDPOINT_UNKNOWN",
        remedy = "Run enclave and host-proxy of one release."
    )]
    NotFound,
    /// The endpoint answers another method.
    #[error("The endpoint answers another method")]
    #[coded(
        "PARENT_METHOD_NOT_ALLOWED",
        remedy = "Run enclave and host-proxy of one release."
    )]
    MethodNotAllowed,
    /// The model does not exist, or no source of models is configured.
    #[error("No sealed model of this name is here")]
    #[coded(
        "MODEL_UNKNOWN",
        remedy = "Put it where --models points, as NAME/model.sealed."
    )]
    ModelUnknown,
    /// The place of the models cannot be read now.
    #[error("The place of the models cannot be read now")]
    #[coded("MODEL_UNAVAILABLE", remedy = "The proxy's log says why.")]
    ModelUnavailable,
    /// Not one range of bytes that the container has.
    #[error("The container has no such range of bytes, or it is not one range")]
    #[coded(
        "RANGE_INVALID",
        remedy = "Ask for one range of bytes inside the container, as bytes=FIRST- or bytes=FIRST-LAST."
    )]
    RangeInvalid,
}

impl ParentProblem {
    fn status(self) -> StatusCode {
        match self {
            Self::NotFound | Self::ModelUnknown => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::ModelUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::RangeInvalid => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }
}

impl IntoResponse for ParentProblem {
    fn into_response(self) -> Response {
        document(self.status(), &self)
    }
}
