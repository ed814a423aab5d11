//! Clients that ask at the same time share documents.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::RawQuery;
use axum::routing::get;
use base64ct::{Base64UrlUnpadded, Encoding};
use http::StatusCode;
use merkle::nonces::NonceProof;

use crate::support::{FakeEnclave, Running};

/// An enclave whose document is the query of the request, after `time`.
fn enclave(made: Arc<AtomicUsize>, time: Duration) -> Router {
    Router::new().route("/readyz", get("ready")).route(
        "/v1/attestation",
        get(move |RawQuery(query): RawQuery| async move {
            made.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(time).await;
            let query = query.unwrap_or_default().into_bytes();
            let mut evidence = vec![0xa2, 1, 0x58, query.len() as u8];
            evidence.extend_from_slice(&query);
            evidence.extend_from_slice(&[2, 0x41, b'm']);
            ([("clearseal-enclave", "aaaaaaaaaaaaaaaa")], evidence)
        }),
    )
}

fn query(nonce: &[u8; 32]) -> String {
    format!("nonce={}", Base64UrlUnpadded::encode_string(nonce))
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_share_documents_and_each_nonce_is_proven() {
    const CLIENTS: u8 = 60;
    let made = Arc::new(AtomicUsize::new(0));
    let fake = FakeEnclave::start(enclave(Arc::clone(&made), Duration::from_millis(100)));
    let proxy = Arc::new(Running::start(&fake.path(), &[]).await);
    let clients = (0..CLIENTS).map(|number| {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            let nonce = [number; 32];
            let path = format!("/v1/attestation?{}&shared=1", query(&nonce));
            let answer = proxy.get(&path).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert_eq!(answer.header("clearseal-enclave"), Some("aaaaaaaaaaaaaaaa"));
            let body = &answer.body;
            let length = usize::from(body[3]);
            let document = String::from_utf8(body[4..4 + length].to_vec()).unwrap();
            let rest = body[4 + length..].strip_prefix(&[2, 0x41, b'm']).unwrap();
            assert_eq!(body[0], 0xa3);
            let proof = match rest {
                [3, 0x58, length, proof @ ..] if proof.len() == usize::from(*length) => proof,
                [3, 0x59, high, low, proof @ ..]
                    if proof.len() == usize::from(u16::from_be_bytes([*high, *low])) =>
                {
                    proof
                }
                other => panic!("{other:?}"),
            };
            let root = NonceProof::decode(proof).unwrap().document_nonce(&nonce);
            assert_eq!(document, query(&root.unwrap()));
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    // All clients that wait at a tick share a document.
    let made = made.load(Ordering::Relaxed);
    assert!(made <= usize::from(CLIENTS) / 4, "{made} documents");
}

#[tokio::test]
async fn a_client_without_shared_1_gets_a_separate_document() {
    let made = Arc::new(AtomicUsize::new(0));
    let fake = FakeEnclave::start(enclave(Arc::clone(&made), Duration::from_millis(20)));
    let proxy = Arc::new(Running::start(&fake.path(), &[]).await);
    let clients = (0..6_u8).map(|number| {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            let path = format!("/v1/attestation?{}", query(&[number; 32]));
            let answer = proxy.get(&path).await;
            assert!(answer.body.starts_with(&[0xa2]));
            assert!(
                String::from_utf8_lossy(&answer.body).contains(&query(&[number; 32])),
                "a nonce of another client"
            );
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(made.load(Ordering::Relaxed), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_reaches_all_waiting_clients_and_later_ones_try_again() {
    let made = Arc::new(AtomicUsize::new(0));
    let router = || enclave(Arc::clone(&made), Duration::from_millis(5));
    let mut fake = FakeEnclave::start(router());
    let proxy = Arc::new(Running::start(&fake.path(), &[]).await);
    fake.kill().await;
    let ask = || {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            let path = format!("/v1/attestation?{}&shared=1", query(&[7; 32]));
            proxy.get(&path).await.status
        })
    };
    for asked in (0..5).map(|_| ask()).collect::<Vec<_>>() {
        assert_eq!(asked.await.unwrap(), StatusCode::BAD_GATEWAY);
    }
    fake.restart(router());
    for asked in (0..5).map(|_| ask()).collect::<Vec<_>>() {
        assert_eq!(asked.await.unwrap(), StatusCode::OK);
    }
}
