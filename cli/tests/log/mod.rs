//! `clearseal verify bundle`, `verify log` and `verify keys` as a user runs them, over a bundle and a log of a development enclave.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod hosts;
mod keys;

use fixture::{Fixture, NOW, host};
use merkle::json::{Format, SignedHead, hex, to_json};
use merkle::tree::{node_hash, receipt_hash};
use merkle::verify::Tree;
use protocol::bundle::AuditBundle;
use serde_json::Value;

#[test]
fn a_bundle_is_judged_as_a_chain() {
    let fixture = Fixture::new("bundle");
    let asked = ["bundle", "bundle.json", "--policy", "policy.json"];
    let (status, report) = fixture.run(&asked);
    assert_eq!((status, &report["verdict"]), (1, &"simulated".into()));
    let (status, _) = fixture.run(&[&asked[..], &["--accept-simulated"]].concat());
    assert_eq!(status, 0);
    let text = std::fs::read(fixture.folder.join("bundle.json")).unwrap();
    let (status, piped) = fixture.feed(&["bundle", "-", "--policy", "policy.json"], &text);
    assert_eq!((status, &piped["verdict"]), (1, &"simulated".into()));
    // Its own document says whose key it is; a typed one would leave that and the policy out.
    let typed = ["receipt", "bundle.json", "--key", &"20".repeat(32)];
    let (status, _) = fixture.run(&[&typed[..], &["--policy", "policy.json"]].concat());
    assert_eq!(status, 2);
    // A receipt is not a bundle.
    assert_eq!(
        fixture
            .run(&["bundle", "receipt", "--policy", "policy.json"])
            .0,
        2
    );
    let mut changed = fixture.receipts[1].clone();
    *changed.last_mut().unwrap() ^= 1;
    let bundle = AuditBundle {
        receipt: changed,
        document: fixture.document.clone(),
        manifest: fixture.manifest.clone(),
        content: None,
        salt: None,
        crls: Vec::new(),
    };
    fixture.write("changed.json", bundle.to_json().unwrap().as_bytes());
    let (status, report) = fixture.run(&[
        "bundle",
        "changed.json",
        "--policy",
        "policy.json",
        "--accept-simulated",
    ]);
    assert_eq!((status, &report["code"]), (1, &"SIG_FAILED".into()));
}

#[test]
fn a_policy_names_the_model_with_or_without_organisation() {
    let fixture = Fixture::new("organisation");
    let policy = std::fs::read_to_string(fixture.folder.join("policy.json")).unwrap();
    for (id, code) in [
        ("all-MiniLM-L6-v2", None),
        ("org/all-MiniLM-L6-v2", None),
        ("all-MiniLM-L12-v2", Some("MODEL_ID_MISMATCH")),
    ] {
        let mut policy: serde_json::Value = serde_json::from_str(&policy).unwrap();
        policy["model"]["id"] = id.into();
        fixture.write("named.json", policy.to_string().as_bytes());
        let asked = ["receipt", "receipt", "--key", &fixture.key];
        let (_, report) = fixture.run(&[&asked[..], &["--policy", "named.json"]].concat());
        assert_eq!(report["code"].as_str(), code, "{id}: {report}");
    }
}

#[test]
fn a_receipt_is_found_in_the_log_under_a_named_key() {
    let fixture = Fixture::new("log-key");
    let asked = [
        "log",
        "receipt",
        "--proof",
        "proof.json",
        "--key",
        &fixture.key,
    ];
    let (status, report) = fixture.run(&asked);
    assert_eq!(
        (status, &report["log"]["verdict"]),
        (0, &"signed".into()),
        "{report}"
    );
    assert_eq!(report["receipt"]["verdict"], "signed");
    assert_eq!(report["log"]["head"]["size"], 3);
    let earlier = [
        "--earlier",
        "earlier.json",
        "--consistency",
        "consistency.json",
    ];
    let (status, report) = fixture.run(&[&asked[..], &earlier].concat());
    assert_eq!(
        (status, &report["log"]["code"]),
        (0, &Value::Null),
        "{report}"
    );
    let (status, report) = fixture.run(&[&asked[..], &earlier[..2]].concat());
    assert_eq!(
        (status, &report["log"]["code"]),
        (1, &"CONSISTENCY_MISSING".into())
    );
    let other = "11".repeat(32);
    let (status, report) =
        fixture.run(&["log", "receipt", "--proof", "proof.json", "--key", &other]);
    assert_eq!(
        (status, &report["log"]["code"]),
        (1, &"RECEIPT_REFUSED".into())
    );
    // Of another receipt's place.
    fixture.write("receipt", &fixture.receipts[0]);
    let (status, report) = fixture.run(&asked);
    assert_eq!(
        (status, &report["log"]["code"]),
        (1, &"NUMBER_MISMATCH".into())
    );
}

#[test]
fn a_bundle_is_found_in_the_log_and_forks_are_refused() {
    let fixture = Fixture::new("log-bundle");
    let asked = [
        "log",
        "bundle.json",
        "--proof",
        "proof.json",
        "--policy",
        "policy.json",
    ];
    let (status, report) = fixture.run(&asked);
    assert_eq!(
        (status, &report["log"]["verdict"]),
        (1, &"simulated".into()),
        "{report}"
    );
    let (status, _) = fixture.run(&[&asked[..], &["--accept-simulated"]].concat());
    assert_eq!(status, 0);

    // Two heads alone, by their evidence, then by a history that was changed before the second receipt.
    let heads = [
        "log",
        "--head",
        "head.json",
        "--earlier",
        "earlier.json",
        "--consistency",
    ];
    let policy = ["--policy", "policy.json", "--accept-simulated"];
    let (status, report) = fixture.run(&[&heads[..], &["consistency.json"], &policy].concat());
    assert_eq!(
        (status, &report["log"]["verdict"]),
        (0, &"simulated".into()),
        "{report}"
    );
    let [a, _, c] = fixture.hashes();
    let root = node_hash(&node_hash(&a, &a), &c);
    let document = receipt_hash(&fixture.document);
    let forked = SignedHead {
        format: Format::new(),
        head: fixture
            .signer
            .sign_head(Tree { size: 3, root }, NOW + 6, document),
        ..fixture.head(3)
    };
    fixture.write("head.json", to_json(&forked).unwrap().as_bytes());
    let (status, report) = fixture.run(&[&heads[..], &["consistency.json"], &policy].concat());
    assert_eq!(
        (status, &report["log"]["code"]),
        (1, &"HISTORY_INCONSISTENT".into())
    );
}

#[test]
fn what_cannot_be_judged_exits_with_two() {
    let fixture = Fixture::new("log-two");
    for arguments in [
        &["log"][..],
        &["log", "receipt", "--proof", "proof.json"],
        &["log", "receipt", "--key", "00", "--proof", "proof.json"],
        &["log", "bundle.json", "--policy", "policy.json"],
        &["log", "bundle.json", "--proof", "proof.json"],
        &[
            "log",
            "bundle.json",
            "--proof",
            "head.json",
            "--policy",
            "policy.json",
        ],
        &["log", "--head", "head.json"],
        &["log", "--head", "proof.json", "--policy", "policy.json"],
        &["log", "absent", "--proof", "proof.json", "--key", "00"],
        &[
            "log",
            "bundle.json",
            "--policy",
            "policy.json",
            "--url",
            "http://127.0.0.1:1",
        ],
    ] {
        assert_eq!(fixture.run(arguments).0, 2, "{arguments:?}");
    }
}

#[test]
fn a_host_is_asked_for_what_is_not_given() {
    let fixture = Fixture::new("log-host");
    let key = &fixture.key;
    let receipt = hex(&receipt_hash(&fixture.receipts[1]));
    let url = host(vec![
        (
            format!("/v1/log/{key}/inclusion?receipt={receipt}"),
            to_json(&fixture.inclusion()).unwrap().into_bytes(),
        ),
        (
            format!("/v1/log/{key}/consistency?from=2&to=3"),
            to_json(&fixture.consistency()).unwrap().into_bytes(),
        ),
        (
            // Another head than the one that is judged: only its evidence is taken.
            format!("/v1/log/{key}/head?size=3"),
            to_json(&fixture.head(1)).unwrap().into_bytes(),
        ),
    ]);
    let asked = [
        "log",
        "bundle.json",
        "--policy",
        "policy.json",
        "--accept-simulated",
        "--url",
        &url,
    ];
    let more = ["--earlier", "earlier.json", "--keep-head", "kept.json"];
    let (status, report) = fixture.run(&[&asked[..], &more].concat());
    assert_eq!(
        (status, &report["log"]["verdict"]),
        (0, &"simulated".into()),
        "{report}"
    );
    let read = |name: &str| std::fs::read_to_string(fixture.folder.join(name)).unwrap();
    assert_eq!(read("kept.json"), to_json(&fixture.head(3)).unwrap());
    let heads = ["log", "--head", "head.json", "--policy", "policy.json"];
    let keep = [
        "--accept-simulated",
        "--url",
        &url,
        "--keep-head",
        "kept-head.json",
    ];
    assert_eq!(fixture.run(&[heads, keep].concat()).0, 0);
    assert_eq!(read("kept-head.json"), to_json(&fixture.head(3)).unwrap());

    // Another history under the same key: what was kept is half of the proof.
    let tree = Tree {
        size: 2,
        root: [8; 32],
    };
    let forked = SignedHead {
        head: fixture
            .signer
            .sign_head(tree, NOW + 5, receipt_hash(&fixture.document)),
        ..fixture.head(2)
    };
    let forked = to_json(&forked).unwrap();
    fixture.write("pinned.json", forked.as_bytes());
    let more = ["--earlier", "pinned.json", "--keep-head", "pinned.json"];
    let (status, report) = fixture.run(&[&asked[..], &more].concat());
    assert_eq!(
        (status, &report["log"]["verdict"]),
        (1, &"refused".into()),
        "{report}"
    );
    assert_eq!(read("pinned.json"), forked);
}
