//! `GET /v1/log` and `GET /v1/log/leaves`: the log of receipts, for the host to keep and to prove from.

use std::sync::Arc;

use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use merkle::exchange::{Leaves, Logs, MAX_LEAVES, Message, SignedHead, from_hex, to_json};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Service;
use super::attestation::document;
use super::problem::Problem;
use crate::keys::Generation;
use crate::log::Document;

/// Every log that may still grow, the newest first.
pub(super) async fn logs(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    let generations = service.keys.generations();
    let logs = generations
        .iter()
        .map(|generation| generation.receipts.public_key())
        .collect();
    answer(&Logs { logs })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    log: String,
    from: u64,
}

/// Leaves from a number on, and the signed head of the whole log. Signed here and now, never while an answer waits.
pub(super) async fn leaves(
    State(service): State<Arc<Service>>,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<Response, Problem> {
    let Ok(Query(Parameters { log, from })) = parameters else {
        return Err(QUERY_INVALID);
    };
    let log = from_hex(&log).ok_or(QUERY_INVALID)?;
    let generation = service
        .keys
        .generations()
        .into_iter()
        .find(|generation| generation.receipts.public_key() == log)
        .ok_or(LOG_UNKNOWN)?;
    let document = current_document(&service, &generation).await?;
    let excerpt = generation
        .log
        .excerpt(from, MAX_LEAVES)
        .map_err(|_| LEAVES_GONE)?;
    let head =
        generation
            .receipts
            .sign_head(excerpt.tree, service.now().seconds(), document.sha256);
    service.metrics.tree_heads.inc();
    answer(&Leaves {
        from,
        leaves: excerpt.leaves,
        head: SignedHead {
            head,
            document: document.bytes,
            manifest: generation.manifest.clone(),
        },
    })
}

/// How old a head's document may be, in seconds. A document's certificate is valid for three hours, and a head is judged
/// as of its own time.
const DOCUMENT_AGE: u64 = 3600;

/// A document that answers no client: its nonce is the log's name.
async fn current_document(
    service: &Arc<Service>,
    generation: &Arc<Generation>,
) -> Result<Document, Problem> {
    let mut place = generation.log.document().await;
    let now = service.now().seconds();
    if let Some(document) = place
        .as_ref()
        .filter(|document| now.saturating_sub(document.made_at) < DOCUMENT_AGE)
    {
        return Ok(document.clone());
    }
    let nonce = generation.receipts.public_key().to_vec();
    let bytes = document(service, Arc::clone(generation), nonce).await?;
    let document = Document {
        sha256: Sha256::digest(&bytes).into(),
        bytes,
        made_at: now,
    };
    *place = Some(document.clone());
    Ok(document)
}

fn answer<T: Message>(message: &T) -> Result<Response, Problem> {
    let json = to_json(message).map_err(|_| ANSWER_FAILED)?;
    Ok((
        [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        json,
    )
        .into_response())
}

const QUERY_INVALID: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "LOG_QUERY_INVALID",
    "The query is malformed",
    "Pass ?log= with a receipt key in 64 lowercase hex digits, and &from= with the number of a leaf.",
);
const LOG_UNKNOWN: Problem = Problem::new(
    StatusCode::NOT_FOUND,
    "LOG_UNKNOWN",
    "This enclave keeps no such log",
    "GET /v1/log lists those that it keeps; the keys of others are gone.",
);
const LEAVES_GONE: Problem = Problem::new(
    StatusCode::GONE,
    "LEAVES_GONE",
    "These leaves are not there",
    "Ask more often: an enclave remembers its newest leaves only.",
);
const ANSWER_FAILED: Problem = Problem::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "LOG_ANSWER_FAILED",
    "The log could not be written",
    "Try again, and report it if it stays.",
);
