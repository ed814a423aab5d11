//! `GET /v1/models/NAME/model.sealed`: a container, whole or one range of it. `…/data-key.wrapped`: its wrapped data key.
//!
//! The entity tag is a hash of the container's length and first bytes. Its header has a fresh salt, so two containers never share
//! a tag, and a container keeps its tag when it is moved.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use sha2::{Digest as _, Sha256};

use super::problem::ParentProblem;
use super::range::{InvalidRange, Selection, select};
use super::source::{Artifact, Container, ModelName, Parts, Source, SourceError};

/// Longest `CiphertextBlob` that KMS takes, bytes.
const MAX_WRAPPED_KEY: u64 = 6144;
/// Bytes at the start of a container that differ between any two.
const IDENTIFYING_BYTES: u64 = 4096;

pub(super) fn routes(source: Arc<dyn Source>) -> Router {
    Router::new()
        .route("/v1/models/{name}/model.sealed", get(container))
        .route("/v1/models/{name}/data-key.wrapped", get(wrapped_key))
        .with_state(source)
}

async fn container(
    State(source): State<Arc<dyn Source>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ParentProblem> {
    let name = ModelName::parse(&name).ok_or(ParentProblem::ModelUnknown)?;
    let container = source
        .open(&name, Artifact::Container)
        .await
        .map_err(|error| report_failure(&error))?;
    let etag = etag(&*container)
        .await
        .map_err(|error| report_failure(&error))?;
    let length = container.length();
    let selection =
        select(&headers, length, &etag).map_err(|InvalidRange| ParentProblem::RangeInvalid)?;
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, &etag);
    let (answer, range) = match selection {
        Selection::Whole => (answer, 0..length),
        Selection::Part(range) => {
            let text = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            let answer = answer.status(StatusCode::PARTIAL_CONTENT);
            (answer.header(header::CONTENT_RANGE, text), range)
        }
    };
    tracing::info!(
        model = name.path(Artifact::Container),
        from = range.start,
        to = range.end,
        "sending a model"
    );
    answer
        .body(Body::new(Parts::begin(container, range)))
        .map_err(|_| ParentProblem::ModelUnavailable)
}

/// Sends a wrapped key. It is not secret: only KMS unwraps it.
async fn wrapped_key(
    State(source): State<Arc<dyn Source>>,
    Path(name): Path<String>,
) -> Result<Response, ParentProblem> {
    let name = ModelName::parse(&name).ok_or(ParentProblem::ModelUnknown)?;
    let file = source.open(&name, Artifact::WrappedKey).await;
    let file = file.map_err(|error| report_failure(&error))?;
    if file.length() > MAX_WRAPPED_KEY {
        let path = name.path(Artifact::WrappedKey);
        tracing::warn!(path, bytes = file.length(), "too long for a wrapped key");
        return Err(ParentProblem::ModelUnavailable);
    }
    let bytes = file.read(0..file.length()).await;
    let bytes = bytes.map_err(|error| report_failure(&error))?;
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, bytes).into_response())
}

async fn etag(container: &dyn Container) -> Result<String, SourceError> {
    let length = container.length();
    let first = container.read(0..length.min(IDENTIFYING_BYTES)).await?;
    let digest = Sha256::new()
        .chain_update(length.to_be_bytes())
        .chain_update(&first)
        .finalize();
    Ok(format!("\"{}\"", base16ct::lower::encode_string(&digest)))
}

fn report_failure(error: &SourceError) -> ParentProblem {
    let problem = match error {
        SourceError::Unknown(_) => ParentProblem::ModelUnknown,
        SourceError::Unavailable(_) => ParentProblem::ModelUnavailable,
    };
    tracing::warn!(%error, "a model was asked for and not given");
    problem
}
