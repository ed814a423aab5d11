//! The published log's endpoints. Readers verify every answer, so they need not trust this host.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderValue, header};
use merkle::json::from_hex;
use witness::tiles::Tile;

use super::{DeploymentError, DeploymentStore};
use crate::problem::Problem;

/// Answers that never change.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const CURRENT: HeaderValue = HeaderValue::from_static("no-cache");

/// Routes under `/v1/deployment`.
pub(crate) fn routes(store: Arc<DeploymentStore>) -> Router {
    Router::new()
        .route("/v1/deployment/checkpoint", get(checkpoint))
        .route("/v1/deployment/tile/{*path}", get(tile))
        .route("/v1/deployment/record/{entry}", get(record))
        .route("/v1/deployment/proof/{entry}", get(proof))
        .method_not_allowed_fallback(async || Problem::MethodNotAllowed)
        .with_state(store)
}

type Shared = State<Arc<DeploymentStore>>;

async fn checkpoint(State(store): Shared) -> Result<Response, Problem> {
    let head = read(store, |store| store.published()).await?;
    Ok(text(head.note.to_string()))
}

async fn tile(State(store): Shared, Path(path): Path<String>) -> Result<Response, Problem> {
    let path = format!("tile/{path}");
    let (tile, is_entries) = Tile::parse_path(&path).ok_or(Problem::NotFound)?;
    let bytes = read(store, move |store| store.tile(tile, is_entries)).await?;
    Ok(binary(bytes))
}

async fn record(State(store): Shared, Path(entry): Path<String>) -> Result<Response, Problem> {
    let entry = from_hex(&entry).ok_or(Problem::NotFound)?;
    let found = read(store, move |store| match store.proof(&entry)? {
        // Not before it is published.
        None => Ok(None),
        Some(_) => store.record(&entry),
    });
    Ok(binary(found.await?))
}

async fn proof(State(store): Shared, Path(entry): Path<String>) -> Result<Response, Problem> {
    let entry = from_hex(&entry).ok_or(Problem::NotFound)?;
    let proof = read(store, move |store| store.proof(&entry)).await?;
    Ok(text(proof.to_string()))
}

/// Reads the file on a thread that may block.
async fn read<T: Send + 'static>(
    store: Arc<DeploymentStore>,
    read: impl FnOnce(&DeploymentStore) -> Result<Option<T>, DeploymentError> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(move || read(&store)).await {
        Ok(Ok(found)) => found.ok_or(Problem::NotFound),
        Ok(Err(error)) => {
            tracing::error!(code = error.code(), %error, remedy = error.remedy(), "the deployment's log cannot be read");
            Err(Problem::LogUnavailable)
        }
        Err(_) => Err(Problem::LogUnavailable),
    }
}

fn text(body: String) -> Response {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    let fields = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, CURRENT),
    ];
    (fields, body).into_response()
}

fn binary(body: Vec<u8>) -> Response {
    let kind = HeaderValue::from_static("application/octet-stream");
    let fields = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, IMMUTABLE),
    ];
    (fields, body).into_response()
}
