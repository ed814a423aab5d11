//! `GET /v1/log` and `GET /v1/log/leaves`: the log of receipts, which the host stores and proves inclusion from.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use merkle::json::{Format, Leaves, Logs, MAX_LEAVES, Message, SignedHead, from_hex, to_json};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::attestation::{DocumentContents, issue_document};
use super::problem::Problem;
use super::service::Service;
use crate::keys::Generation;
use crate::log::LogDocument;

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

/// Leaves from a number on, and the signed head of the whole log. The head is signed in this request, so no answer waits for it.
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
    generation.log.record_request(from);
    service.log_host.has_asked.send_replace(true);
    let HeadDocument { document, time } = head_document(&service, &generation).await?;
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

/// State of the host that stores the logs, as far as its requests show it.
#[derive(Default)]
pub(super) struct LogHost {
    /// Whether it has ever asked for leaves; sent again with every request.
    has_asked: watch::Sender<bool>,
    /// When this process issued its first receipt, on the steady count.
    first_receipt: OnceLock<Duration>,
}

impl LogHost {
    pub(super) fn record_receipt(&self, now: Duration) {
        self.first_receipt.get_or_init(|| now);
    }
}

impl Service {
    /// Waits until the host has stored every leaf of every log. Call it once no more receipts are issued.
    ///
    /// A host that stores no log never asks for leaves; this does not wait for it. A host that stores a log asks within
    /// 10 seconds of the first receipt, so until then a host that has not asked may still do so.
    pub async fn wait_until_log_is_stored(&self) {
        let mut requests = self.log_host.has_asked.subscribe();
        loop {
            let has_asked = *requests.borrow_and_update();
            if self.unstored_logs() == 0 {
                return;
            }
            let next = async {
                // Fails once the service is dropped, and with it every handler.
                requests.changed().await.ok();
            };
            if has_asked {
                next.await;
                continue;
            }
            let now = self.now().steady;
            let until = self
                .log_host
                .first_receipt
                .get()
                .map(|first| *first + FIRST_REQUEST_TIMEOUT);
            let Some(left) = until.and_then(|until| until.checked_sub(now)) else {
                return;
            };
            if left.is_zero() || tokio::time::timeout(left, next).await.is_err() {
                return;
            }
        }
    }

    /// Number of logs with leaves that the host has not acknowledged.
    pub fn unstored_logs(&self) -> usize {
        let all = self.keys.generations(self.now());
        all.iter()
            .filter(|generation| !generation.log.is_stored())
            .count()
    }
}

/// A host that stores a log asks after every sealed answer, and every 5 seconds.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Greatest age of a head's document. It is replaced earlier where a certificate ends.
const MAX_DOCUMENT_AGE: Duration = Duration::from_secs(3600);

/// The document that is sent with a head, and the time that the head states.
#[derive(Clone)]
struct HeadDocument {
    /// Its nonce is the log's name, so it answers no client.
    document: LogDocument,
    /// Unix seconds, within the validity of the manifest and of every certificate of the document; an auditor would otherwise
    /// refuse the head.
    time: u64,
}

async fn head_document(
    service: &Arc<Service>,
    generation: &Arc<Generation>,
) -> Result<HeadDocument, Problem> {
    let mut stored = generation.log.document().await;
    // Reads the clock after every wait, so that the document is valid when the head is signed.
    let with_time = |document: LogDocument| {
        let time = generation.stated_time(service.now(), document.validity)?;
        Some(HeadDocument { document, time })
    };
    let current = stored.clone().and_then(with_time);
    if let Some(current) = &current {
        let age = service
            .now()
            .steady
            .saturating_sub(current.document.made_at);
        if age < MAX_DOCUMENT_AGE {
            return Ok(current.clone());
        }
    }
    let made_at = service.now().steady;
    let nonce = generation.receipts.public_key().to_vec();
    let contents = DocumentContents::for_service(generation, nonce);
    let issued = match issue_document(service, Arc::clone(generation), contents).await {
        Ok(issued) => issued,
        // An older document is used as long as it is valid.
        Err(problem) => return current.ok_or(problem),
    };
    let document = LogDocument {
        sha256: Sha256::digest(&issued.bytes).into(),
        bytes: issued.bytes,
        validity: issued.validity,
        made_at,
    };
    let head = with_time(document).ok_or(if generation.is_valid(service.now()) {
        MODULE_CLOCK_JUMPED
    } else {
        LOG_UNKNOWN
    })?;
    *stored = Some(head.document.clone());
    Ok(head)
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
    "This enclave has no such log",
    "GET /v1/log lists the logs of its current keys; older keys no longer exist.",
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
    "The enclave does not have these leaves",
    "Ask more often: an enclave remembers its newest leaves only.",
);
const ANSWER_FAILED: Problem = Problem::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "LOG_ANSWER_FAILED",
    "The log could not be written",
    "Try again, and report it if it stays.",
);
