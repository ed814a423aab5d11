//! Bytes and header fields that pass between a client and the enclave, and those that do not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use crate::support::{FakeEnclave, Running};

const EVERY_BYTE: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut index = 0;
    while index < 256 {
        bytes[index] = index as u8;
        index += 1;
    }
    bytes
};

fn echo() -> Router {
    Router::new().fallback(any(async |request: Request| {
        let (head, body) = request.into_parts();
        let target = head.uri.to_string();
        let names: Vec<_> = head
            .headers
            .keys()
            .map(|name| name.as_str().to_owned())
            .collect();
        let mut response = Response::new(Body::new(body));
        let headers = response.headers_mut();
        // In a field that passes, so that the test sees the enclave's view of the request.
        let seen = format!("{} {target} {}", head.method, names.join(","));
        headers.insert("clearseal-enclave", seen.parse().unwrap());
        headers.insert("content-type", "message/ohttp-res".parse().unwrap());
        headers.insert("set-cookie", "a=b".parse().unwrap());
        headers.insert("x-enclave-secret", "1".parse().unwrap());
        headers.insert("location", "http://elsewhere/".parse().unwrap());
        response
    }))
}

#[tokio::test]
async fn bytes_pass_unchanged_and_only_listed_header_fields_pass() {
    let enclave = FakeEnclave::start(echo());
    let proxy = Running::start(&enclave.path(), &[]).await;
    let body = Bytes::from(EVERY_BYTE.repeat(1024));
    let sent = [
        ("content-type", "message/ohttp-req"),
        ("clearseal-enclave", "0011223344556677"),
        ("cookie", "session=1"),
        ("authorization", "Bearer secret"),
        ("x-forwarded-for", "203.0.113.9"),
        ("user-agent", "test"),
        ("origin", "https://elsewhere.example"),
    ];
    let answer = proxy
        .send(Method::POST, "/v1/gateway", &sent, body.clone())
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body, body);
    assert_eq!(
        answer.header("clearseal-enclave"),
        Some("POST /v1/gateway content-type,clearseal-enclave,host,content-length"),
    );
    assert_eq!(answer.header("content-type"), Some("message/ohttp-res"));
    for absent in ["set-cookie", "x-enclave-secret", "location"] {
        assert_eq!(answer.header(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn the_query_reaches_the_enclave_unchanged() {
    let enclave = FakeEnclave::start(echo());
    let proxy = Running::start(&enclave.path(), &[]).await;
    let answer = proxy
        .get("/v1/attestation?nonce=AAECAwQFBgcICQoLDA0ODw&x=%2F")
        .await;
    let seen = answer.header("clearseal-enclave").unwrap();
    assert!(
        seen.starts_with("GET /v1/attestation?nonce=AAECAwQFBgcICQoLDA0ODw&x=%2F "),
        "{seen}"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));

    let long = format!("/v1/attestation?nonce={}", "A".repeat(300));
    assert_eq!(proxy.get(&long).await.problem(), "URI_TOO_LONG");
}

#[tokio::test]
async fn problems_of_the_enclave_pass_through() {
    let refuse = async || {
        let head = [
            ("content-type", "application/problem+json"),
            ("retry-after", "7"),
        ];
        (
            StatusCode::TOO_MANY_REQUESTS,
            head,
            r#"{"code":"FROM_INSIDE"}"#,
        )
    };
    let enclave = FakeEnclave::start(Router::new().route("/v1/gateway", post(refuse)));
    let proxy = Running::start(&enclave.path(), &[]).await;
    let answer = proxy.post("/v1/gateway", "x").await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("retry-after"), Some("7"));
    assert_eq!(answer.text(), r#"{"code":"FROM_INSIDE"}"#);
}

#[tokio::test]
async fn only_three_endpoints_are_relayed() {
    let enclave = FakeEnclave::start(echo());
    let proxy = Running::start(&enclave.path(), &[]).await;
    assert_eq!(
        proxy.get("/v1/development-policy").await.status,
        StatusCode::OK
    );
    for path in ["/v1/", "/v1/gateway/", "/v1/attestation/x"] {
        assert_eq!(proxy.get(path).await.problem(), "NOT_FOUND", "{path}");
    }
    // A client of OpenAI's API learns how to reach this service.
    for (method, path) in [
        (Method::GET, "/v1/models"),
        (Method::POST, "/v1/embeddings"),
    ] {
        let answer = proxy.send(method, path, &[], Bytes::new()).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(answer.problem(), "SEALED_ONLY", "{path}");
    }
    for (method, path, allow) in [
        (Method::GET, "/v1/gateway", "POST, OPTIONS"),
        (Method::POST, "/v1/attestation", "GET, HEAD, OPTIONS"),
        (Method::HEAD, "/v1/gateway", "POST, OPTIONS"),
        (
            Method::DELETE,
            "/v1/development-policy",
            "GET, HEAD, OPTIONS",
        ),
        (Method::POST, "/healthz", "GET,HEAD"),
        (Method::POST, "/readyz", "GET,HEAD"),
    ] {
        let answer = proxy.send(method.clone(), path, &[], Bytes::new()).await;
        assert_eq!(
            answer.status,
            StatusCode::METHOD_NOT_ALLOWED,
            "{method} {path}"
        );
        assert_eq!(answer.header("allow"), Some(allow));
        if method != Method::HEAD {
            assert_eq!(answer.problem(), "METHOD_NOT_ALLOWED", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn clients_of_openai_are_told_that_their_text_was_sent_in_clear() {
    let enclave = FakeEnclave::start(echo());
    let proxy = Running::start(&enclave.path(), &[]).await;
    for (method, path, code) in [
        (Method::POST, "/v1/embeddings", "SEALED_ONLY"),
        (Method::POST, "/v1/embeddings/", "SEALED_ONLY"),
        (Method::POST, "/v1/chat/completions", "SEALED_ONLY"),
        (Method::GET, "/v1/models", "SEALED_ONLY"),
        (Method::GET, "/v1/models/a/b", "SEALED_ONLY"),
        (Method::POST, "/v1/v1/embeddings", "PATH_DOUBLED"),
    ] {
        let text = Bytes::from_static(br#"{"input":"quokka"}"#);
        let answer = proxy.send(method.clone(), path, &[], text).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(answer.problem(), code, "{path}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        let body: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        let error = &body["error"];
        assert_eq!(error["code"], code, "{path}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["param"].is_null());
        let message = error["message"].as_str().unwrap();
        let is_warned = message.contains("sent in clear");
        assert_eq!(is_warned, method == Method::POST, "{path}: {message}");
        assert!(message.contains("clearseal proxy"), "{path}: {message}");
        assert!(!message.contains("quokka"));
    }
    // Other problems on these paths have the same form; other paths have none of it.
    let head = "POST /v1/embeddings HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n";
    let answer = proxy.raw(head.as_bytes()).await;
    assert!(
        answer.contains("HOST_INVALID") && answer.contains("sent in clear"),
        "{answer}"
    );
    let doubled = proxy.get("/v1/v1/attestation").await;
    assert_eq!(doubled.problem(), "PATH_DOUBLED");
    assert!(doubled.text().contains("/v1/v1") && !doubled.text().contains("\"error\""));
}

#[tokio::test]
async fn head_is_answered_where_get_is() {
    let enclave = FakeEnclave::start(echo());
    let proxy = Running::start(&enclave.path(), &[]).await;
    for path in [
        "/v1/development-policy",
        "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA",
        "/v1/crls",
        "/healthz",
    ] {
        let get = proxy.get(path).await;
        let head = proxy.send(Method::HEAD, path, &[], Bytes::new()).await;
        assert_eq!(
            (get.status, head.status),
            (StatusCode::OK, StatusCode::OK),
            "{path}"
        );
        assert_eq!(head.text(), "", "{path}");
        // The enclave is asked the same, and its view is in this field.
        for name in ["content-type", "clearseal-enclave"] {
            assert_eq!(head.header(name), get.header(name), "{path}");
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_announced_or_streamed() {
    let enclave = FakeEnclave::start(Router::new().route(
        "/v1/gateway",
        post(async |body: Body| match body.collect().await {
            Ok(_) => StatusCode::OK,
            Err(_) => StatusCode::BAD_REQUEST,
        }),
    ));
    let proxy = Running::start(&enclave.path(), &["--max-request-bytes=1000"]).await;
    assert_eq!(
        proxy.post("/v1/gateway", vec![7; 1000]).await.status,
        StatusCode::OK
    );
    let announced = proxy.post("/v1/gateway", vec![7; 1001]).await;
    assert_eq!(announced.problem(), "BODY_TOO_LARGE");

    let chunk = format!("{:x}\r\n{}\r\n", 600, "x".repeat(600));
    let head = "POST /v1/gateway HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let within = proxy
        .raw(format!("{head}{chunk}0\r\n\r\n").as_bytes())
        .await;
    assert!(within.starts_with("HTTP/1.1 200"), "{within}");
    let over = proxy
        .raw(format!("{head}{chunk}{chunk}0\r\n\r\n").as_bytes())
        .await;
    assert!(
        over.starts_with("HTTP/1.1 413") && over.contains("BODY_TOO_LARGE"),
        "{over}"
    );
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused_or_cut() {
    let streamed = async || {
        let chunks = (0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![1; 400])));
        Body::from_stream(stream_of(chunks)).into_response()
    };
    let enclave = FakeEnclave::start(
        Router::new()
            .route("/v1/attestation", get(async || vec![1_u8; 1001]))
            .route("/v1/development-policy", get(streamed)),
    );
    let proxy = Running::start(&enclave.path(), &["--max-answer-bytes=1000"]).await;
    assert_eq!(
        proxy.get("/v1/attestation").await.problem(),
        "ANSWER_TOO_LARGE"
    );

    let request = "GET /v1/development-policy HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let cut = proxy.raw(request.as_bytes()).await;
    assert!(cut.starts_with("HTTP/1.1 200"), "{cut}");
    assert!(
        !cut.ends_with("\r\n0\r\n\r\n"),
        "the answer has a last chunk: {cut}"
    );
}

/// Converts an iterator to a stream.
fn stream_of<T: Send + 'static>(
    items: impl Iterator<Item = T> + Send + 'static,
) -> impl futures_util::Stream<Item = T> + Send + 'static {
    futures_util::stream::iter(items)
}

#[tokio::test]
async fn an_absent_enclave_is_reported_and_used_once_it_starts() {
    let mut enclave = FakeEnclave::absent();
    let proxy = Running::start(&enclave.path(), &[]).await;
    let answer = proxy.post("/v1/gateway", "x").await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(answer.problem(), "ENCLAVE_UNREACHABLE");
    assert_eq!(proxy.get("/readyz").await.problem(), "ENCLAVE_UNREACHABLE");
    assert_eq!(proxy.get("/healthz").await.text(), "ok\n");

    enclave.restart(echo());
    assert_eq!(proxy.post("/v1/gateway", "x").await.text(), "x");
    assert_eq!(proxy.get("/readyz").await.text(), "ready\n");
}

#[tokio::test]
async fn a_restart_between_requests_is_not_noticed() {
    let mut enclave = FakeEnclave::start(echo());
    let proxy = Running::start(&enclave.path(), &[]).await;
    for round in 0..10 {
        assert_eq!(
            proxy.post("/v1/gateway", "before").await.text(),
            "before",
            "{round}"
        );
        enclave.kill().await;
        enclave.restart(echo());
        if round % 2 == 0 {
            let answer = proxy.get("/v1/attestation?nonce=a").await;
            assert_eq!(answer.status, StatusCode::OK, "{round}");
        }
        assert_eq!(
            proxy.post("/v1/gateway", "after").await.text(),
            "after",
            "{round}"
        );
    }
}

#[tokio::test]
async fn a_lost_request_is_not_sent_twice() {
    let enclave = FakeEnclave::absent();
    let listener = enclave.listen();
    let proxy = Running::start(&enclave.path(), &[]).await;
    // Reads the request, then closes the connection. The proxy cannot know whether the request was processed.
    let swallow = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 4096];
        assert!(stream.read(&mut bytes).await.unwrap() > 0);
        drop(stream);
        listener
    });
    assert_eq!(
        proxy.post("/v1/gateway", "x").await.problem(),
        "ENCLAVE_UNREACHABLE"
    );
    let listener = swallow.await.unwrap();
    let again = std::future::poll_fn(|context| match listener.poll_accept(context) {
        std::task::Poll::Ready(_) => std::task::Poll::Ready(true),
        std::task::Poll::Pending => std::task::Poll::Ready(false),
    });
    assert!(!again.await, "the proxy repeated a POST");
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_invalid() {
    let enclave = FakeEnclave::absent();
    let listener = enclave.listen();
    let proxy = Running::start(&enclave.path(), &[]).await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
    });
    assert_eq!(
        proxy.post("/v1/gateway", "x").await.problem(),
        "ENCLAVE_INVALID_ANSWER"
    );
}

#[tokio::test]
async fn an_enclave_that_does_not_answer_is_a_timeout() {
    let enclave = FakeEnclave::start(Router::new().fallback(any(async |body: Body| {
        body.collect().await.unwrap();
        std::future::pending::<StatusCode>().await
    })));
    let proxy = Running::start(&enclave.path(), &["--first-byte-timeout=0.2s"]).await;
    let answer = proxy.post("/v1/gateway", "x").await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(answer.problem(), "ENCLAVE_TIMEOUT");
}

#[tokio::test]
async fn an_answer_that_stalls_is_cut() {
    let stall = async || {
        let first = std::iter::once(Ok::<_, std::io::Error>(Bytes::from_static(b"begin")));
        let never =
            futures_util::StreamExt::chain(stream_of(first), futures_util::stream::pending());
        Body::from_stream(never).into_response()
    };
    let router = Router::new()
        .route("/v1/development-policy", get(stall))
        .route("/v1/attestation", get(stall));
    let enclave = FakeEnclave::start(router);
    let proxy = Running::start(&enclave.path(), &["--total-timeout=0.3s"]).await;
    let cut = proxy
        .raw(b"GET /v1/development-policy HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert!(
        cut.contains("begin") && !cut.ends_with("\r\n0\r\n\r\n"),
        "{cut}"
    );
    // A document arrives whole or not at all.
    let answer = proxy.get("/v1/attestation").await;
    assert_eq!(answer.problem(), "ENCLAVE_TIMEOUT");
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_request_gets_a_timeout() {
    let enclave = FakeEnclave::start(echo_after_body());
    let proxy = Running::start(&enclave.path(), &["--stall-timeout=0.2s"]).await;
    let head = "POST /v1/gateway HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf";
    let answer = proxy.raw(head.as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("BODY_TIMEOUT"),
        "{answer}"
    );
}

fn echo_after_body() -> Router {
    Router::new().fallback(any(async |body: Bytes| body))
}

#[tokio::test]
async fn above_the_concurrency_limit_the_answer_is_busy() {
    let (entered, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (entered, release) = (entered.clone(), release.clone());
        post(move || async move {
            entered.notify_one();
            release.notified().await;
            "done"
        })
    };
    let enclave = FakeEnclave::start(Router::new().route("/v1/gateway", handler));
    let proxy = Arc::new(Running::start(&enclave.path(), &["--max-concurrent=1"]).await);
    let first = tokio::spawn({
        let proxy = proxy.clone();
        async move { proxy.post("/v1/gateway", "1").await }
    });
    entered.notified().await;
    let busy = proxy.post("/v1/gateway", "2").await;
    assert_eq!(busy.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.header("retry-after"), Some("1"));
    assert_eq!(busy.problem(), "BUSY");
    release.notify_one();
    assert_eq!(first.await.unwrap().text(), "done");
}

#[tokio::test]
async fn other_origins_may_call_without_credentials() {
    let enclave = FakeEnclave::start(echo());
    let proxy = Running::start(&enclave.path(), &[]).await;
    let asks = [
        ("origin", "https://elsewhere.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let preflight = proxy
        .send(Method::OPTIONS, "/v1/gateway", &asks, Bytes::new())
        .await;
    assert_eq!(preflight.status, StatusCode::NO_CONTENT);
    let allowed = |headers: &HeaderMap, name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!(
        allowed(&preflight.headers, "access-control-allow-methods"),
        "POST, OPTIONS"
    );
    assert_eq!(
        allowed(&preflight.headers, "access-control-allow-headers"),
        "content-type, clearseal-enclave"
    );
    let refused = proxy.get("/v1/gateway").await;
    let answered = proxy.post("/v1/gateway", "x").await;
    for answer in [preflight, refused, answered] {
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            Some("cross-origin")
        );
    }
}

#[tokio::test]
async fn tcp_reaches_an_enclave_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, echo_after_body()).await.unwrap() });
    let proxy = Running::start_at(&format!("tcp:{address}"), &[]).await;
    assert_eq!(proxy.post("/v1/gateway", "x").await.text(), "x");
}
