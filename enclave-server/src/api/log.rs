//! `GET /v1/log` and `GET /v1/log/leaves`: the log of receipts, for the host to keep and to prove from.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use merkle::json::{Format, Leaves, Logs, MAX_LEAVES, Message, SignedHead, from_hex, to_json};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::Service;
use super::attestation::{Subject, document};
use super::problem::Problem;
use crate::keys::Generation;
use crate::log::Document;

/// Every log that may still grow, the newest first.
pub(super) async fn logs(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    let generations = service.keys.generations(service.now());
    let logs = generations
        .iter()
        .map(|generation| generation.receipts.public_key())
        .collect();
    answer(&Logs {
        format: Format::new(),
        logs,
    })
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
        .generations(service.now())
        .into_iter()
        .find(|generation| generation.receipts.public_key() == log)
        .ok_or(LOG_UNKNOWN)?;
    generation.log.note_question(from);
    service.host.asked.send_replace(true);
    let (document, time) = current_document(&service, &generation).await?;
    let excerpt = generation
        .log
        .excerpt(from, MAX_LEAVES)
        .map_err(|_| LEAVES_GONE)?;
    let head = generation
        .receipts
        .sign_head(excerpt.tree, time, document.sha256);
    service.metrics.tree_heads.inc();
    answer(&Leaves {
        format: Format::new(),
        from,
        leaves: excerpt.leaves,
        head: SignedHead {
            format: Format::new(),
            head,
            document: document.bytes,
            manifest: generation.manifest.clone(),
        },
    })
}

/// The host that keeps the logs, as far as its questions show it.
#[derive(Default)]
pub(super) struct Host {
    /// Whether it has ever asked for leaves; told again with every question.
    asked: watch::Sender<bool>,
    /// When this process issued its first receipt, on the steady count.
    first_receipt: OnceLock<Duration>,
}

impl Host {
    pub(super) fn note_receipt(&self, now: Duration) {
        self.first_receipt.get_or_init(|| now);
    }
}

impl Service {
    /// Waits until the host has stored every leaf of every log. To be called when no receipt is issued any more.
    ///
    /// A host that keeps no log never asks for leaves, and is not waited for. One that keeps a log asks within 10 seconds
    /// of the first receipt, so until then its silence means nothing.
    pub async fn log_stored(&self) {
        let mut questions = self.host.asked.subscribe();
        loop {
            let asked = *questions.borrow_and_update();
            if self.unstored_logs() == 0 {
                return;
            }
            let next = async {
                // Fails once the service is gone, with everything that could ask it.
                questions.changed().await.ok();
            };
            if asked {
                next.await;
                continue;
            }
            let now = self.now().steady;
            let until = self
                .host
                .first_receipt
                .get()
                .map(|first| *first + FIRST_QUESTION);
            let Some(left) = until.and_then(|until| until.checked_sub(now)) else {
                return;
            };
            if left.is_zero() || tokio::time::timeout(left, next).await.is_err() {
                return;
            }
        }
    }

    /// How many logs have leaves that the host has not acknowledged.
    pub fn unstored_logs(&self) -> usize {
        let all = self.keys.generations(self.now());
        all.iter()
            .filter(|generation| !generation.log.is_stored())
            .count()
    }
}

/// A host that keeps a log asks after every sealed answer, and every 5 seconds.
const FIRST_QUESTION: Duration = Duration::from_secs(10);

/// How old a head's document may be. A younger one is made earlier where a certificate ends.
const DOCUMENT_AGE: Duration = Duration::from_secs(3600);

/// A document that answers no client (its nonce is the log's name), and the second that a head beside it states now: within the
/// validity of the manifest and of every certificate of the document, or an auditor would refuse the head.
async fn current_document(
    service: &Arc<Service>,
    generation: &Arc<Generation>,
) -> Result<(Document, u64), Problem> {
    let mut place = generation.log.document().await;
    // The clock is read after whatever was waited for: what is good is good now.
    let stated = |document: &Document| generation.stated_time(service.now(), document.validity);
    let kept = place
        .as_ref()
        .and_then(|document| Some((document.clone(), stated(document)?)));
    let young = |document: &Document| {
        let age = service.now().steady.saturating_sub(document.made_at);
        age < DOCUMENT_AGE
    };
    if let Some(kept) = &kept
        && young(&kept.0)
    {
        return Ok(kept.clone());
    }
    let made_at = service.now().steady;
    let nonce = generation.receipts.public_key().to_vec();
    let subject = Subject::of(generation, nonce);
    let (bytes, validity) = match document(service, Arc::clone(generation), subject).await {
        Ok(made) => made,
        // An older one does as long as it is good.
        Err(problem) => return kept.ok_or(problem),
    };
    let document = Document {
        sha256: Sha256::digest(&bytes).into(),
        bytes,
        validity,
        made_at,
    };
    let time = stated(&document).ok_or(if generation.is_valid(service.now()) {
        MODULE_CLOCK_JUMPED
    } else {
        LOG_UNKNOWN
    })?;
    *place = Some(document.clone());
    Ok((document, time))
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
const MODULE_CLOCK_JUMPED: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "MODULE_CLOCK_JUMPED",
    "The Nitro Secure Module's clock has jumped",
    "Try again after the next rotation of keys.",
)
.retry_after(5);
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
