//! One document for many clients: they ask at once, and the enclave makes few.
#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod support;

use axum::Router;
use axum::extract::RawQuery;
use axum::routing::get;
use base64ct::{Base64UrlUnpadded, Encoding};
use http::StatusCode;
use merkle::nonces::NonceProof;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{FakeEnclave, Running};

/// Evidence whose document is the query that it was asked with, and takes its time.
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
async fn a_crowd_shares_documents_and_each_nonce_is_in_its_own() {
    const CROWD: u8 = 60;
    let made = Arc::new(AtomicUsize::new(0));
    let fake = FakeEnclave::start(enclave(Arc::clone(&made), Duration::from_millis(100)));
    let proxy = Arc::new(Running::start(&fake.path(), &[]).await);
    let clients = (0..CROWD).map(|number| {
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
            let place = match rest {
                [3, 0x58, length, place @ ..] if place.len() == usize::from(*length) => place,
                [3, 0x59, high, low, place @ ..]
                    if place.len() == usize::from(u16::from_be_bytes([*high, *low])) =>
                {
                    place
                }
                other => panic!("{other:?}"),
            };
            let root = NonceProof::decode(place).unwrap().document_nonce(&nonce);
            assert_eq!(document, query(&root.unwrap()));
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    // All who wait at a tick share.
    let made = made.load(Ordering::Relaxed);
    assert!(made <= usize::from(CROWD) / 4, "{made} documents");
}

#[tokio::test]
async fn who_does_not_ask_to_share_gets_a_document_of_its_own() {
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
                "another's nonce"
            );
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(made.load(Ordering::Relaxed), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enclave_that_is_gone_is_told_to_all_who_wait_and_to_nobody_for_good() {
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
