//! The log over HTTP, and over a hundred kills of the process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a fixture that cannot be made is a failed test"
)]

#[path = "../support/log.rs"]
mod fake;
mod life;
mod stop;
#[path = "../support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use http::StatusCode;
use merkle::head::TreeHead;
use merkle::json::{Consistency, Inclusion, SignedHead, from_json, hex};
use merkle::verify;

use fake::{FakeLog, Shared, enclave};
use life::{Acknowledged, Process};
use support::{Answer, FakeEnclave, Running};

fn shared(logs: Vec<FakeLog>) -> Shared {
    Arc::new(Mutex::new(logs))
}

async fn proxy(enclave: &FakeEnclave) -> Running {
    let file = enclave.path().with_file_name("receipts.redb");
    let log = [
        "--receipt-log",
        file.to_str().unwrap(),
        "--publish-every=0.1s",
    ];
    Running::start(&enclave.path(), &log).await
}

/// Asks until the answer is the wanted one. The test's runner bounds the time.
async fn until<T>(proxy: &Running, path: &str, wanted: impl Fn(Answer) -> Option<T>) -> T {
    loop {
        if let Some(found) = wanted(proxy.get(path).await) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the metrics contain `line`.
async fn wait_for_metric(proxy: &Running, line: &str) {
    while !proxy.metrics().await.text().contains(line) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn head_of(answer: &Answer) -> Option<TreeHead> {
    let head: SignedHead = from_json(&answer.body).ok()?;
    Some(TreeHead::verify(&head.head).unwrap())
}

#[tokio::test]
async fn receipts_are_pulled_after_traffic_and_proven() {
    let logs = shared(vec![FakeLog::new(1, 250), FakeLog::new(2, 3)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let proxy = proxy(&enclave).await;
    let (new, old) = {
        let logs = logs.lock().unwrap();
        (logs[0].clone(), logs[1].clone())
    };
    let head = |log: &FakeLog| format!("/v1/log/{}/head", log.name());
    let first = until(&proxy, &head(&new), |answer| head_of(&answer)).await;
    assert_eq!(first, new.tree_head(250));
    until(&proxy, &head(&old), |answer| head_of(&answer)).await;

    assert_eq!(proxy.post("/v1/gateway", "x").await.status, StatusCode::OK);
    let second = until(&proxy, &head(&new), |answer| {
        head_of(&answer).filter(|head| head.size == 251)
    })
    .await;
    let path = format!("/v1/log/{}/consistency?from=250&to=251", new.name());
    let proof: Consistency = from_json(&proxy.get(&path).await.body).unwrap();
    verify::consistency(&first.tree(), &second.tree(), &proof.path).unwrap();
    let leaf = logs.lock().unwrap()[0].leaves[250];
    let path = format!("/v1/log/{}/inclusion?receipt={}", new.name(), hex(&leaf));
    let proof: Inclusion = from_json(&proxy.get(&path).await.body).unwrap();
    assert_eq!(TreeHead::verify(&proof.head).unwrap(), second);
    verify::inclusion(&leaf, proof.index, 251, &proof.path, &second.root).unwrap();
    // The earlier head is still served.
    let earlier = proxy.get(&format!("{}?size=250", head(&new))).await;
    assert_eq!(head_of(&earlier), Some(first));
    assert_eq!(earlier.header("access-control-allow-origin"), Some("*"));
    assert_eq!(earlier.header("cache-control"), Some("no-store"));

    let list: serde_json::Value = serde_json::from_slice(&proxy.get("/v1/log").await.body).unwrap();
    assert_eq!(list["logs"].as_array().unwrap().len(), 2);
    let entry = list["logs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|log| log["log"] == new.name());
    assert_eq!(entry.unwrap()["size"], 251);
    wait_for_metric(&proxy, "clearseal_proxy_log_leaves 254").await;
}

#[tokio::test]
async fn unknown_items_and_invalid_queries_are_reported() {
    let logs = shared(vec![FakeLog::new(1, 5)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let proxy = proxy(&enclave).await;
    let name = logs.lock().unwrap()[0].name();
    until(&proxy, &format!("/v1/log/{name}/head"), |answer| {
        head_of(&answer)
    })
    .await;
    let unknown = "0".repeat(64);
    let upper = name.to_uppercase();
    for (path, status, code) in [
        (format!("/v1/log/{unknown}/head"), 404, "LOG_UNKNOWN"),
        ("/v1/log/short/head".to_owned(), 404, "LOG_UNKNOWN"),
        (format!("/v1/log/{upper}/head"), 404, "LOG_UNKNOWN"),
        (
            format!("/v1/log/{name}/head?size=4"),
            404,
            "TREE_SIZE_UNKNOWN",
        ),
        (
            format!("/v1/log/{name}/head?size=x"),
            400,
            "LOG_QUERY_INVALID",
        ),
        (
            format!("/v1/log/{name}/head?extra=1"),
            400,
            "LOG_QUERY_INVALID",
        ),
        (
            format!("/v1/log/{name}/inclusion"),
            400,
            "LOG_QUERY_INVALID",
        ),
        (
            format!("/v1/log/{name}/inclusion?receipt=zz"),
            400,
            "LOG_QUERY_INVALID",
        ),
        (
            format!("/v1/log/{name}/inclusion?receipt={unknown}"),
            404,
            "RECEIPT_NOT_LOGGED",
        ),
        (
            format!("/v1/log/{unknown}/inclusion?receipt={unknown}"),
            404,
            "LOG_UNKNOWN",
        ),
        (
            format!("/v1/log/{name}/consistency"),
            400,
            "LOG_QUERY_INVALID",
        ),
        (
            format!("/v1/log/{name}/consistency?from=6"),
            404,
            "TREE_SIZE_UNKNOWN",
        ),
        (
            format!("/v1/log/{name}/consistency?from=1&to=6"),
            404,
            "TREE_SIZE_UNKNOWN",
        ),
        (
            format!("/v1/log/{name}/consistency?from=4&to=3"),
            404,
            "TREE_SIZE_UNKNOWN",
        ),
        (
            format!("/v1/log/{unknown}/consistency?from=1"),
            404,
            "LOG_UNKNOWN",
        ),
        // The enclave's own endpoint is not relayed.
        (
            format!("/v1/log/leaves?log={name}&from=0"),
            404,
            "NOT_FOUND",
        ),
        (format!("/v1/log/{name}"), 404, "NOT_FOUND"),
    ] {
        let answer = proxy.get(&path).await;
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (status, code),
            "{path}"
        );
    }
}

#[tokio::test]
async fn without_a_file_there_is_no_log() {
    let logs = shared(vec![FakeLog::new(1, 5)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let proxy = Running::start(&enclave.path(), &[]).await;
    assert_eq!(proxy.get("/v1/log").await.problem(), "NOT_FOUND");
}

/// The publications are an hour apart. Receipts are stored in between, and not shown.
#[tokio::test]
async fn receipts_are_published_only_at_fixed_intervals() {
    let logs = shared(vec![FakeLog::new(1, 10)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let file = enclave.path().with_file_name("receipts.redb");
    let log = [
        "--receipt-log",
        file.to_str().unwrap(),
        "--publish-every=1h",
    ];
    let mut proxy = Running::start(&enclave.path(), &log).await;
    let name = logs.lock().unwrap()[0].name();
    let path = format!("/v1/log/{name}/head");
    // A start publishes all leaves.
    until(&proxy, &path, |answer| head_of(&answer)).await;
    let before = [&path, "/v1/log"].map(str::to_owned);
    let mut shown = Vec::new();
    for path in &before {
        shown.push(proxy.get(path).await.body);
    }
    assert_eq!(proxy.post("/v1/gateway", "x").await.status, StatusCode::OK);
    wait_for_metric(&proxy, "clearseal_proxy_log_leaves 11").await;
    for (path, shown) in before.iter().zip(shown) {
        assert_eq!(proxy.get(path).await.body, shown, "{path}");
    }
    let leaf = logs.lock().unwrap()[0].leaves[10];
    for (path, code) in [
        (
            format!("/v1/log/{name}/inclusion?receipt={}", hex(&leaf)),
            "RECEIPT_NOT_LOGGED",
        ),
        (format!("/v1/log/{name}/head?size=11"), "TREE_SIZE_UNKNOWN"),
        (
            format!("/v1/log/{name}/consistency?from=10&to=11"),
            "TREE_SIZE_UNKNOWN",
        ),
    ] {
        assert_eq!(proxy.get(&path).await.problem(), code, "{path}");
    }
    proxy.stop();
    proxy.task.await.unwrap();
}

/// Waits until the metrics count a refused pull with `code`.
async fn wait_for_refusal(proxy: &Running, code: &str) {
    let line = format!("clearseal_proxy_log_refusals_total{{code=\"{code}\"}}");
    wait_for_metric(proxy, &line).await;
    assert!(!proxy.metrics().await.text().contains("log_failures_total{"));
}

/// The same for a pull that failed otherwise, which is not a sign of a dishonest enclave.
async fn wait_for_failure(proxy: &Running, code: &str) {
    let line = format!("clearseal_proxy_log_failures_total{{code=\"{code}\"}}");
    wait_for_metric(proxy, &line).await;
    assert!(!proxy.metrics().await.text().contains("log_refusals_total{"));
}

#[tokio::test]
async fn a_history_that_changes_is_refused_reported_and_not_served() {
    let logs = shared(vec![FakeLog::new(1, 10)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let proxy = proxy(&enclave).await;
    let honest = logs.lock().unwrap()[0].clone();
    let path = format!("/v1/log/{}/head", honest.name());
    until(&proxy, &path, |answer| head_of(&answer)).await;

    logs.lock().unwrap()[0].leaves[3] = [7; 32];
    proxy.post("/v1/gateway", "x").await;
    wait_for_refusal(&proxy, "LOG_FORKED").await;
    assert_eq!(head_of(&proxy.get(&path).await), Some(honest.tree_head(10)));
    // Traffic does not repeat the refusal, each of which is a long line in the proxy's log.
    for _ in 0..20 {
        proxy.post("/v1/gateway", "x").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let line = "clearseal_proxy_log_refusals_total{code=\"LOG_FORKED\"} 1\n";
    assert!(proxy.metrics().await.text().contains(line));
}

#[tokio::test]
async fn leaves_that_the_enclave_lost_are_reported_and_older_ones_served() {
    let logs = shared(vec![FakeLog::new(1, 10)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let proxy = proxy(&enclave).await;
    let honest = logs.lock().unwrap()[0].clone();
    let path = format!("/v1/log/{}/head", honest.name());
    until(&proxy, &path, |answer| head_of(&answer)).await;
    logs.lock().unwrap()[0] = FakeLog {
        leaves: honest.leaves[..4].to_vec(),
        oldest: 20,
        ..honest.clone()
    };
    proxy.post("/v1/gateway", "x").await;
    wait_for_failure(&proxy, "LOG_INCOMPLETE").await;
    assert_eq!(head_of(&proxy.get(&path).await), Some(honest.tree_head(10)));
}

/// A pull takes three requests, and the log ends after the first.
#[tokio::test]
async fn a_log_that_ends_within_a_pull_is_reported() {
    let logs = shared(vec![FakeLog::new(1, 250)]);
    let inner = enclave(&logs);
    let router = inner.layer(axum::middleware::from_fn(
        |request: axum::extract::Request, next: axum::middleware::Next| async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("from=100") {
                return axum::response::IntoResponse::into_response(StatusCode::NOT_FOUND);
            }
            next.run(request).await
        },
    ));
    let enclave = FakeEnclave::start(router);
    let proxy = proxy(&enclave).await;
    wait_for_failure(&proxy, "LOG_INCOMPLETE").await;
}

#[tokio::test]
async fn the_list_of_logs_has_pages() {
    let logs: Vec<_> = (0..70)
        .map(|seed| {
            let mut log = FakeLog::new(seed, 1);
            log.time += u64::from(seed);
            log
        })
        .collect();
    let current = shared(Vec::new());
    let enclave = FakeEnclave::start(enclave(&current));
    let proxy = proxy(&enclave).await;
    // An enclave has few logs at a time.
    for (number, logs) in logs.chunks(10).enumerate() {
        *current.lock().unwrap() = logs.to_vec();
        let line = format!("clearseal_proxy_log_leaves {}\n", 10 * (number + 1));
        wait_for_metric(&proxy, &line).await;
    }
    let read = |answer: Answer| {
        let list: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
        let logs = list["logs"].as_array()?.iter();
        let names = logs.map(|log| log["log"].as_str().unwrap().to_owned());
        let names: Vec<_> = names.collect();
        Some((names, list["next"].as_str().map(str::to_owned)))
    };
    let (mut names, next) = until(&proxy, "/v1/log", |answer| {
        read(answer).filter(|(names, _)| names.len() == 64)
    })
    .await;
    assert_eq!(next.as_ref(), names.last());
    let (rest, end) = until(&proxy, &format!("/v1/log?after={}", names[63]), |answer| {
        read(answer).filter(|(names, _)| names.len() == 6)
    })
    .await;
    assert_eq!(end, None);
    names.extend(rest);
    // The newest first.
    let expected: Vec<_> = (0..70)
        .rev()
        .map(|seed| FakeLog::new(seed, 1).name())
        .collect();
    assert_eq!(names, expected);
    let unknown = format!("/v1/log?after={}", "0".repeat(64));
    assert_eq!(proxy.get(&unknown).await.problem(), "LOG_UNKNOWN");
    for wrong in ["/v1/log?after=x", "/v1/log?limit=1"] {
        assert_eq!(proxy.get(wrong).await.problem(), "LOG_QUERY_INVALID");
    }
}

#[tokio::test]
async fn an_enclave_without_a_log_is_reported_and_relayed() {
    let router = Router::new().route("/v1/gateway", axum::routing::post("sealed"));
    let enclave = FakeEnclave::start(router);
    let proxy = proxy(&enclave).await;
    wait_for_failure(&proxy, "LOG_PULL_FAILED").await;
    assert_eq!(proxy.post("/v1/gateway", "x").await.text(), "sealed");
}

#[tokio::test]
async fn a_corrupt_file_prevents_a_start() {
    use clap::Parser as _;
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("receipts.redb");
    std::fs::write(&file, "").unwrap();
    let config = host_proxy::Config::parse_from([
        "host-proxy",
        "--listen=127.0.0.1:0",
        "--enclave=unix:/nowhere",
        "--receipt-log",
        file.to_str().unwrap(),
    ]);
    let error = host_proxy::Proxy::bind(config)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(error.starts_with("LOG_CORRUPT"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_kills_lose_nothing_acknowledged() {
    let mut log = FakeLog::new(1, 0);
    // Each read adds leaves, so that every process has something to write at once.
    log.growth = 3;
    let name = log.name();
    let logs = shared(vec![log]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let mut acknowledged = Acknowledged::default();
    let mut chance = 7_u64;
    for life in 0..100 {
        let process = Process::start(&enclave);
        acknowledged
            .assert_kept(&process, &name, life % 20 == 19)
            .await;
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let delay = Duration::from_micros((chance >> 33) % 12_000);
        if life % 2 == 0 {
            // Kills the process soon after it has acknowledged a new head.
            let before = acknowledged.heads.len();
            while acknowledged.heads.len() == before {
                let newest = logs.lock().unwrap()[0].leaves.last().copied();
                acknowledged.note(&process, &name, newest).await;
            }
        }
        // Or while it writes leaves that it has just pulled.
        tokio::time::sleep(delay).await;
        process.kill();
    }
    assert!(
        acknowledged.heads.len() >= 50,
        "every second life acknowledged a head"
    );
    let process = Process::start(&enclave);
    acknowledged.assert_kept(&process, &name, true).await;
    process.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_written_again_once_it_has_room() {
    let logs = shared(vec![FakeLog::new(1, 10)]);
    let name = logs.lock().unwrap()[0].name();
    let enclave = FakeEnclave::start(enclave(&logs));
    let process = Process::start_without_xfsz(&enclave);
    while process.size(&name).await != Some(10) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    process.limit_files("4096");
    logs.lock().unwrap()[0].grow(5000);
    while !process.log.lock().unwrap().contains("LOG_UNAVAILABLE") {
        process.traffic();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    process.limit_files("unlimited");
    let mut size = 0;
    while size < 5010 {
        process.traffic();
        tokio::time::sleep(Duration::from_millis(50)).await;
        size = process.size(&name).await.unwrap_or(size);
    }
    process.kill();
    let file = enclave.path().with_file_name("receipts.redb");
    let checked = host_proxy::log::Store::check(&file).unwrap();
    assert!(checked.leaves >= size);
}

/// A refused request issued no receipt, so a flood of them must not cause signatures of the enclave and writes to the disk.
#[tokio::test]
async fn a_refusal_causes_no_pull() {
    let pulls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pulls);
    let router = Router::new()
        .route("/v1/gateway", post(async || StatusCode::BAD_REQUEST))
        .route(
            "/v1/log",
            get(async move || {
                counted.fetch_add(1, Ordering::SeqCst);
                r#"{"format":"clearseal-logs/1","logs":[]}"#
            }),
        );
    let enclave = FakeEnclave::start(router);
    let file = enclave.path().with_file_name("receipts.redb");
    let log = [
        "--receipt-log",
        file.to_str().unwrap(),
        // A publication begins with a pull.
        "--publish-every=1h",
    ];
    let proxy = Running::start(&enclave.path(), &log).await;
    while pulls.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..20 {
        assert_eq!(proxy.post("/v1/gateway", "x").await.status, 400);
        let preflight = proxy.send(http::Method::OPTIONS, "/v1/gateway", &[], "".into());
        assert!(preflight.await.status.is_success());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(pulls.load(Ordering::SeqCst), 1);
}
