//! A fake enclave's log, honest unless the test changes it.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part, and a helper that fails is a test that fails"
)]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use ed25519_dalek::{Signer, SigningKey};
use host_proxy::log::Batch;
use http::StatusCode;
use merkle::Hash;
use merkle::head::TreeHead;
use merkle::json::{Format, Leaves, Logs, SignedHead, from_hex, to_json};
use merkle::tree::{Frontier, receipt_hash};

/// The log of one key.
#[derive(Clone)]
pub struct FakeLog {
    pub key: SigningKey,
    pub leaves: Vec<Hash>,
    pub time: u64,
    pub document: Vec<u8>,
    /// Number of leaves that each read of the log adds.
    pub growth: u64,
    /// Index of the first leaf that the enclave still has.
    pub oldest: u64,
    /// Number of leaves that the host has acknowledged by asking for those after them.
    pub acknowledged: usize,
}

impl FakeLog {
    pub fn new(seed: u8, leaves: u64) -> Self {
        let mut log = Self {
            key: SigningKey::from_bytes(&[seed; 32]),
            leaves: Vec::new(),
            time: 1_795_183_380,
            document: vec![seed; 40],
            growth: 0,
            oldest: 0,
            acknowledged: 0,
        };
        log.grow(leaves);
        log
    }

    pub fn grow(&mut self, by: u64) {
        for _ in 0..by {
            let receipt = [&self.id()[..], &self.leaves.len().to_be_bytes()].concat();
            self.leaves.push(receipt_hash(&receipt));
        }
    }

    pub fn id(&self) -> Hash {
        self.key.verifying_key().to_bytes()
    }

    pub fn name(&self) -> String {
        merkle::json::hex(&self.id())
    }

    /// The head of the first `size` leaves.
    pub fn tree_head(&self, size: usize) -> TreeHead {
        let mut frontier = Frontier::new();
        for leaf in &self.leaves[..size] {
            frontier.append(leaf, |_, _| ());
        }
        TreeHead {
            log: self.id(),
            size: size as u64,
            root: frontier.root(),
            time: self.time,
            document: receipt_hash(&self.document),
        }
    }

    pub fn sign(&self, head: &TreeHead) -> SignedHead {
        SignedHead {
            format: Format::new(),
            head: head.sign(|bytes| self.key.sign(bytes).to_bytes()),
            document: self.document.clone(),
            manifest: b"manifest".to_vec(),
        }
    }

    /// The batch that takes a host from `from` leaves to `to`.
    pub fn batch(&self, from: usize, to: usize) -> Batch {
        Batch {
            log: self.id(),
            leaves: self.leaves[from..to].to_vec(),
            head: self.sign(&self.tree_head(to)),
        }
    }
}

/// Logs of an enclave, newest first.
pub type Shared = Arc<Mutex<Vec<FakeLog>>>;

/// An enclave that answers sealed requests with fixed text, and issues a receipt for each.
pub fn enclave(logs: &Shared) -> Router {
    Router::new()
        .route("/readyz", get("ready\n"))
        .route("/v1/gateway", post(answer))
        .route("/v1/log", get(list))
        .route("/v1/log/leaves", get(leaves))
        .with_state(Arc::clone(logs))
}

async fn answer(State(logs): State<Shared>) -> &'static str {
    logs.lock().unwrap()[0].grow(1);
    "sealed"
}

async fn list(State(logs): State<Shared>) -> String {
    let logs = logs.lock().unwrap().iter().map(FakeLog::id).collect();
    to_json(&Logs {
        format: Format::new(),
        logs,
    })
    .unwrap()
}

#[derive(serde::Deserialize)]
struct LeavesQuery {
    log: String,
    from: usize,
}

async fn leaves(State(logs): State<Shared>, Query(query): Query<LeavesQuery>) -> Response {
    let mut logs = logs.lock().unwrap();
    let id = from_hex(&query.log).unwrap();
    let Some(log) = logs.iter_mut().find(|log| log.id() == id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if (query.from as u64) < log.oldest || query.from > log.leaves.len() {
        return StatusCode::GONE.into_response();
    }
    if query.from == log.leaves.len() {
        log.acknowledged = query.from;
    }
    log.grow(log.growth);
    let all = log.leaves.len();
    // A few at a time, so that a pull takes several requests.
    let leaves = log.leaves[query.from..all.min(query.from + 100)].to_vec();
    let head = log.sign(&log.tree_head(all));
    to_json(&Leaves {
        format: Format::new(),
        from: query.from as u64,
        leaves,
        head,
    })
    .unwrap()
    .into_response()
}
