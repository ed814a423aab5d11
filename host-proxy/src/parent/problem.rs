//! What the enclave is told when it cannot have what it asks for: RFC 9457 problem details.

use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::problem::document;

/// A refusal. The enclave reads the status; the code is for whoever reads its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentProblem {
    /// No such endpoint.
    NotFound,
    /// The endpoint answers another method.
    MethodNotAllowed,
    /// There is no such model, or no place for models is configured.
    ModelUnknown,
    /// The place of the models cannot be read now.
    ModelUnavailable,
    /// Not one range of bytes that the container has.
    RangeInvalid,
}

impl ParentProblem {
    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "NOT_FOUND",
                "The parent has no such endpoint.",
            ),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "The endpoint answers another method.",
            ),
            Self::ModelUnknown => (
                StatusCode::NOT_FOUND,
                "MODEL_UNKNOWN",
                "No sealed model of this name is here. Put it where --models points, as NAME/model.sealed.",
            ),
            Self::ModelUnavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "MODEL_UNAVAILABLE",
                "The place of the models cannot be read now. The proxy's log says why.",
            ),
            Self::RangeInvalid => (
                StatusCode::RANGE_NOT_SATISFIABLE,
                "RANGE_INVALID",
                "Ask for one range of bytes inside the container, as bytes=FIRST- or bytes=FIRST-LAST.",
            ),
        }
    }
}

impl IntoResponse for ParentProblem {
    fn into_response(self) -> Response {
        let (status, code, detail) = self.parts();
        document(status, code, detail)
    }
}
