//! Attacks of one client, each during honest requests, which must all succeed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{FakeEnclave, Running, from, read_to_end};

/// Larger than what two kernels buffer for a connection over loopback.
const LARGE: usize = 24 << 20;

fn enclave() -> FakeEnclave {
    FakeEnclave::start(
        Router::new()
            .route("/v1/gateway", post(async |body: Bytes| body))
            .route("/v1/development-policy", get(async || vec![7_u8; LARGE]))
            .route(
                "/v1/attestation",
                get(async || {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    "document"
                }),
            ),
    )
}

async fn honest(proxy: &Running, times: usize) {
    for number in 0..times {
        let answer = proxy.post("/v1/gateway", "honest").await;
        assert_eq!(answer.status, StatusCode::OK, "request {number}");
        assert_eq!(answer.text(), "honest");
    }
}

#[tokio::test]
async fn slow_uploads_hold_no_permit_and_are_ended() {
    let enclave = enclave();
    let flags = ["--max-concurrent=2", "--stall-timeout=1s"];
    let proxy = Running::start(&enclave.path(), &flags).await;
    let mut uploads = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        uploads.push(tokio::spawn(async move {
            stream
                .write_all(b"POST /v1/gateway HTTP/1.1\r\nhost: x\r\ncontent-length: 4000\r\n\r\n")
                .await
                .unwrap();
            // Until the proxy ends the request.
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let mut byte = [0];
                if let Ok(1..) = stream.try_read(&mut byte) {
                    break;
                }
            }
            text(&read_to_end(stream).await)
        }));
    }
    honest(&proxy, 50).await;
    for upload in uploads {
        let answer = upload.await.unwrap();
        assert!(answer.contains("BODY_TIMEOUT"), "{answer}");
    }
    honest(&proxy, 1).await;
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn readers_that_stop_hold_memory_only_for_a_time() {
    let enclave = enclave();
    let flags = [
        "--max-concurrent=4",
        "--max-buffered-bytes=60000000",
        "--stall-timeout=1s",
    ];
    let proxy = Running::start(&enclave.path(), &flags).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut stream = from(2, proxy.address).await;
        stream
            .write_all(
                b"GET /v1/development-policy HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            )
            .await
            .unwrap();
        silent.push(stream);
    }
    // Another address has its own share of every limit.
    honest(&proxy, 50).await;
    // None of them reads. Once no request is in flight, each was refused or cut off.
    let none_in_flight = r#"clearseal_proxy_requests_in_flight{route="DevelopmentPolicy"} 0"#;
    while !proxy.metrics().await.text().contains(none_in_flight) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (mut cut, mut refused) = (0, 0);
    for stream in silent {
        let answer = read_to_end(stream).await;
        assert!(answer.len() < LARGE);
        match &answer[..12] {
            b"HTTP/1.1 200" => cut += 1,
            b"HTTP/1.1 429" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert!(cut >= 2, "{cut} cut off, {refused} refused");
    // Their memory has been returned.
    let whole = proxy.get("/v1/development-policy").await;
    assert_eq!((whole.status, whole.body.len()), (StatusCode::OK, LARGE));
}

#[tokio::test]
async fn a_permit_is_released_once_the_enclave_has_answered() {
    let enclave = enclave();
    let proxy = Running::start(&enclave.path(), &["--max-concurrent=1"]).await;
    let mut silent = TcpStream::connect(proxy.address).await.unwrap();
    silent
        .write_all(b"GET /v1/development-policy HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    // The answer begins. The client reads one byte of it and no more.
    silent.read_exact(&mut [0]).await.unwrap();
    // The rest is buffered, and then the only permit is free.
    loop {
        let answer = proxy.post("/v1/gateway", "honest").await;
        if answer.status == StatusCode::OK {
            break;
        }
        assert_eq!(answer.problem(), "BUSY");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn idle_connections_of_one_address_leave_room_for_others() {
    let enclave = enclave();
    let proxy = Running::start(&enclave.path(), &["--max-connections=8"]).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(from(2, proxy.address).await);
    }
    // One address gets half of all connections; further ones are closed at once.
    assert!(read_to_end(from(2, proxy.address).await).await.is_empty());
    honest(&proxy, 3).await;
    drop(idle);
}

#[tokio::test]
async fn a_source_is_charged_for_sent_bytes_up_to_its_share() {
    let enclave = enclave();
    let proxy = Running::start(&enclave.path(), &["--max-buffered-bytes=1000"]).await;
    // The first 16 KiB of each body are not charged.
    let charged = |bytes: usize| vec![b'x'; (16 << 10) + bytes];
    assert_eq!(proxy.post("/v1/gateway", charged(500)).await.status, 200);
    let refused = proxy.post("/v1/gateway", charged(501)).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.problem(), "SOURCE_BUSY");
    // A large announced length reserves nothing.
    let mut announced = TcpStream::connect(proxy.address).await.unwrap();
    announced
        .write_all(b"POST /v1/gateway HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(proxy.post("/v1/gateway", charged(500)).await.status, 200);
}

#[tokio::test]
async fn short_requests_pass_while_other_addresses_hold_all_memory() {
    let enclave = enclave();
    let flags = ["--max-buffered-bytes=400000", "--stall-timeout=60s"];
    let proxy = Running::start(&enclave.path(), &flags).await;
    let mut halves = Vec::new();
    for last in 2..=3 {
        let mut half = from(last, proxy.address).await;
        let head = "POST /v1/gateway HTTP/1.1\r\nhost: x\r\ncontent-length: 8000000\r\n\r\n";
        half.write_all(head.as_bytes()).await.unwrap();
        // Each takes the whole share of its address.
        half.write_all(&vec![b'x'; (16 << 10) + 200_000])
            .await
            .unwrap();
        halves.push(half);
    }
    let long = || proxy.post("/v1/gateway", vec![b'x'; 20_000]);
    while long().await.status != StatusCode::SERVICE_UNAVAILABLE {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..20 {
        let short = proxy.post("/v1/gateway", vec![b'x'; 4000]).await;
        assert_eq!(short.status, StatusCode::OK);
        let document = proxy.get("/v1/attestation?nonce=AA").await;
        assert_eq!(document.status, StatusCode::OK);
    }
    drop(halves);
}

#[tokio::test]
async fn requests_for_documents_in_a_loop_exclude_no_other_client() {
    let enclave = enclave();
    let proxy = Running::start(&enclave.path(), &[]).await;
    let mut loops = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        loops.push(tokio::spawn(async move {
            let mut answer = [0; 4096];
            loop {
                let asked = stream
                    .write_all(b"GET /v1/attestation?nonce=AA HTTP/1.1\r\nhost: x\r\n\r\n")
                    .await;
                if asked.is_err() || !matches!(stream.read(&mut answer).await, Ok(1..)) {
                    return;
                }
            }
        }));
    }
    // From the same address, each on a fresh connection.
    for _ in 0..20 {
        let answer = proxy.get("/v1/attestation?nonce=AA").await;
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, "document"));
    }
    loops.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_request_names_its_host_exactly_once() {
    let fake = FakeEnclave::start(axum::Router::new());
    let proxy = Running::start(&fake.path(), &[]).await;
    for (head, served) in [
        ("GET /healthz HTTP/1.1\r\nhost: a\r\n", true),
        ("GET /healthz HTTP/1.0\r\n", true),
        ("GET /healthz HTTP/1.1\r\n", false),
        ("GET /healthz HTTP/1.1\r\nhost: a\r\nhost: a\r\n", false),
        ("GET /healthz HTTP/1.0\r\nhost: a\r\nhost: b\r\n", false),
    ] {
        let request = format!("{head}connection: close\r\n\r\n");
        let answer = proxy.raw(request.as_bytes()).await;
        match served {
            true => assert!(answer.contains(" 200 "), "{head}"),
            false => assert!(answer.contains("HOST_INVALID"), "{head}"),
        }
    }
}
