//! The plaintext endpoints, which anyone may call, and their refusals.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::common::{LIMITS, MODEL, Options, Rig, code, embeddings};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use base64ct::{Base64UrlUnpadded, Encoding};
use enclave_server::api::Limits;
use getrandom::SysRng;
use protocol::exchange;
use rand_core::UnwrapErr;
use serde_json::json;
use tower::ServiceExt as _;

#[tokio::test]
async fn nonces_are_checked_before_the_module_is_asked() {
    let rig = Rig::new();
    let nonce = |length| Base64UrlUnpadded::encode_string(&vec![1; length]);
    for good in [16, 32, 64] {
        assert_eq!(
            rig.get(&format!("/v1/attestation?nonce={}", nonce(good)))
                .await
                .0,
            StatusCode::OK,
            "{good}"
        );
    }
    // The enclave ignores the relay's parameter `shared`.
    let path = format!("/v1/attestation?nonce={}&shared=1", nonce(32));
    assert_eq!(rig.get(&path).await.0, StatusCode::OK);
    let (short, long) = (nonce(15), nonce(65));
    for bad in [
        "",
        "?nonce=",
        "?nonce=!!!!!!!!!!!!!!!!!!!!!!",
        "?nonce=AAAAAAAAAAAAAAAAAAAAAA==",
        &format!("?nonce={short}"),
        &format!("?nonce={long}"),
        &format!("?nonce={}&x=1", nonce(16)),
        &format!("?nonce={}&nonce={}", nonce(16), nonce(16)),
    ] {
        let (status, problem) = rig.get(&format!("/v1/attestation{bad}")).await;
        assert_eq!(
            (status, code(&problem).as_str()),
            (StatusCode::BAD_REQUEST, "NONCE_INVALID"),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn evidence_has_the_name_that_clients_derive_from_it() {
    let rig = Rig::new();
    let path = "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA";
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(rig.router.clone(), request)
        .await
        .unwrap();
    let name = response.headers()["clearseal-enclave"].clone();
    let attested = rig.attest().await;
    let derived = &attested.verified.manifest_sha256()[..8];
    assert_eq!(name, base16ct::lower::encode_string(derived));
}

#[tokio::test]
async fn an_unknown_key_is_the_problem_of_rfc_9458() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let request = embeddings(&json!({"model": MODEL, "input": "hello"}));
    let (mut sealed, _) = exchange::begin(
        &attested.verified,
        request,
        rig.now(),
        &mut UnwrapErr(SysRng),
    )
    .unwrap();
    sealed[0] = sealed[0].wrapping_add(100);
    let request = Request::post("/v1/gateway")
        .header("content-type", "message/ohttp-req")
        .body(Body::from(sealed.clone()))
        .unwrap();
    let response = tower::ServiceExt::oneshot(rig.router.clone(), request)
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    let body = axum::body::to_bytes(response.into_body(), 4096)
        .await
        .unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#ohttp-key"
    );
    assert_eq!(problem["status"], 400);
    for member in ["title", "detail", "code"] {
        assert!(problem[member].is_string(), "{member}");
    }
    // A changed ciphertext gets the same answer as a stale key.
    sealed[0] = sealed[0].wrapping_sub(100);
    *sealed.last_mut().unwrap() ^= 1;
    assert_eq!(code(&rig.post(sealed).await.1), "KEY_UNKNOWN");
}

#[tokio::test]
async fn garbage_is_refused_at_the_gateway() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let key_id = attested.verified.sealing_keys()[0].config().key_id;
    for (garbage, expected) in [
        (vec![], "ENCAPSULATION_MALFORMED"),
        (vec![key_id], "ENCAPSULATION_MALFORMED"),
        (vec![key_id; 4000], "ENCAPSULATION_MALFORMED"),
        (vec![key_id.wrapping_add(50); 4000], "KEY_UNKNOWN"),
    ] {
        let (status, problem) = rig.post(garbage).await;
        assert_eq!(
            (status, code(&problem).as_str()),
            (StatusCode::BAD_REQUEST, expected)
        );
    }
    let plain = Request::post("/v1/gateway")
        .header("content-type", "application/json")
        .body(Body::from("{}"))
        .unwrap();
    let (status, problem) = rig.send(plain).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "MEDIA_TYPE_UNSUPPORTED")
    );
}

#[tokio::test]
async fn an_oversize_request_is_refused() {
    let limits = Limits {
        max_request_bytes: 4096,
        max_in_flight: 8,
        ..LIMITS
    };
    let rig = Rig::with(Options {
        limits,
        ..Options::default()
    });
    let (status, problem) = rig.post(vec![0; 4097]).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE")
    );
}

#[tokio::test]
async fn too_many_at_once_are_refused() {
    let limits = Limits {
        max_in_flight: 0,
        ..LIMITS
    };
    let rig = Rig::with(Options {
        limits,
        ..Options::default()
    });
    let (status, problem) = rig.post(vec![0; 100]).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "GATEWAY_BUSY")
    );
}

/// Two requests that differ in every secret property leave equal metrics.
#[tokio::test]
async fn metrics_reveal_nothing_of_a_single_request() {
    let mut seen = Vec::new();
    for input in [json!("a"), json!(["hello world", "c d e f g h", "hello"])] {
        let rig = Rig::new();
        let attested = rig.attest().await;
        let request = embeddings(&json!({"model": MODEL, "input": input}));
        assert!(rig.exchange(&attested, request).await.is_ok());
        seen.push(rig.metrics().await);
    }
    let without_peak = |text: &String| {
        let lines = text.lines().filter(|line| !line.contains("memory_peak"));
        lines
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(without_peak(&seen[0]), without_peak(&seen[1]));
    for name in ["pending", "_sum", "_bucket", "tokens"] {
        assert!(!seen[0].contains(name), "{name}");
    }
}

/// A request whose sender stalls after `start`.
fn stalled(start: &'static [u8]) -> Request<Body> {
    Request::post("/v1/gateway")
        .header("content-type", "message/ohttp-req")
        .body(Body::new(Stalled(Some(start))))
        .unwrap()
}

#[tokio::test]
async fn slow_bodies_hold_no_slot() {
    let limits = Limits {
        max_in_flight: 1,
        ..LIMITS
    };
    let rig = Rig::with(Options {
        limits,
        ..Options::default()
    });
    let attested = rig.attest().await;
    let mut slow = Vec::new();
    for _ in 0..50 {
        let router = rig.router.clone();
        let mut answer = tokio::spawn(tower::ServiceExt::oneshot(router, stalled(&[0; 60_000])));
        assert!(
            tokio::time::timeout(std::time::Duration::ZERO, &mut answer)
                .await
                .is_err()
        );
        slow.push(answer);
    }
    tokio::task::yield_now().await;
    let request = embeddings(&json!({"model": MODEL, "input": "hello"}));
    assert!(rig.exchange(&attested, request).await.is_ok());
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn arriving_bodies_share_a_budget_and_small_ones_bypass_it() {
    static PART: [u8; 900_000] = [0; 900_000];
    let limits = Limits {
        arriving_bytes: 1 << 20,
        ..LIMITS
    };
    let rig = Rig::with(Options {
        limits,
        ..Options::default()
    });
    let attested = rig.attest().await;
    let router = rig.router.clone();
    let slow = tokio::spawn(tower::ServiceExt::oneshot(router, stalled(&PART)));
    tokio::task::yield_now().await;
    let (status, problem) = rig.post(PART.to_vec()).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "MEMORY_BUSY")
    );
    let request = embeddings(&json!({"model": MODEL, "input": "hello"}));
    assert!(rig.exchange(&attested, request).await.is_ok());
    // The memory of a sender that disconnected is released.
    slow.abort();
    assert!(slow.await.unwrap_err().is_cancelled());
    let key_id = attested.verified.sealing_keys()[0].config().key_id;
    let body = vec![key_id.wrapping_add(50); PART.len()];
    assert_eq!(code(&rig.post(body).await.1), "KEY_UNKNOWN");
}

#[tokio::test]
async fn large_answers_share_a_budget() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let many: Vec<_> = (0..2000).map(|_| "a").collect();
    let large = || embeddings(&json!({"model": MODEL, "input": many}));
    let answer = rig.exchange(&attested, large()).await.ok().unwrap();
    assert_eq!(answer.response.status, 200);
    let all = rig.service.hold_all_answer_memory().await;
    let answer = rig.exchange(&attested, large()).await.ok().unwrap();
    assert_eq!(
        (
            answer.response.status,
            code(&answer.response.content).as_str()
        ),
        (429, "MEMORY_BUSY")
    );
    let small = embeddings(&json!({"model": MODEL, "input": "hello"}));
    assert_eq!(
        rig.exchange(&attested, small)
            .await
            .ok()
            .unwrap()
            .response
            .status,
        200
    );
    drop(all);
    let answer = rig.exchange(&attested, large()).await.ok().unwrap();
    assert_eq!(answer.response.status, 200);
}

#[tokio::test]
async fn private_endpoints_are_not_reachable_in_plaintext() {
    let rig = Rig::new();
    let post = Request::post("/v1/embeddings")
        .body(Body::from("{}"))
        .unwrap();
    for (status, problem) in [
        rig.get("/v1/models").await,
        rig.send(post).await,
        rig.get("/").await,
    ] {
        assert_eq!(
            (status, code(&problem).as_str()),
            (StatusCode::NOT_FOUND, "ENDPOINT_UNKNOWN")
        );
    }
    let get = Request::get("/v1/gateway").body(Body::empty()).unwrap();
    let answer = rig.router.clone().oneshot(get).await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.headers()["allow"], "POST");
}

#[tokio::test]
async fn health_readiness_and_metrics() {
    let rig = Rig::new();
    assert_eq!(rig.get("/healthz").await.0, StatusCode::OK);
    assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
    rig.attest().await;
    assert_eq!(rig.get("/metrics").await.0, StatusCode::NOT_FOUND);
    let metrics = rig.metrics().await;
    assert!(
        metrics.contains("clearseal_enclave_documents_total 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains(
            "clearseal_enclave_requests_total{route=\"/v1/attestation\",status=\"200\"} 1\n"
        ),
        "{metrics}"
    );
    rig.service.drain();
    let (status, problem) = rig.get("/readyz").await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "DRAINING")
    );
    assert_eq!(rig.get("/healthz").await.0, StatusCode::OK);
}

/// A body whose sender stalls after the first part.
struct Stalled(Option<&'static [u8]>);

impl hyper::body::Body for Stalled {
    type Data = axum::body::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        match self.0.take() {
            Some(start) => {
                let data = axum::body::Bytes::from_static(start);
                Poll::Ready(Some(Ok(hyper::body::Frame::data(data))))
            }
            None => Poll::Pending,
        }
    }
}
