//! The log of receipts contains the keys and every receipt under them, in order, under a head that the enclave signs.

use std::collections::HashSet;

use crate::common::{Attested, MODEL, Rig, SECRET, code, embeddings};
use axum::http::StatusCode;
use merkle::head::TreeHead;
use merkle::json::{Leaves, from_json, hex};
use merkle::tree::{Frontier, keys_hash, receipt_hash};
use protocol::inner::InnerRequest;
use serde_json::json;

fn hello() -> InnerRequest {
    embeddings(&json!({"model": MODEL, "input": format!("hello {SECRET}")}))
}

async fn leaves(rig: &Rig, log: &[u8; 32], from: u64) -> (Leaves, TreeHead) {
    let path = format!("/v1/log/leaves?log={}&from={from}", hex(log));
    let (status, body) = rig.get(&path).await;
    assert_eq!(status, StatusCode::OK, "{body:?}");
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(!text.contains(SECRET));
    let leaves: Leaves = from_json(&body).unwrap();
    let head = TreeHead::verify(&leaves.head.head).unwrap();
    assert_eq!(head.log, *log);
    assert_eq!(head.time, rig.now().seconds());
    assert_eq!(head.document, receipt_hash(&leaves.head.document));
    (leaves, head)
}

/// Root of a tree of these keys and receipts.
fn root(manifest: &[u8], receipts: &[Vec<u8>]) -> [u8; 32] {
    let mut frontier = Frontier::new();
    frontier.append(&keys_hash(manifest), |_, _| ());
    for receipt in receipts {
        frontier.append(&receipt_hash(receipt), |_, _| ());
    }
    frontier.root()
}

async fn receipt(rig: &Rig, attested: &Attested) -> (u64, Vec<u8>) {
    let answer = rig
        .exchange(attested, hello())
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let receipt = answer.receipt.unwrap();
    let claims = receipt.report.claims.unwrap();
    (claims.sequence_number, receipt.bytes)
}

#[tokio::test]
async fn every_receipt_is_a_leaf_at_its_own_number() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let log = rig.logs().await[0];
    assert_eq!(log, *attested.verified.receipt_key().bytes());
    let (begun, head) = leaves(&rig, &log, 0).await;
    let manifest = begun.head.manifest;
    assert_eq!((begun.leaves, head.size), (vec![keys_hash(&manifest)], 1));
    // The client's keys are those of the log's first leaf.
    assert_eq!(manifest, attested.manifest);
    let mut receipts = Vec::new();
    for number in 1..6 {
        let (sequence, receipt) = receipt(&rig, &attested).await;
        assert_eq!(sequence, number);
        receipts.push(receipt);
    }
    let (all, head) = leaves(&rig, &log, 0).await;
    let hashes: Vec<_> = [keys_hash(&manifest)]
        .into_iter()
        .chain(receipts.iter().map(|receipt| receipt_hash(receipt)))
        .collect();
    assert_eq!(all.leaves, hashes);
    assert_eq!((head.size, head.root), (6, root(&manifest, &receipts)));
    let (some, same) = leaves(&rig, &log, 3).await;
    assert_eq!((some.from, &some.leaves[..], same), (3, &hashes[3..], head));
    assert!(leaves(&rig, &log, 6).await.0.leaves.is_empty());
}

#[tokio::test]
async fn concurrent_requests_get_distinct_rising_numbers() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let ask = || receipt(&rig, &attested);
    let (a, b, c, d, e, f) = tokio::join!(ask(), ask(), ask(), ask(), ask(), ask());
    let all = vec![a, b, c, d, e, f];
    let numbers: HashSet<_> = all.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..7).collect());
    let mut ordered = all;
    ordered.sort();
    let receipts: Vec<_> = ordered.into_iter().map(|(_, receipt)| receipt).collect();
    let log = *attested.verified.receipt_key().bytes();
    let (all, head) = leaves(&rig, &log, 0).await;
    assert_eq!(head.root, root(&all.head.manifest, &receipts));
}

#[tokio::test]
async fn each_key_has_a_log_that_can_be_fetched_until_its_manifest_ends() {
    let rig = Rig::new();
    let old = rig.attest().await;
    receipt(&rig, &old).await;
    rig.advance(3600);
    rig.service.rotate().unwrap();
    let new = rig.attest().await;
    let names = [&new, &old].map(|attested| *attested.verified.receipt_key().bytes());
    assert_eq!(rig.logs().await, names);
    // Both grow in the overlap, with separate numbers.
    assert_eq!(receipt(&rig, &new).await.0, 1);
    assert_eq!(receipt(&rig, &old).await.0, 2);
    // After the overlap there are no more requests, but the log is served until the manifest ends a minute later.
    rig.advance(660);
    rig.service.remove_expired();
    assert_eq!(leaves(&rig, &names[1], 0).await.1.size, 3);
    rig.advance(1);
    rig.service.remove_expired();
    assert_eq!(rig.logs().await, names[..1]);
    let path = format!("/v1/log/leaves?log={}&from=0", hex(&names[1]));
    let (status, problem) = rig.get(&path).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::NOT_FOUND, "LOG_UNKNOWN")
    );
}

#[tokio::test]
async fn a_heads_document_binds_the_key_and_is_renewed_within_its_certificates_life() {
    let rig = Rig::new();
    let log = rig.logs().await[0];
    let (first, _) = leaves(&rig, &log, 0).await;
    let (again, _) = leaves(&rig, &log, 0).await;
    assert_eq!(first.head.document, again.head.document);
    let (status, policy) = rig.get("/v1/development-policy").await;
    assert_eq!(status, StatusCode::OK);
    let policy = attestation::Policy::with_evidence(&policy).unwrap();
    let (report, key) = protocol::log::attest(&first.head, &[], &policy, None);
    assert_eq!(
        report.verdict,
        attestation::Verdict::Simulated,
        "{report:?}"
    );
    assert_eq!(key.unwrap().key().bytes(), &log);
    rig.advance(3600);
    let (later, _) = leaves(&rig, &log, 0).await;
    assert_ne!(first.head.document, later.head.document);
}

#[tokio::test]
async fn a_malformed_query_is_refused() {
    let rig = Rig::new();
    let log = hex(&rig.logs().await[0]);
    let upper = log.to_uppercase();
    for (query, status, wanted) in [
        (String::new(), 400, "LOG_QUERY_INVALID"),
        ("?log=short&from=0".to_owned(), 400, "LOG_QUERY_INVALID"),
        (format!("?log={upper}&from=0"), 400, "LOG_QUERY_INVALID"),
        (format!("?log={log}"), 400, "LOG_QUERY_INVALID"),
        (format!("?log={log}&from=-1"), 400, "LOG_QUERY_INVALID"),
        (
            format!("?log={log}&from=0&more=1"),
            400,
            "LOG_QUERY_INVALID",
        ),
        (format!("?log={log}&from=2"), 410, "LEAVES_GONE"),
        (
            format!("?log={}&from=0", "0".repeat(64)),
            404,
            "LOG_UNKNOWN",
        ),
    ] {
        let (found, problem) = rig.get(&format!("/v1/log/leaves{query}")).await;
        assert_eq!(
            (found.as_u16(), code(&problem).as_str()),
            (status, wanted),
            "{query}"
        );
    }
}
