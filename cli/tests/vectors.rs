//! The program over published documents and receipts.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a skipped test says so; a fixture that cannot be made is a failed test"
)]

use crate::common;
use common::{Fixture, run};
use serde_json::{Value, json};

#[test]
fn genuine_documents_are_authentic_at_their_time_and_expired_now() {
    let Some(vectors) = forge::shared_vectors() else {
        return;
    };
    let folder = vectors.join("nitro/documents");
    let document = std::fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let document = document.to_str().unwrap();
    let then = run(
        &folder,
        &[
            "inspect",
            "attestation",
            document,
            "--at",
            "document",
            "--json",
        ],
        b"",
    );
    assert_eq!(
        (then.status, &then.json()["verdict"]),
        (0, &json!("authentic"))
    );
    let now = run(
        &folder,
        &["inspect", "attestation", document, "--json"],
        b"",
    );
    assert_eq!(
        (now.status, &now.json()["code"]),
        (1, &json!("CERTIFICATE_EXPIRED"))
    );
}

#[test]
fn receipts_of_the_profile_are_judged_by_a_named_key() {
    let Some(vectors) = forge::shared_vectors() else {
        return;
    };
    let fixture = Fixture::new("receipts");
    let vector = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(vectors.join("air-v1").join(name)).unwrap()).unwrap()
    };
    let golden = vector("v1-nitro-no-nonce.json");
    let key = golden["public_key_hex"].as_str().unwrap();
    fixture.write(
        "receipt",
        golden["receipt_hex"].as_str().unwrap().as_bytes(),
    );
    let verified = fixture.run(&["verify", "receipt", "receipt", "--key", key, "--json"]);
    assert_eq!(
        (verified.status, &verified.json()["verdict"]),
        (0, &json!("signed"))
    );
    assert_eq!(verified.json()["claims"]["sequenceNumber"], 42);
    let stale = fixture.run(&[
        "verify", "receipt", "receipt", "--key", key, "--at", "now", "--json",
    ]);
    assert_eq!(
        (stale.status, &stale.json()["code"]),
        (1, &json!("TIMESTAMP_STALE"))
    );
    let other = fixture.run(&[
        "verify",
        "receipt",
        "receipt",
        "--key",
        &"20".repeat(32),
        "--json",
    ]);
    assert_eq!(other.status, 1);

    let wrong = vector("v1-wrong-alg.json");
    fixture.write("receipt", wrong["receipt_hex"].as_str().unwrap().as_bytes());
    let refused = fixture.run(&["verify", "receipt", "receipt", "--key", key, "--json"]);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (1, &json!("BAD_ALG"))
    );
}
