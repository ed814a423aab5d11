//! Compares this crate's evaluator and verifier with a second evaluator, over random policies.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a fixture that cannot be made is a failed test"
)]

mod cases;
mod iam;
mod letters;
mod random;
mod resources;

use attestation::{Policy, UnixMillis};
use iam::{Decision, Request, decide};
use key_policy::{Fact, KeyPolicy, KeyPolicyReport, RowState, Truth, verify};
use random::{KEY, Kind, Random, hex, policy, register, requests};
use serde_json::{Value, json};

/// Release one has PCR0, PCR1 and PCR8; release two has PCR0 and PCR8.
fn trust() -> Policy {
    let json = json!({
        "format": "clearseal-trust-policy/1",
        "name": "test",
        "root": "aws-nitro-enclaves-g1",
        "releases": [
            { "name": "one", "pcrs": { "0": hex("a0"), "1": hex("a1"), "8": hex("a8") } },
            { "name": "two", "pcrs": { "0": hex("b0"), "8": hex("b8") } },
        ],
        "model": { "id": "model", "sha256": "04".repeat(32) },
    });
    Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap()
}

fn must_fail(request: &Request) -> bool {
    let register = |name: &str| request.context.get(&register(name).to_lowercase());
    let is = |name: &str, byte: &str| register(name) == Some(&hex(byte));
    let one = is("PCR0", "a0") && is("PCR1", "a1") && is("PCR8", "a8");
    let two = is("PCR0", "b0") && is("PCR8", "b8") && !is("PCR1", "00");
    !one && !two
}

fn judge(policy: &Value) -> KeyPolicyReport {
    let policy = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
    verify(&policy, &trust(), Some(KEY), UnixMillis(1_800_000_000_000))
}

/// Whether every question about Decrypt passed.
fn closes_decrypt(report: &KeyPolicyReport) -> bool {
    let mut decrypt = report.checks.iter().take(6);
    decrypt.all(|row| row.state == RowState::Passed)
}

/// This crate's answer; `None` where it is *maybe*.
fn evaluate(policy: &Value, request: &Request) -> Option<Decision> {
    let parsed = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
    let facts = request.context.clone().into_iter();
    let outcome = parsed.evaluate(&key_policy::Request {
        action: request.action,
        principal: Some(&request.caller),
        key: Some(&request.key),
        facts: facts.map(|(key, value)| (key, Fact::Is(value))).collect(),
        others: Fact::Absent,
    });
    match (outcome.denied, outcome.allowed) {
        (Truth::Maybe, _) | (_, Truth::Maybe) => None,
        (Truth::Yes, _) => Some(Decision::ExplicitDeny),
        (Truth::No, Truth::Yes) => Some(Decision::Allow),
        (Truth::No, Truth::No) => Some(Decision::ImplicitDeny),
    }
}

#[test]
fn each_request_is_answered_according_to_the_documentation() {
    let requests = requests();
    let mut random = Random(1);
    for _ in 0..300 {
        let json = policy(&mut random, Kind::Any);
        for _ in 0..40 {
            let request = &requests[random.below(requests.len())];
            assert_eq!(
                evaluate(&json, request),
                Some(decide(&json, request)),
                "{json:#}\n{request:#?}"
            );
        }
    }
}

/// Sound: where the verifier finds no counterexample, the Denys refuse every request that must fail, so a grant cannot allow it.
#[test]
fn a_policy_that_holds_denies_every_request_that_must_fail() {
    let requests: Vec<_> = requests().into_iter().filter(must_fail).collect();
    let (mut random, mut held) = (Random(2), 0);
    for _ in 0..600 {
        let json = policy(&mut random, Kind::Any);
        if !closes_decrypt(&judge(&json)) {
            continue;
        }
        held += 1;
        for request in &requests {
            assert_eq!(
                decide(&json, request),
                Decision::ExplicitDeny,
                "{json:#}\n{request:#?}"
            );
        }
    }
    assert!(held > 50, "{held} policies held");
}

/// Exact: where the verifier refuses, some request that must fail is not denied.
#[test]
fn a_policy_that_is_refused_lets_a_request_through() {
    let requests: Vec<_> = requests().into_iter().filter(must_fail).collect();
    let (mut random, mut refused) = (Random(3), 0);
    for _ in 0..1500 {
        let json = policy(&mut random, Kind::Exact);
        let report = judge(&json);
        if closes_decrypt(&report) {
            continue;
        }
        refused += 1;
        assert!(
            requests
                .iter()
                .any(|request| decide(&json, request) != Decision::ExplicitDeny),
            "{json:#}\n{report:#?}"
        );
    }
    assert!(refused > 200, "{refused} policies refused");
}
