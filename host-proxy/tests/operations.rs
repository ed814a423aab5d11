//! Metrics, logs without content, and graceful stops.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use support::{FakeEnclave, Running, client};

#[tokio::test]
async fn metrics_count_by_route_and_never_by_text_of_a_client() {
    let enclave = FakeEnclave::start(Router::new().route("/v1/gateway", post(async || "answer")));
    let proxy = Running::start(&enclave.path(), &[]).await;
    proxy.post("/v1/gateway", "12345").await;
    proxy.get("/CANARY-PATH?CANARY-QUERY").await;
    let metrics = proxy.metrics().await;
    let text = metrics.text();
    for line in [
        r#"clearseal_proxy_requests_total{route="Gateway",status="200"} 1"#,
        r#"clearseal_proxy_requests_total{route="Web",status="404"} 1"#,
        r#"clearseal_proxy_refusals_total{code="NOT_FOUND"} 1"#,
        r#"clearseal_proxy_requests_in_flight{route="Gateway"} 0"#,
        r#"clearseal_proxy_times_total{route="Gateway",upto="#,
        r#"clearseal_proxy_waits_total{upto="#,
        r#"clearseal_proxy_request_sizes_total{route="Gateway",upto="32768"} 1"#,
        r#"clearseal_proxy_answer_sizes_total{route="Gateway",upto="32768"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert!(!text.contains("CANARY"), "{text}");
    // On a quiet service the difference of two sums is one request's length or time, so no metric is a sum.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(!name.contains("_sum"), "{line}");
        assert!(value.parse::<u64>().unwrap() <= 2, "{line}");
    }
}

#[tokio::test]
async fn metrics_are_not_on_the_public_address() {
    let enclave = FakeEnclave::start(Router::new());
    let proxy = Running::start(&enclave.path(), &[]).await;
    assert_eq!(proxy.get("/metrics").await.problem(), "NOT_FOUND");
    assert_eq!(proxy.metrics().await.status, StatusCode::OK);
}

/// A cache between proxy and balancer, such as Varnish, stores an answer for minutes unless that forbids it.
#[tokio::test]
async fn no_cache_keeps_an_answer_about_now() {
    let enclave = FakeEnclave::start(Router::new().route("/readyz", get("ready")));
    let proxy = Running::start(&enclave.path(), &[]).await;
    let mut answers = vec![proxy.metrics().await];
    for path in ["/healthz", "/readyz"] {
        for method in [Method::GET, Method::HEAD] {
            answers.push(proxy.send(method, path, &[], Bytes::new()).await);
        }
    }
    for answer in answers {
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(
            answer.header("cache-control"),
            Some("no-store"),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn the_log_names_the_route_and_no_text_of_a_client() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .json()
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let enclave =
        FakeEnclave::start(Router::new().route("/v1/gateway", post(async |body: Bytes| body)));
    let proxy = Running::start(&enclave.path(), &[]).await;
    let headers = [
        ("clearseal-enclave", "CANARY-HEADER"),
        ("x-canary", "CANARY"),
    ];
    let answer = proxy
        .send(
            Method::POST,
            "/v1/gateway?CANARY-QUERY",
            &headers,
            "CANARY-BODY".into(),
        )
        .await;
    assert_eq!(answer.text(), "CANARY-BODY");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains(r#""route":"gateway""#), "{text}");
    assert!(!text.contains("CANARY"), "{text}");
}

#[tokio::test]
async fn the_log_tells_whole_answers_from_those_that_were_cut() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .json()
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let long = || async { vec![b'x'; 1 << 20] };
    let router = Router::new()
        .route("/v1/gateway", post(async |body: Bytes| body))
        .route("/v1/development-policy", get(long));
    let enclave = FakeEnclave::start(router);
    let proxy = Running::start(&enclave.path(), &[]).await;
    proxy.post("/v1/gateway", "text").await;
    proxy.post("/v1/gateway", "").await;
    for (method, path) in [
        (Method::OPTIONS, "/v1/gateway"),
        (Method::HEAD, "/healthz"),
        (Method::GET, "/healthz"),
        (Method::GET, "/absent"),
        (Method::GET, "/v1/development-policy"),
    ] {
        proxy.send(method, path, &[], Bytes::new()).await;
    }
    // This client leaves in the middle of the answer.
    let mut client = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
    client
        .write_all(b"GET /v1/development-policy HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    client.read_exact(&mut [0]).await.unwrap();
    drop(client);
    let lines = loop {
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains(r#""complete":"#));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        if lines.len() == 8 {
            break lines;
        }
        tokio::task::yield_now().await;
    };
    let (cut, whole) = lines.split_last().unwrap();
    assert!(cut.contains(r#""complete":false"#), "{cut}");
    for line in whole {
        assert!(line.contains(r#""complete":true"#), "{line}");
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_end() {
    let (entered, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (entered, release) = (entered.clone(), release.clone());
        post(move || async move {
            entered.notify_one();
            release.notified().await;
            "finished"
        })
    };
    let enclave = FakeEnclave::start(Router::new().route("/v1/gateway", handler));
    let mut proxy = Running::start(&enclave.path(), &[]).await;
    let address = proxy.address;
    let in_flight = tokio::spawn(async move {
        let request = http::Request::post(format!("http://{address}/v1/gateway"))
            .body(http_body_util::Full::new(Bytes::new()))
            .unwrap();
        let response = client().request(request).await.unwrap();
        http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap()
            .to_bytes()
    });
    entered.notified().await;
    proxy.stop();
    // New connections are refused once the listener is closed, while the old one is still served.
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!proxy.task.is_finished());
    release.notify_one();
    assert_eq!(in_flight.await.unwrap(), "finished");
    proxy.task.await.unwrap();
}

/// The end of this test is the assertion: no timeout ends these connections.
#[tokio::test]
async fn half_sent_heads_do_not_delay_a_stop() {
    let enclave = FakeEnclave::start(Router::new());
    let flags = ["--drain-timeout=1h", "--idle-timeout=1h"];
    let mut proxy = Running::start(&enclave.path(), &flags).await;
    let mut connections = Vec::new();
    for before in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut connection = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        connection.write_all(before.as_bytes()).await.unwrap();
        if !before.is_empty() {
            connection.read_exact(&mut [0; 12]).await.unwrap();
        }
        connection.write_all(b"GET /healthz HTT").await.unwrap();
        connections.push(connection);
    }
    // Served by now, like the connections before it.
    assert_eq!(proxy.get("/healthz").await.status, StatusCode::OK);
    proxy.stop();
    proxy.task.await.unwrap();
}

/// The request is finished for the proxy, but not for its reader.
#[tokio::test]
async fn a_stop_lets_slow_readers_read_their_answers() {
    const LENGTH: usize = 12 << 20;
    let handler = post(async || vec![7_u8; LENGTH]);
    let enclave = FakeEnclave::start(Router::new().route("/v1/gateway", handler));
    let mut proxy = Running::start(&enclave.path(), &[]).await;
    let mut connection = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
    let request = b"POST /v1/gateway HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    connection.write_all(request).await.unwrap();
    let mut answer = vec![0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200");
    proxy.stop();
    // Longer than the proxy waits for a connection that sends nothing.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    connection.read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > LENGTH, "{} bytes", answer.len());
    proxy.task.await.unwrap();
}

#[tokio::test]
async fn the_drain_is_bounded() {
    let entered = Arc::new(Notify::new());
    let handler = {
        let entered = entered.clone();
        post(move || async move {
            entered.notify_one();
            std::future::pending::<StatusCode>().await
        })
    };
    let enclave = FakeEnclave::start(Router::new().route("/v1/gateway", handler));
    let mut proxy = Running::start(&enclave.path(), &["--drain-timeout=0.1s"]).await;
    let address = proxy.address;
    let stuck = tokio::spawn(async move {
        let request = http::Request::post(format!("http://{address}/v1/gateway"))
            .body(http_body_util::Full::new(Bytes::new()))
            .unwrap();
        client().request(request).await.map(drop)
    });
    entered.notified().await;
    proxy.stop();
    proxy.task.await.unwrap();
    stuck.abort();
}
