//! The answer to a sealed request when the queue is full.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::common::{MODEL, Options, Rig, Toy, code, embeddings};
use engine::{EncodeError, Encoder, PoolLimits};
use protocol::inner::InnerRequest;
use serde_json::json;

fn hello() -> InnerRequest {
    embeddings(&json!({"model": MODEL, "input": "hello world"}))
}

/// An encoder that blocks every call until it is released.
struct Held {
    entered: AtomicBool,
    go: Mutex<bool>,
    changed: Condvar,
}

impl Encoder for Held {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        self.entered.store(true, Ordering::SeqCst);
        let mut go = self.go.lock().unwrap();
        while !*go {
            go = self.changed.wait(go).unwrap();
        }
        drop(go);
        Toy.encode(sequences)
    }
    fn dimension(&self) -> usize {
        Toy.dimension()
    }
    fn max_tokens(&self) -> usize {
        Toy.max_tokens()
    }
    fn vocabulary(&self) -> usize {
        Toy.vocabulary()
    }
    fn name(&self) -> &'static str {
        Toy.name()
    }
}

#[tokio::test]
async fn a_full_queue_is_a_sealed_429() {
    let held = Arc::new(Held {
        entered: AtomicBool::new(false),
        go: Mutex::new(false),
        changed: Condvar::new(),
    });
    let pool = PoolLimits {
        queue_tokens: 6,
        ..PoolLimits::default()
    };
    let rig = Arc::new(Rig::with(Options {
        encoder: held.clone(),
        pool,
        ..Options::default()
    }));
    let attested = Arc::new(rig.attest().await);
    let waiting = tokio::spawn({
        let (rig, attested) = (Arc::clone(&rig), Arc::clone(&attested));
        async move {
            rig.exchange(&attested, hello())
                .await
                .map(|answer| answer.response.status)
        }
    });
    while !held.entered.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    // More than one slice, because one slice of each request is always accepted.
    let busy = rig
        .exchange(
            &attested,
            embeddings(&json!({"model": MODEL, "input": ["hello world", "hello world"]})),
        )
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (busy.response.status, code(&busy.response.content).as_str()),
        (429, "ENGINE_BUSY")
    );
    assert!(busy.receipt.is_none());
    assert!(
        busy.response
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    *held.go.lock().unwrap() = true;
    held.changed.notify_all();
    assert_eq!(
        waiting
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{error}")),
        200
    );
}
