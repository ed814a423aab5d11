//! Revocation lists: fetched only from allowed hosts, within limits, and the same for every client.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::get;
use http::StatusCode;
use tokio::net::TcpListener;

use support::{FakeEnclave, Running};

/// Encodes a value in DER.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    let length = match content.len() {
        0..0x80 => length[3..].to_vec(),
        0x80..0x100 => [&[0x81], &length[3..]].concat(),
        0x100..0x1_0000 => [&[0x82], &length[2..]].concat(),
        _ => [&[0x83], &length[1..]].concat(),
    };
    [&[tag], &length[..], content].concat()
}

/// The parts of a list that the host reads, of at least `size` bytes in total.
fn list(next_update: &[u8], size: usize) -> Vec<u8> {
    let signed = [
        tlv(2, &[1]),
        tlv(0x30, &[]),
        tlv(0x30, &[]),
        tlv(0x17, b"200101000000Z"),
        tlv(0x17, next_update),
        tlv(0x30, &vec![0; size]),
    ];
    tlv(0x30, &tlv(0x30, &signed.concat()))
}

const LATE: &[u8] = b"490101000000Z";
const PAST: &[u8] = b"210101000000Z";

/// Serves files, and counts the requests.
async fn publish(files: Router) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let files = files.layer(axum::middleware::map_request(
        move |request: axum::extract::Request| {
            count.fetch_add(1, Ordering::Relaxed);
            async { request }
        },
    ));
    tokio::spawn(async move { axum::serve(listener, files).await });
    (address, asked)
}

/// An enclave whose document names this address.
fn enclave(url: &str) -> FakeEnclave {
    let document = [
        &[0x86, u8::try_from(url.len()).unwrap()],
        url.as_bytes(),
        b"0\n",
    ]
    .concat();
    FakeEnclave::start(Router::new().route(
        "/v1/attestation",
        get(move || async move { Body::from(document) }),
    ))
}

/// Waits for lists, and returns them.
async fn served(proxy: &Running) -> Vec<u8> {
    for _ in 0..600 {
        let answer = proxy.get("/v1/crls").await;
        assert_eq!(answer.status, StatusCode::OK);
        if !answer.body.is_empty() {
            return answer.body.to_vec();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no list is served");
}

#[tokio::test]
async fn lists_that_the_chain_names_are_fetched_and_served() {
    let published = list(LATE, 8);
    let body = published.clone();
    let files = Router::new().route("/a.crl", get(move || async move { Body::from(body) }));
    let (address, asked) = publish(files).await;
    let enclave = enclave(&format!("http://{address}/a.crl"));
    let host = format!("--crl-host={address}");
    let proxy = Running::start(&enclave.path(), &["--crl=chain", &host]).await;
    assert_eq!(served(&proxy).await, published);
    assert_eq!(served(&proxy).await, published);
    assert_eq!(
        asked.load(Ordering::Relaxed),
        1,
        "it is kept until it expires"
    );
    let answer = proxy.get("/v1/crls").await;
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
    assert_eq!(answer.headers["cache-control"], "no-cache");
}

#[tokio::test]
async fn a_host_that_is_not_allowed_is_never_asked() {
    let files = Router::new().route("/a.crl", get(|| async { Body::from(list(LATE, 8)) }));
    let (address, asked) = publish(files).await;
    let enclave = enclave(&format!("http://{address}/a.crl"));
    let proxy = Running::start(&enclave.path(), &["--crl=chain"]).await;
    for _ in 0..10 {
        proxy
            .get("/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA")
            .await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert!(proxy.get("/v1/crls").await.body.is_empty());
}

/// The nonce of a client is in its document, so a document is not a source of addresses.
#[tokio::test]
async fn a_client_names_no_address() {
    let published = list(LATE, 8);
    let body = published.clone();
    let files = Router::new()
        .route("/a.crl", get(move || async move { Body::from(body) }))
        .route("/chosen.crl", get(|| async { Body::from(list(LATE, 9)) }));
    let (address, asked) = publish(files).await;
    let named = |path: &str| {
        let url = format!("http://{address}/{path}");
        [&[0x86, u8::try_from(url.len()).unwrap()], url.as_bytes()].concat()
    };
    let (chain, chosen) = (named("a.crl"), named("chosen.crl"));
    // As an enclave does, the fake one repeats the nonce: here for every nonce but that of the proxy's own request.
    let router = Router::new().route(
        "/v1/attestation",
        get(move |request: axum::extract::Request| async move {
            let is_own = request.uri().query().unwrap().contains(&"A".repeat(43));
            Body::from([chain, if is_own { Vec::new() } else { chosen }].concat())
        }),
    );
    let enclave = FakeEnclave::start(router);
    let host = format!("--crl-host={address}");
    let proxy = Running::start(&enclave.path(), &["--crl=chain", &host]).await;
    assert_eq!(served(&proxy).await, published);
    for _ in 0..10 {
        let answer = proxy
            .get("/v1/attestation?nonce=BBBBBBBBBBBBBBBBBBBBBB")
            .await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn redirects_large_lists_expired_lists_and_other_files_are_not_served() {
    let files = Router::new()
        .route("/good.crl", get(|| async { Body::from(list(LATE, 8)) }))
        .route(
            "/moved.crl",
            get(|| async { Redirect::temporary("/good.crl").into_response() }),
        )
        .route(
            "/huge.crl",
            get(|| async { Body::from(list(LATE, 10 << 20)) }),
        )
        .route("/ended.crl", get(|| async { Body::from(list(PAST, 8)) }))
        .route("/other.crl", get(|| async { Body::from("<html>") }));
    let (address, asked) = publish(files).await;
    let enclave = FakeEnclave::start(Router::new());
    let host = format!("--crl-host={address}");
    let mut flags = vec![host];
    for file in ["moved", "huge", "ended", "other", "good"] {
        flags.push(format!("--crl=http://{address}/{file}.crl"));
    }
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let proxy = Running::start(&enclave.path(), &flags).await;
    assert_eq!(served(&proxy).await, list(LATE, 8));
    assert_eq!(asked.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn a_folder_is_served_in_the_order_of_its_names() {
    let folder = tempfile::TempDir::new().unwrap();
    let [first, second] = [list(LATE, 1), list(LATE, 2)];
    for (name, bytes) in [("b.crl", &second), ("a.crl", &first)] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    std::fs::write(folder.path().join("ended.crl"), list(PAST, 1)).unwrap();
    std::fs::write(folder.path().join("README"), "no list").unwrap();
    let enclave = FakeEnclave::start(Router::new());
    let flag = format!("--crl={}", folder.path().display());
    let proxy = Running::start(&enclave.path(), &[&flag]).await;
    assert_eq!(served(&proxy).await, [first, second].concat());
}

#[tokio::test]
async fn without_the_flag_the_answer_is_empty() {
    let enclave = FakeEnclave::start(Router::new());
    let proxy = Running::start(&enclave.path(), &[]).await;
    let answer = proxy.get("/v1/crls").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.is_empty());
}

#[test]
fn invalid_places_are_refused_at_the_start() {
    use clap::Parser as _;
    for wrong in ["--crl=", "--crl=https://a/b.crl", "--crl=s3://a/b"] {
        let parsed = host_proxy::Config::try_parse_from(["host-proxy", "--enclave=unix:/s", wrong]);
        assert!(parsed.is_err(), "{wrong}");
    }
}
