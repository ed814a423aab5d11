//! Several enclaves behind one proxy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Method, StatusCode};

use support::{Answer, FakeEnclave, Running};

/// An enclave that sends its name with each document, and as the answer to each sealed request.
fn named(name: &'static str) -> Router {
    Router::new()
        .route("/readyz", get("ready"))
        .route(
            "/v1/attestation",
            get(move || async move { ([("clearseal-enclave", name)], name) }),
        )
        .route("/v1/gateway", post(move || async move { name }))
        .route(
            "/v1/channel",
            get(move || async move { (StatusCode::SERVICE_UNAVAILABLE, name) }),
        )
}

const A: &str = "aaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbb";

async fn two() -> (FakeEnclave, FakeEnclave, Running) {
    let (a, b) = (FakeEnclave::start(named(A)), FakeEnclave::start(named(B)));
    let second = format!("--enclave=unix:{}", b.path().display());
    let proxy = Running::start(&a.path(), &[&second]).await;
    (a, b, proxy)
}

async fn attest(proxy: &Running) -> String {
    let answer = proxy
        .get("/v1/attestation?nonce=AAECAwQFBgcICQoLDA0ODw")
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    answer.header("clearseal-enclave").unwrap().to_owned()
}

async fn seal(proxy: &Running, name: &str) -> Answer {
    let headers = [
        ("content-type", "message/ohttp-req"),
        ("clearseal-enclave", name),
    ];
    proxy
        .send(Method::POST, "/v1/gateway", &headers, Bytes::from("sealed"))
        .await
}

#[tokio::test]
async fn a_sealed_request_goes_to_the_enclave_whose_keys_it_is_sealed_to() {
    let (_a, _b, proxy) = two().await;
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        seen.insert(attest(&proxy).await);
    }
    // Documents come from both enclaves in turn.
    assert_eq!(seen, BTreeSet::from([A.to_owned(), B.to_owned()]));
    for name in [A, B, A, A, B] {
        assert_eq!(seal(&proxy, name).await.text(), name);
    }
}

#[tokio::test]
async fn a_channel_goes_to_the_enclave_that_the_client_has_verified() {
    let (_a, _b, proxy) = two().await;
    for _ in 0..4 {
        attest(&proxy).await;
    }
    for name in [A, B, A, A, B] {
        // Programs name it in a header, pages in the query.
        for (query, field) in [
            (String::new(), format!("clearseal-enclave: {name}\r\n")),
            (format!("?enclave={name}"), String::new()),
        ] {
            let request = format!(
                "GET /v1/channel{query} HTTP/1.1\r\nhost: p\r\nconnection: upgrade, close\r\nupgrade: clearseal-channel\r\n{field}\r\n"
            );
            let answer = proxy.raw(request.as_bytes()).await;
            assert!(answer.ends_with(name), "{answer}");
        }
    }
}

/// It accepts connections and closes them, as a process does that is ending.
#[tokio::test]
async fn a_channel_goes_to_another_enclave_where_the_connection_is_lost() {
    let (a, b) = (FakeEnclave::absent(), FakeEnclave::start(named(B)));
    let closing = a.listen();
    tokio::spawn(async move { while closing.accept().await.is_ok() {} });
    let second = format!("--enclave=unix:{}", b.path().display());
    let proxy = Running::start(&a.path(), &[&second]).await;
    let request = "GET /v1/channel HTTP/1.1\r\nhost: p\r\nconnection: upgrade, close\r\nupgrade: clearseal-channel\r\n\r\n";
    for _ in 0..3 {
        let answer = proxy.raw(request.as_bytes()).await;
        assert!(answer.ends_with(B), "{answer}");
    }
    let alone = Running::start(&a.path(), &[]).await;
    let answer = alone.raw(request.as_bytes()).await;
    assert!(answer.contains("ENCLAVE_UNREACHABLE"), "{answer}");
}

#[tokio::test]
async fn an_unreachable_enclave_is_skipped_until_it_returns() {
    let (mut a, _b, proxy) = two().await;
    for _ in 0..2 {
        attest(&proxy).await;
    }
    a.kill().await;
    for _ in 0..6 {
        assert_eq!(attest(&proxy).await, B);
        assert_eq!(proxy.get("/readyz").await.status, StatusCode::OK);
    }
    // A real enclave cannot open a request for another one, and answers so; this one answers with its name.
    assert_eq!(seal(&proxy, A).await.text(), B);
    a.restart(named(A));
    while attest(&proxy).await != A {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(seal(&proxy, A).await.text(), A);
}

#[tokio::test]
async fn one_unready_enclave_does_not_make_the_service_unready() {
    let starting = Router::new().fallback(|| async { StatusCode::SERVICE_UNAVAILABLE });
    let (a, b) = (FakeEnclave::start(starting), FakeEnclave::start(named(B)));
    let second = format!("--enclave=unix:{}", b.path().display());
    let proxy = Running::start(&a.path(), &[&second]).await;
    for _ in 0..4 {
        assert_eq!(proxy.get("/readyz").await.status, StatusCode::OK);
        assert_eq!(attest(&proxy).await, B);
    }
}

#[tokio::test]
async fn the_problem_is_reported_where_all_enclaves_are_unreachable() {
    let (mut a, mut b, proxy) = two().await;
    a.kill().await;
    b.kill().await;
    let answer = proxy
        .get("/v1/attestation?nonce=AAECAwQFBgcICQoLDA0ODw")
        .await;
    assert_eq!(answer.problem(), "ENCLAVE_UNREACHABLE");
    assert_eq!(seal(&proxy, A).await.problem(), "ENCLAVE_UNREACHABLE");
}
