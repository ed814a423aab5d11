//! The endpoints outside the seal: what anyone may ask, and how it is refused.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::common::{MODEL, Options, Rig, code, embeddings};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use enclave_server::api::Limits;
use getrandom::SysRng;
use protocol::exchange;
use rand_core::UnwrapErr;
use serde_json::json;

#[tokio::test]
async fn nonces_are_checked_before_the_module_is_asked() {
    let rig = Rig::new();
    let nonce = |length| data_encoding::BASE64URL_NOPAD.encode(&vec![1; length]);
    for good in [16, 32, 64] {
        assert_eq!(
            rig.get(&format!("/v1/attestation?nonce={}", nonce(good)))
                .await
                .0,
            StatusCode::OK,
            "{good}"
        );
    }
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
    // A changed byte of the ciphertext does not open, which a stale key does not either.
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
        max_replay_entries: 10,
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
async fn too_many_at_once_are_refused_unread() {
    let limits = Limits {
        max_request_bytes: 4096,
        max_in_flight: 0,
        max_replay_entries: 10,
    };
    let rig = Rig::with(Options {
        limits,
        ..Options::default()
    });
    // Whoever read this body would wait for good.
    let body = Body::new(Never);
    let request = Request::post("/v1/gateway")
        .header("content-type", "message/ohttp-req")
        .body(body)
        .unwrap();
    let (status, problem) = rig.send(request).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "GATEWAY_BUSY")
    );
}

#[tokio::test]
async fn private_endpoints_are_not_outside() {
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
    assert_eq!(
        rig.get("/v1/gateway").await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn health_readiness_and_metrics() {
    let rig = Rig::new();
    assert_eq!(rig.get("/healthz").await.0, StatusCode::OK);
    assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
    rig.attest().await;
    let (_, metrics) = rig.get("/metrics").await;
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    assert!(
        metrics.contains("clearseal_enclave_documents_total 1"),
        "{metrics}"
    );
    assert!(
        metrics.contains(
            r#"clearseal_enclave_requests_total{route="/v1/attestation",status="200"} 1"#
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

/// A body whose sender never says anything.
struct Never;

impl hyper::body::Body for Never {
    type Data = axum::body::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        Poll::Pending
    }
}
