//! The log's public endpoints. Readers can verify every answer, so they need not trust this host.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, header};
use merkle::Hash;
use merkle::json::{Message, from_hex, hex, to_json};
use serde::Deserialize;
use serde_json::json;

use super::{LogError, Store};
use crate::problem::Problem;

/// Routes under `/v1/log`.
pub(crate) fn routes(store: Arc<Store>) -> Router {
    Router::new()
        .route("/v1/log", get(list))
        .route("/v1/log/{id}/head", get(head))
        .route("/v1/log/{id}/inclusion", get(inclusion))
        .route("/v1/log/{id}/consistency", get(consistency))
        .method_not_allowed_fallback(async || Problem::MethodNotAllowed)
        .with_state(store)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadQuery {
    size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InclusionQuery {
    receipt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsistencyQuery {
    from: u64,
    to: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    after: Option<String>,
}

type QueryResult<T> = Result<Query<T>, QueryRejection>;

/// Logs in one answer: few enough that it is as short as a body that is charged to no quota.
const PAGE: usize = 64;

async fn list(
    State(store): State<Arc<Store>>,
    query: QueryResult<ListQuery>,
) -> Result<Response, Problem> {
    let Query(ListQuery { after }) = query.map_err(|_| Problem::LogQueryInvalid)?;
    let after = after.map(|name| from_hex(&name).ok_or(Problem::LogQueryInvalid));
    let mut page = store
        .summaries(after.transpose()?.as_ref(), PAGE + 1)
        .ok_or(Problem::LogUnknown)?;
    let has_more = page.len() > PAGE;
    page.truncate(PAGE);
    let next = page.last().filter(|_| has_more).map(|head| hex(&head.log));
    let logs: Vec<_> = page
        .iter()
        .map(|head| {
            json!({ "log": hex(&head.log), "size": head.size, "root": hex(&head.root), "time": head.time })
        })
        .collect();
    let mut list = json!({ "format": "clearseal-log-list/1", "logs": logs });
    if let Some(next) = next {
        list["next"] = next.into();
    }
    Ok(json_answer(list.to_string()))
}

async fn head(
    State(store): State<Arc<Store>>,
    Path(id): Path<String>,
    query: QueryResult<HeadQuery>,
) -> Result<Response, Problem> {
    let log = from_hex(&id).ok_or(Problem::LogUnknown)?;
    let Query(HeadQuery { size }) = query.map_err(|_| Problem::LogQueryInvalid)?;
    let missing = require_log(&store, &log).and(Err(Problem::TreeSizeUnknown));
    read(store, move |store| store.head(&log, size))
        .await?
        .map_or(missing, |found| json_message(&found))
}

async fn inclusion(
    State(store): State<Arc<Store>>,
    Path(id): Path<String>,
    query: QueryResult<InclusionQuery>,
) -> Result<Response, Problem> {
    let log = from_hex(&id).ok_or(Problem::LogUnknown)?;
    let receipt = query
        .ok()
        .and_then(|Query(InclusionQuery { receipt })| from_hex(&receipt))
        .ok_or(Problem::LogQueryInvalid)?;
    let missing = require_log(&store, &log).and(Err(Problem::ReceiptNotLogged));
    read(store, move |store| store.inclusion(&log, &receipt))
        .await?
        .map_or(missing, |found| json_message(&found))
}

async fn consistency(
    State(store): State<Arc<Store>>,
    Path(id): Path<String>,
    query: QueryResult<ConsistencyQuery>,
) -> Result<Response, Problem> {
    let log = from_hex(&id).ok_or(Problem::LogUnknown)?;
    let Query(ConsistencyQuery { from, to }) = query.map_err(|_| Problem::LogQueryInvalid)?;
    let missing = require_log(&store, &log).and(Err(Problem::TreeSizeUnknown));
    read(store, move |store| store.consistency(&log, from, to))
        .await?
        .map_or(missing, |found| json_message(&found))
}

/// Distinguishes an unknown log from an unknown item of a known one.
fn require_log(store: &Store, log: &Hash) -> Result<(), Problem> {
    if store.is_published(log) {
        Ok(())
    } else {
        Err(Problem::LogUnknown)
    }
}

/// Reads the file on a thread that may block.
async fn read<T: Send + 'static>(
    store: Arc<Store>,
    read: impl FnOnce(&Store) -> Result<T, LogError> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(move || read(&store)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => {
            tracing::error!(code = error.code(), %error, remedy = error.remedy(), "the log cannot be read");
            Err(Problem::LogUnavailable)
        }
        Err(_) => {
            tracing::error!(code = "LOG_CORRUPT", "reading the log panicked");
            Err(Problem::LogUnavailable)
        }
    }
}

fn json_message<T: Message>(message: &T) -> Result<Response, Problem> {
    to_json(message)
        .map(json_answer)
        .map_err(|_| Problem::LogUnavailable)
}

fn json_answer(json: String) -> Response {
    let mut response = json.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
