//! docs/THREATS.md lists every header of the enclave's sealed and plaintext answers, and what each reveals.

use std::collections::BTreeSet;
use std::path::Path;

use axum::body::Body;
use axum::http::{Method, Request};
use fixtures::enclave::bare_request;
use protocol::terms;
use serde_json::json;
use tower::ServiceExt;

use crate::common::{MODEL, Options, Rig, embeddings};

fn section() -> String {
    let threats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/THREATS.md");
    let threats = std::fs::read_to_string(threats).unwrap();
    let (_, section) = threats.split_once("\n## What strangers learn\n").unwrap();
    section.split("\n## ").next().unwrap().to_owned()
}

fn assert_listed(names: &BTreeSet<String>) {
    let section = section();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !section.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "missing in THREATS.md: {missing:?}");
}

#[tokio::test]
async fn every_header_of_sealed_answers_is_listed() {
    let rig = Rig::with(Options::default());
    let attested = rig.attest().await;
    let mut names: BTreeSet<_> = [terms::DATE, terms::NONCE, terms::SALT, terms::DOCUMENT]
        .map(str::to_owned)
        .into();
    let many: Vec<_> = (0..2000).map(|_| "a").collect();
    let all = rig.service.hold_all_answer_memory().await;
    for request in [
        embeddings(&json!({"model": MODEL, "input": "hello"})),
        embeddings(&json!({"model": MODEL, "input": "hello", "encoding_format": "tensors"})),
        embeddings(&json!({"model": MODEL, "input": ""})),
        embeddings(&json!({"model": MODEL, "input": "panic"})),
        embeddings(&json!({"model": MODEL, "input": many})),
        bare_request("GET", "/v1/models"),
        bare_request("GET", "/v1/counters"),
        bare_request("GET", "/v1/openapi.json"),
        bare_request("GET", "/v1/embeddings"),
        bare_request("GET", "/nowhere"),
    ] {
        let answer = rig
            .exchange(&attested, request)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        names.extend(answer.response.headers.into_iter().map(|(name, _)| name));
    }
    drop(all);
    assert!(
        names.contains("retry-after"),
        "one was refused for its memory"
    );
    names.insert(terms::RECEIPT.to_owned());
    assert_listed(&names);
}

#[tokio::test]
async fn every_header_of_plaintext_answers_is_listed() {
    let rig = Rig::new();
    rig.service.drain();
    let mut names = BTreeSet::new();
    for path in [
        "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA",
        "/v1/attestation",
        "/v1/gateway",
        "/v1/channel",
        "/v1/development-policy",
        "/v1/log",
        "/v1/log/leaves",
        "/healthz",
        "/readyz",
        "/nowhere",
    ] {
        for method in [Method::GET, Method::POST] {
            let request = Request::builder().method(method).uri(path);
            let request = request.body(Body::empty()).unwrap();
            let answer = rig.router.clone().oneshot(request).await.unwrap();
            names.extend(answer.headers().keys().map(|name| name.as_str().to_owned()));
        }
    }
    assert!(names.contains("retry-after") || names.contains("clearseal-enclave"));
    assert_listed(&names);
}
