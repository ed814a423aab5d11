//! Limits are shared among addresses: one that holds or asks for much waits behind one that asks for little.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use bytes::Bytes;
use http::StatusCode;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

use crate::support::{FakeEnclave, Running, ask_from, client, from, read_to_end};

const POST: &str =
    "POST /v1/gateway HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx";

/// An enclave that answers one request for each permit, and counts its requests.
struct Gate {
    open: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
}

impl Gate {
    fn new() -> Self {
        Self {
            open: Arc::new(Semaphore::new(0)),
            asked: Arc::default(),
        }
    }

    fn router(&self) -> Router {
        let handler = {
            let (open, asked) = (self.open.clone(), self.asked.clone());
            move |_: Request| {
                let (open, asked) = (open.clone(), asked.clone());
                async move {
                    asked.fetch_add(1, Ordering::SeqCst);
                    open.acquire().await.unwrap().forget();
                    "answer"
                }
            }
        };
        Router::new()
            .route("/v1/gateway", post(handler.clone()))
            .route("/v1/attestation", get(handler.clone()))
            .route("/readyz", get(handler))
    }

    async fn asked(&self, wanted: usize) {
        while self.asked.load(Ordering::SeqCst) < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn an_address_without_a_permit_gets_the_next_one() {
    let gate = Gate::new();
    let enclave = FakeEnclave::start(gate.router());
    let proxy = Running::start(&enclave.path(), &["--max-concurrent=4"]).await;
    let to = proxy.address;
    // Two addresses hold every permit, and keep asking.
    let mut greedy: Vec<_> = [2, 3, 2, 3]
        .map(|last| tokio::spawn(ask_from(last, to, POST)))
        .into();
    gate.asked(4).await;
    let mut honest = tokio::spawn(async move {
        let request = http::Request::post(format!("http://{to}/v1/gateway"))
            .body(Bytes::from_static(b"x").into())
            .unwrap();
        client().request(request).await.unwrap().status()
    });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut honest).await;
    assert!(early.is_err(), "it was refused: {early:?}");
    // Addresses at their share are refused at once, and do not queue.
    for last in [2, 3] {
        let refused = ask_from(last, to, POST).await;
        assert!(refused.contains("SOURCE_BUSY"), "{refused}");
        assert!(refused.contains("retry-after: 1"), "{refused}");
    }
    gate.open.add_permits(1);
    gate.asked(5).await;
    gate.open.add_permits(4);
    assert_eq!(honest.await.unwrap(), StatusCode::OK);
    for one in &mut greedy {
        assert!(one.await.unwrap().starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn many_readiness_checks_cost_the_enclave_one_request() {
    let gate = Gate::new();
    let enclave = FakeEnclave::start(gate.router());
    let proxy = Running::start(&enclave.path(), &[]).await;
    let request = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let many: Vec<_> = (0..64)
        .map(|_| tokio::spawn(ask_from(2, proxy.address, request)))
        .collect();
    let waiting = r#"clearseal_proxy_requests_in_flight{route="Operations"} 64"#;
    while !proxy.metrics().await.text().contains(waiting) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gate.open.add_permits(64);
    for one in many {
        let answer = one.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(gate.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn connections_without_a_complete_request_are_closed() {
    let gate = Gate::new();
    let enclave = FakeEnclave::start(gate.router());
    let proxy = Running::start(&enclave.path(), &["--idle-timeout=0.3s"]).await;
    // No bytes; half a head; a request, and then nothing. Below: a head that grows by a byte at a time.
    for begin in [
        "",
        "GET /healthz HTTP/1.1\r\nhost:",
        "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        let mut stream = from(2, proxy.address).await;
        stream.write_all(begin.as_bytes()).await.unwrap();
        let answer = String::from_utf8(read_to_end(stream).await).unwrap();
        assert_eq!(
            answer.contains("ok\n"),
            begin.ends_with("\r\n\r\n"),
            "{answer}"
        );
    }
    let (mut near, mut far) = from(2, proxy.address).await.into_split();
    let trickle = tokio::spawn(async move {
        far.write_all(b"GET /healthz HTTP/1.1\r\nx: ")
            .await
            .unwrap();
        while far.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut answer = Vec::new();
    // An error is a reset, which ends the connection too.
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut near, &mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    drop(near);
    trickle.await.unwrap();
}
