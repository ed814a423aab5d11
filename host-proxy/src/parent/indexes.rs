//! `/v1/indexes`: keeps the sealed objects of private indexes for the enclave ([INDEX.md](../../../docs/INDEX.md)).
//!
//! | request | answers |
//! | --- | --- |
//! | `GET /v1/indexes/ID` | names and sizes of the objects of an index |
//! | `GET /v1/indexes/ID/KIND/NAME` | an object |
//! | `POST /v1/indexes/ID/KIND/NAME` | 201 once the object is durable; 409 where one of this name exists, which is then durable |
//! | `DELETE /v1/indexes/ID/KIND/NAME` | 200, also where there is none |
//!
//! Objects are ciphertext. The enclave detects one that was changed, exchanged or taken away.

mod name;
mod store;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::problem::ParentProblem;
use name::{IndexName, ObjectName};
pub(super) use store::Store;
use store::{Created, StoreError};

/// Largest object in bytes.
const MAX_OBJECT: usize = 128 << 20;
/// Objects that are received at once; each is in memory until it is written.
const UPLOADS: usize = 2;

struct Indexes {
    /// `None` without `--indexes`.
    store: Option<Store>,
    uploads: Semaphore,
}

pub(super) fn routes(store: Option<Store>) -> Router {
    let uploads = Semaphore::new(UPLOADS);
    Router::new()
        .route("/v1/indexes/{id}", get(list))
        .route(
            "/v1/indexes/{id}/{kind}/{name}",
            get(read).post(create).delete(delete),
        )
        .with_state(Arc::new(Indexes { store, uploads }))
}

impl Indexes {
    fn store(&self) -> Result<&Store, ParentProblem> {
        self.store.as_ref().ok_or(ParentProblem::IndexesOff)
    }
}

/// The objects of one index.
#[derive(Serialize)]
struct Listing {
    objects: Vec<ListedObject>,
}

#[derive(Serialize)]
struct ListedObject {
    /// `KIND/NAME`.
    name: String,
    size: u64,
}

async fn list(
    State(indexes): State<Arc<Indexes>>,
    Path(id): Path<String>,
) -> Result<Response, ParentProblem> {
    let store = indexes.store()?;
    let id = IndexName::parse(&id).ok_or(ParentProblem::ObjectNameInvalid)?;
    let found = store.list(&id).await.map_err(|error| report(&error))?;
    let objects = found.into_iter().map(|(name, size)| ListedObject {
        name: name.below_index(),
        size,
    });
    let objects = objects.collect();
    Ok(Json(Listing { objects }).into_response())
}

async fn read(
    State(indexes): State<Arc<Indexes>>,
    Path((id, kind, name)): Path<(String, String, String)>,
) -> Result<Response, ParentProblem> {
    let store = indexes.store()?;
    let name = ObjectName::parse(&id, &kind, &name).ok_or(ParentProblem::ObjectNameInvalid)?;
    let found = store.read(&name).await.map_err(|error| report(&error))?;
    let object = found.ok_or(ParentProblem::ObjectUnknown)?;
    Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, object.size)
        .body(Body::from_stream(object.bytes))
        .map_err(|_| ParentProblem::IndexesUnavailable)
}

async fn create(
    State(indexes): State<Arc<Indexes>>,
    Path((id, kind, name)): Path<(String, String, String)>,
    body: Body,
) -> Result<Response, ParentProblem> {
    let store = indexes.store()?;
    let name = ObjectName::parse(&id, &kind, &name).ok_or(ParentProblem::ObjectNameInvalid)?;
    let upload = indexes.uploads.acquire().await;
    let _upload = upload.map_err(|_| ParentProblem::IndexesUnavailable)?;
    let bytes = to_bytes(body, MAX_OBJECT).await;
    let bytes = bytes.map_err(|_| ParentProblem::ObjectTooLarge)?;
    match store.create(&name, bytes).await {
        Ok(Created::New) => Ok(StatusCode::CREATED.into_response()),
        Ok(Created::Exists) => Err(ParentProblem::ObjectExists),
        Err(error) => Err(report(&error)),
    }
}

async fn delete(
    State(indexes): State<Arc<Indexes>>,
    Path((id, kind, name)): Path<(String, String, String)>,
) -> Result<Response, ParentProblem> {
    let store = indexes.store()?;
    let name = ObjectName::parse(&id, &kind, &name).ok_or(ParentProblem::ObjectNameInvalid)?;
    store.delete(&name).await.map_err(|error| report(&error))?;
    Ok(StatusCode::OK.into_response())
}

fn report(error: &StoreError) -> ParentProblem {
    tracing::warn!(%error, "an object of an index was not read or written");
    match error {
        StoreError::Full(_) | StoreError::Disk(_) => ParentProblem::IndexesFull,
        StoreError::Failed(_) => ParentProblem::IndexesUnavailable,
    }
}
