//! `GET /v1/models/NAME/model.sealed`: a container, whole or one range of it. `…/data-key.wrapped`: its wrapped data key.
//!
//! The entity tag is made of the length and the container's first bytes, in which the header has a fresh salt: two
//! containers never share it, and one that was moved to another place keeps it.

use super::problem::ParentProblem;
use super::range::{InvalidRange, Wanted, wanted};
use super::source::{Artifact, Container, ModelName, Parts, Source, SourceError};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Most bytes of `CiphertextBlob` that KMS takes.
const MAX_WRAPPED_KEY: u64 = 6144;
/// Bytes that tell containers apart.
const IDENTIFYING: u64 = 4096;

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
        .map_err(|error| refused(&error))?;
    let etag = etag(&*container).await.map_err(|error| refused(&error))?;
    let length = container.length();
    let wanted =
        wanted(&headers, length, &etag).map_err(|InvalidRange| ParentProblem::RangeInvalid)?;
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, &etag);
    let (answer, range) = match wanted {
        Wanted::Whole => (answer, 0..length),
        Wanted::Part(range) => {
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

/// Secret to nobody: only KMS unwraps it.
async fn wrapped_key(
    State(source): State<Arc<dyn Source>>,
    Path(name): Path<String>,
) -> Result<Response, ParentProblem> {
    let name = ModelName::parse(&name).ok_or(ParentProblem::ModelUnknown)?;
    let file = source.open(&name, Artifact::WrappedKey).await;
    let file = file.map_err(|error| refused(&error))?;
    if file.length() > MAX_WRAPPED_KEY {
        let path = name.path(Artifact::WrappedKey);
        tracing::warn!(path, bytes = file.length(), "too long for a wrapped key");
        return Err(ParentProblem::ModelUnavailable);
    }
    let bytes = file.read(0..file.length()).await;
    let bytes = bytes.map_err(|error| refused(&error))?;
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, bytes).into_response())
}

async fn etag(container: &dyn Container) -> Result<String, SourceError> {
    let length = container.length();
    let first = container.read(0..length.min(IDENTIFYING)).await?;
    let digest = Sha256::new()
        .chain_update(length.to_be_bytes())
        .chain_update(&first)
        .finalize();
    Ok(format!("\"{}\"", base16ct::lower::encode_string(&digest)))
}

fn refused(error: &SourceError) -> ParentProblem {
    let problem = match error {
        SourceError::Unknown(_) => ParentProblem::ModelUnknown,
        SourceError::Unavailable(_) => ParentProblem::ModelUnavailable,
    };
    tracing::warn!(%error, "a model was asked for and not given");
    problem
}
