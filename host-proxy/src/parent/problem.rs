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
    /// No folder for indexes is configured.
    #[error("This host keeps no indexes")]
    #[coded("INDEXES_OFF", remedy = "Start host-proxy with --indexes FOLDER.")]
    IndexesOff,
    /// The name is not one of an index's objects.
    #[error("Not a name of an index or of one of its objects")]
    #[coded(
        "INDEX_OBJECT_NAME_INVALID",
        remedy = "Run enclave and host-proxy of one release."
    )]
    ObjectNameInvalid,
    /// There is no such object.
    #[error("There is no such object")]
    #[coded(
        "INDEX_OBJECT_UNKNOWN",
        remedy = "Restore the folder of --indexes, if the enclave reports that it is missing."
    )]
    ObjectUnknown,
    /// An object of this name exists.
    #[error("An object of this name exists")]
    #[coded(
        "INDEX_OBJECT_EXISTS",
        remedy = "Nothing to do: the enclave compares the two."
    )]
    ObjectExists,
    /// The object is too large, or its sender stopped.
    #[error("The object is larger than 128 MiB, or it ended early")]
    #[coded(
        "INDEX_OBJECT_TOO_LARGE",
        remedy = "Run enclave and host-proxy of one release."
    )]
    ObjectTooLarge,
    /// There is no space for another object.
    #[error("There is no space for another object of an index")]
    #[coded(
        "INDEXES_FULL",
        remedy = "Free space on the disk, raise --indexes-max, or compact or delete indexes."
    )]
    IndexesFull,
    /// The folder of the indexes cannot be used now.
    #[error("The folder of the indexes cannot be used now")]
    #[coded("INDEXES_UNAVAILABLE", remedy = "The proxy's log says why.")]
    IndexesUnavailable,
}

impl ParentProblem {
    fn status(self) -> StatusCode {
        match self {
            Self::NotFound | Self::ModelUnknown | Self::ObjectUnknown => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::ModelUnavailable | Self::IndexesUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::IndexesOff => StatusCode::NOT_IMPLEMENTED,
            Self::ObjectNameInvalid => StatusCode::BAD_REQUEST,
            Self::ObjectExists => StatusCode::CONFLICT,
            Self::ObjectTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::IndexesFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::RangeInvalid => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }
}

impl IntoResponse for ParentProblem {
    fn into_response(self) -> Response {
        document(self.status(), &self)
    }
}
