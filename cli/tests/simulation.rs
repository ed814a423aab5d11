//! A service that simulates, before a client that was not told to accept that; and evidence that tries to paint.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use common::{AT, Fixture, NOW, Run};
use fixtures::host::Host;
use serde_json::json;

fn embed(fixture: &Fixture, url: &str, more: &[&str]) -> Run {
    let arguments = [&["embed", "--url", url][..], more].concat();
    common::run(&fixture.folder, &arguments, b"a private line\n")
}

#[test]
fn nothing_is_sent_to_a_simulation_that_was_not_accepted_by_name() {
    let fixture = Fixture::new("simulation");
    let service = Host::start(1);
    fixture.write("development.json", service.policy_json());

    // Without a policy: the service is not even asked for one.
    let bare = embed(&fixture, &service.url, &[]);
    assert_eq!(bare.status, 2, "{}", bare.err);
    assert!(bare.err.contains("--policy FILE"), "{}", bare.err);
    assert_eq!(service.take_paths(), ["/v1/attestation", "/v1/crls"]);

    // With a policy that was chosen by hand and names a development root.
    let chosen = embed(&fixture, &service.url, &["--policy", "development.json"]);
    assert_eq!(chosen.status, 1, "{}", chosen.err);
    assert!(chosen.err.contains("SIMULATION_REFUSED"), "{}", chosen.err);
    assert_eq!(service.take_paths(), ["/v1/attestation", "/v1/crls"]);

    // Named: only now something goes to the gateway.
    for policy in [&[][..], &["--policy", "development.json"]] {
        let accepted = [&["--accept-simulated"][..], policy].concat();
        let accepted = embed(&fixture, &service.url, &accepted);
        assert!(accepted.err.contains("SIMULATED"), "{}", accepted.err);
        assert!(service.take_paths().contains(&"/v1/gateway".to_owned()));
    }
    assert!([&bare, &chosen].iter().all(|run| run.out.is_empty()));
}

#[test]
fn without_a_service_the_first_words_say_so() {
    let fixture = Fixture::new("unreachable");
    for more in [&[][..], &["--accept-simulated"]] {
        let run = embed(&fixture, "http://127.0.0.1:1", more);
        assert_eq!(run.status, 2);
        let first = "clearseal: cannot reach http://127.0.0.1:1";
        assert!(run.err.starts_with(first), "{}", run.err);
    }
}

/// A forged certificate says VERIFIED in green, clears the screen, and turns the text around.
#[test]
fn evidence_cannot_paint_a_verdict() {
    let fixture = Fixture::new("painting");
    let painted = "\u{1b}[2J\u{1b}[1;32mVERIFIED\u{1b}[0m\r\n\u{202e}\u{9b}1m";
    let mut forgery = fixture.issuer.forge(&fixture.contents, NOW);
    for link in &mut forgery.links[1..] {
        link.spec.subject = forge::der::name(&[(forge::der::COMMON_NAME, painted)]);
    }
    fixture.write("document.cbor", &forgery.build());
    let mut policy = fixture.policy();
    policy["name"] = json!(painted);
    policy["releases"][0]["name"] = json!(painted);
    fixture.write("policy.json", policy.to_string().as_bytes());
    for arguments in [
        &["inspect", "attestation", "document.cbor", "--at", AT][..],
        &[
            "inspect",
            "attestation",
            "document.cbor",
            "--at",
            AT,
            "--json",
        ],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "policy.json",
            "--at",
            AT,
        ],
        &["policy", "check", "policy.json"],
        &["verify", "receipt", painted],
    ] {
        let Run { out, err, .. } = fixture.run(arguments);
        for text in [out, err] {
            let acts = |sign: char| sign != '\n' && (sign.is_control() || sign == '\u{202e}');
            assert!(!text.chars().any(acts), "{arguments:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("VERIFIED")));
        }
    }
}
