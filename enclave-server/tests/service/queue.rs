//! The answer to a sealed request when the queue is full.

use std::sync::Arc;

use crate::common::{HeldToy, MODEL, Options, Rig, code, embeddings, hello};
use engine::PoolLimits;
use serde_json::json;

#[tokio::test]
async fn a_full_queue_is_a_sealed_429() {
    let held = Arc::new(HeldToy::default());
    let pool = PoolLimits {
        queue_tokens: 6,
        slice_tokens: 1,
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
    held.wait_begun(1).await;
    // More than the model's longest text, which is always accepted.
    let busy = rig
        .exchange(
            &attested,
            embeddings(&json!({"model": MODEL, "input": vec!["hello world"; 6]})),
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
    held.release(1);
    assert_eq!(
        waiting
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{error}")),
        200
    );
}
