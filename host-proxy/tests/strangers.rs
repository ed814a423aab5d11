//! docs/THREATS.md lists what strangers learn from each endpoint and header field. This checks that the list has all of both servers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use crate::support::{FakeEnclave, Running};

/// Returns the section "What strangers learn".
fn section() -> String {
    let threats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/THREATS.md");
    let threats = std::fs::read_to_string(threats).unwrap();
    let (_, section) = threats.split_once("\n## What strangers learn\n").unwrap();
    section.split("\n## ").next().unwrap().to_owned()
}

/// Collects the patterns of routes in the sources below `folder`, without tests.
fn routes(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            routes(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            let source = source.split("#[cfg(test)]").next().unwrap();
            for call in source.split(".route(").skip(1) {
                let pattern = call.trim_start().strip_prefix('"').unwrap();
                found.insert(pattern.split('"').next().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn every_route_of_both_servers_is_listed() {
    let mut found = BTreeSet::new();
    for folder in ["src", "../enclave-server/src"] {
        routes(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
            &mut found,
        );
    }
    assert!(found.contains("/v1/gateway") && found.contains("/v1/counters"));
    let section = section();
    let missing: Vec<_> = found
        .iter()
        .filter(|route| !section.contains(&format!("`{route}`")))
        .collect();
    assert!(missing.is_empty(), "missing in THREATS.md: {missing:?}");
}

/// Header fields of the enclave's answers: some that pass, and some that do not.
const ANSWER_FIELDS: [(&str, &str); 5] = [
    ("clearseal-enclave", "aaaaaaaaaaaaaaaa"),
    ("retry-after", "1"),
    ("cache-control", "no-store"),
    ("server-timing", "queue;dur=7"),
    ("x-request-id", "7"),
];

#[tokio::test]
async fn every_header_of_an_answer_is_listed() {
    let fake = FakeEnclave::start(
        Router::new()
            .route("/readyz", get("ready"))
            .route("/v1/attestation", get(async || (ANSWER_FIELDS, "evidence")))
            .route("/v1/gateway", post(async || (ANSWER_FIELDS, "sealed"))),
    );
    let web = tempfile::TempDir::new().unwrap();
    std::fs::write(web.path().join("index.html"), "page").unwrap();
    let folder = format!("--web={}", web.path().display());
    let log = format!("--receipt-log={}", web.path().join("log").display());
    let proxy = Running::start(&fake.path(), &[&folder, &log]).await;
    let mut found = HeaderMap::new();
    let (mut asked, mut statuses) = (0, BTreeSet::new());
    for path in [
        "/",
        "/nothing.js",
        "/healthz",
        "/readyz",
        "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA",
        "/v1/gateway",
        "/v1/channel",
        "/v1/log",
        "/v1/log/aa/head",
        "/v1/embeddings",
        "/v1/none",
    ] {
        for method in [Method::GET, Method::POST, Method::OPTIONS, Method::HEAD] {
            let body = Bytes::from_static(b"body");
            let answer = proxy
                .send(method, path, &[("range", "bytes=0-1")], body)
                .await;
            statuses.insert(answer.status);
            asked += 1;
            assert!(
                answer.header("cache-control").is_some(),
                "{path}: a cache in between would choose for how long it keeps this answer"
            );
            found.extend(answer.headers);
        }
    }
    for status in [
        StatusCode::OK,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
    ] {
        assert!(
            statuses.contains(&status),
            "{asked} requests, but no {status}"
        );
    }
    assert!(found.contains_key("clearseal-enclave") && found.contains_key("allow"));
    assert!(!found.contains_key("server-timing") && !found.contains_key("x-request-id"));
    let section = section();
    let missing: Vec<_> = found
        .keys()
        .filter(|name| !section.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "missing in THREATS.md: {missing:?}");
}
