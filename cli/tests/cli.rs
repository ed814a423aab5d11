//! The program as a user runs it: exit status, JSON, and that a wrong question is not an answer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{AT, Fixture, NONCE, NOW, run};
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

fn row(report: &Value, id: u64) -> &Value {
    report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == id)
        .unwrap()
}

#[test]
fn inspect_says_whether_a_document_is_authentic() {
    let fixture = Fixture::new("inspect");
    let inspected = fixture.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--root",
        "root.der",
        "--at",
        "document",
        "--json",
    ]);
    assert_eq!(inspected.status, 0, "{}", inspected.err);
    let report = inspected.json();
    assert_eq!(report["verdict"], "authentic");
    assert_eq!(report["code"], Value::Null);
    for id in 1..=21 {
        assert_eq!(row(&report, id)["state"], "passed", "check {id}");
    }
    assert_eq!(row(&report, 22)["state"], "skipped");

    let under_aws = fixture.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--at",
        "document",
        "--json",
    ]);
    assert_eq!(
        (under_aws.status, &under_aws.json()["verdict"]),
        (1, &json!("refused"))
    );

    let text = fixture.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--root",
        "root.der",
        "--at",
        AT,
    ]);
    assert_eq!(text.status, 0);
    assert!(
        text.out
            .starts_with("AUTHENTIC (image, age or keys not judged)"),
        "{}",
        text.out
    );
    assert!(!text.out.contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn verify_judges_image_age_and_nonce() {
    let fixture = Fixture::new("verify");
    let nonce = hex(&NONCE);
    let base = [
        "verify",
        "attestation",
        "document.cbor",
        "--policy",
        "policy.json",
        "--json",
        "--at",
    ];
    let verify = |rest: &[&str]| fixture.run(&[&base[..], rest].concat());

    let simulated = verify(&["document", "--nonce", &nonce]);
    assert_eq!(
        (simulated.status, &simulated.json()["verdict"]),
        (1, &json!("simulated"))
    );
    assert_eq!(
        verify(&["document", "--nonce", &nonce, "--accept-simulated"]).status,
        0
    );

    for (arguments, code) in [
        (
            vec!["document", "--nonce", "00112233445566778899aabbccddeeff"],
            "NONCE_MISMATCH",
        ),
        (vec!["2027-01-15T08:05:01Z"], "DOCUMENT_STALE"),
        (vec!["2027-01-15T07:58:59Z"], "CERTIFICATE_NOT_YET_VALID"),
        (vec!["2028-01-15T08:00:00Z"], "CERTIFICATE_EXPIRED"),
    ] {
        let refused = verify(&arguments);
        assert_eq!(refused.status, 1);
        assert_eq!(refused.json()["code"], code, "{arguments:?}");
    }

    let mut other = fixture.policy();
    other["releases"][0]["pcrs"]["1"] = json!("11".repeat(48));
    fixture.write("policy.json", other.to_string().as_bytes());
    let refused = verify(&["document"]);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (1, &json!("PCR_MISMATCH"))
    );
    assert_eq!(row(&refused.json(), 22)["state"], "failed");
    assert_eq!(row(&refused.json(), 25)["state"], "not-run");
}

#[test]
fn debug_mode_is_reported_and_never_verified() {
    let mut fixture = Fixture::new("debug");
    for index in 0..3 {
        fixture.contents.pcrs.insert(index, [0; 48]);
    }
    fixture.write(
        "document.cbor",
        &fixture.issuer.forge(&fixture.contents, NOW).build(),
    );
    let inspected = fixture.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--root",
        "root.der",
        "--at",
        AT,
        "--json",
    ]);
    assert_eq!(
        (inspected.status, &inspected.json()["document"]["debug"]),
        (0, &json!(true))
    );
    let verified = fixture.run(&[
        "verify",
        "attestation",
        "document.cbor",
        "--policy",
        "policy.json",
        "--at",
        AT,
        "--accept-simulated",
        "--json",
    ]);
    assert_eq!(
        (verified.status, &verified.json()["code"]),
        (1, &json!("DEBUG_MODE"))
    );
}

#[test]
fn files_come_raw_in_hex_in_base64_and_on_standard_input() {
    let fixture = Fixture::new("encodings");
    let document = std::fs::read(fixture.folder.join("document.cbor")).unwrap();
    for text in [hex(&document), Base64::encode_string(&document) + "\n"] {
        fixture.write("text", text.as_bytes());
        assert_eq!(
            fixture
                .run(&[
                    "inspect",
                    "attestation",
                    "text",
                    "--root",
                    "root.der",
                    "--at",
                    AT
                ])
                .status,
            0
        );
    }
    let arguments = [
        "inspect",
        "attestation",
        "-",
        "--root",
        "root.der",
        "--at",
        AT,
    ];
    assert_eq!(run(&fixture.folder, &arguments, &document).status, 0);
}

#[test]
fn a_policy_is_explained_in_plain_words() {
    let fixture = Fixture::new("policy");
    let mut policy = fixture.policy();
    policy["not_after"] = json!("2027-01-20T00:00:00Z");
    policy["releases"][0]["not_after"] = json!("2027-01-16T00:00:00Z");
    let mut next = policy["releases"][0].clone();
    next["name"] = json!("two");
    next["not_before"] = json!("2027-01-15T12:00:00Z");
    next["not_after"] = Value::Null;
    next["pcrs"] = json!({ "0": "ab".repeat(48) });
    policy["releases"].as_array_mut().unwrap().push(next);
    fixture.write("roll-out.json", policy.to_string().as_bytes());

    let check = |at: &str, more: &[&str]| {
        fixture.run(&[&["policy", "check", "roll-out.json", "--at", at][..], more].concat())
    };
    let before = check(AT, &[]);
    assert_eq!(before.status, 0, "{}{}", before.out, before.err);
    for words in [
        "USABLE  policy test",
        "can be simulated at best",
        "the policy ends 2027-01-20T00:00:00Z",
        "accepted now  one  until 2027-01-16T00:00:00Z",
        "pinned: PCR0, PCR1, PCR2; open: PCR8",
        "not yet       two  from 2027-01-15T12:00:00Z until 2027-01-20T00:00:00Z",
        "pinned: PCR0; open: PCR1, PCR2, PCR8",
        "documents at most 300 s old, clocks at most 60 s apart",
        "ENDS_SOON  Nothing is accepted any more in 4 days.",
        "PINS_ONE_REGISTER",
        "DEVELOPMENT_ROOT",
        "BINDS_NO_SERVICE",
    ] {
        assert!(before.out.contains(words), "{words}: {}", before.out);
    }
    let overlap = check("2027-01-15T12:00:00Z", &["--json"]).json();
    assert_eq!(overlap["usable"], true);
    assert_eq!(overlap["releases"][0]["accepted"], "now");
    assert_eq!(overlap["releases"][1]["accepted"], "now");
    let over = check("2027-01-20T00:00:00.001Z", &["--json"]);
    assert_eq!(over.status, 1);
    assert_eq!(over.json()["warnings"][0]["code"], "POLICY_EXPIRED");

    policy["releases"][1]["pcr"] = json!({});
    fixture.write("unknown.json", policy.to_string().as_bytes());
    let unknown = fixture.run(&["policy", "check", "unknown.json"]);
    assert_eq!(unknown.status, 1);
    assert!(
        unknown.out.contains("REFUSED  POLICY_UNREADABLE"),
        "{}",
        unknown.out
    );
    assert!(
        unknown.out.contains("releases[1].pcr is not a key"),
        "{}",
        unknown.out
    );
    let unknown = fixture.run(&["policy", "check", "unknown.json", "--json"]);
    assert_eq!(
        (unknown.status, unknown.json()["usable"].clone()),
        (1, json!(false))
    );
    for arguments in [
        &["policy", "check", "absent.json"][..],
        &["policy", "check", "roll-out.json", "--at", "document"],
        &["policy"],
    ] {
        assert_eq!(fixture.run(arguments).status, 2, "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_judged_exits_with_two() {
    let fixture = Fixture::new("unjudged");
    fixture.write("empty.json", br#"{"format":"clearseal-trust-policy/1"}"#);
    for arguments in [
        &[][..],
        &["inspect"],
        &["inspect", "attestation", "absent"],
        &[
            "inspect",
            "attestation",
            "document.cbor",
            "--at",
            "yesterday",
        ],
        &[
            "inspect",
            "attestation",
            "document.cbor",
            "--root",
            "document.cbor",
        ],
        &["verify", "attestation", "document.cbor"],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "absent",
        ],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "empty.json",
        ],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "policy.json",
            "--nonce",
            "xyz",
        ],
        &["verify", "receipt", "document.cbor"],
        &["verify", "receipt", "document.cbor", "--key", "00"],
        &["embed", "--url", "http://127.0.0.1:1"],
    ] {
        let run = fixture.run(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}", run.out);
        assert!(run.out.is_empty() && !run.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let fixture = Fixture::new("manual");
    for shell in ["bash", "zsh", "fish"] {
        let completions = fixture.run(&["completions", shell]);
        assert_eq!(completions.status, 0, "{}", completions.err);
        for command in ["inspect", "verify", "embed", "proxy", "kms-policy"] {
            assert!(completions.out.contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(fixture.run(&["manual", "pages"]).status, 0);
    for (page, name) in [
        ("clearseal.1", "clearseal"),
        ("clearseal-embed.1", "--accept-simulated"),
        ("clearseal-verify-vector.1", "--policy"),
    ] {
        let text = std::fs::read_to_string(fixture.folder.join("pages").join(page)).unwrap();
        assert!(text.replace('\\', "").contains(name), "{page}");
    }
}
