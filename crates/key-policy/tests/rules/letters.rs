//! Compares the verdict with every request of a small alphabet: operators that ignore case, patterns and exact comparisons meet on
//! one key of the encryption context.

use crate::iam::{Decision, Request, decide};
use crate::random::{KEY, ROLE, Random, hex, register};
use crate::{closes_decrypt, judge, must_fail};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const PURPOSE: &str = "kms:EncryptionContext:purpose";
const LETTERS: [char; 4] = ['a', 'A', 'b', 'B'];

/// Every text of at most three letters.
fn texts() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..3 {
        last = last
            .iter()
            .flat_map(|text| LETTERS.map(|letter| format!("{text}{letter}")))
            .collect();
        all.extend(last.clone());
    }
    all
}

/// Every Decrypt that must fail: without attestation, and from an enclave with another image, with each encryption context.
fn requests() -> Vec<Request> {
    let mut requests = Vec::new();
    for image in [None, Some("f0")] {
        for purpose in texts().into_iter().map(Some).chain([None]) {
            let mut context = BTreeMap::new();
            if let Some(image) = image {
                for name in ["pcr0", "imagesha384"] {
                    context.insert(register(name).to_lowercase(), hex(image));
                }
            }
            if let Some(purpose) = purpose {
                context.insert(PURPOSE.to_lowercase(), purpose);
            }
            requests.push(Request {
                action: "kms:Decrypt",
                caller: ROLE.into(),
                key: KEY.into(),
                context,
            });
        }
    }
    requests
}

/// Denys of unknown images, each for some values of the encryption context, and an Allow.
fn policy(random: &mut Random) -> Value {
    let mut statements = vec![json!({
        "Effect": "Allow", "Principal": { "AWS": ROLE }, "Action": "kms:Decrypt", "Resource": "*",
    })];
    for _ in 0..2 + random.below(3) {
        let mut block: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for _ in 0..[1, 1, 1, 2][random.below(4)] {
            let (operator, values) = condition(random);
            block
                .entry(operator)
                .or_default()
                .insert(PURPOSE.into(), values);
        }
        block
            .entry("StringNotEqualsIgnoreCase".into())
            .or_default()
            .insert(register("PCR0"), json!([hex("a0"), hex("b0")]));
        statements.push(json!({
            "Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Resource": "*", "Condition": block,
        }));
    }
    for (own, other) in [("a0", "a8"), ("b0", "b8")] {
        statements.push(json!({
            "Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Resource": "*",
            "Condition": {
                "StringEquals": { register("PCR0"): hex(own) },
                "StringNotEqualsIgnoreCase": { register("PCR8"): hex(other) },
            },
        }));
    }
    json!({ "Version": "2012-10-17", "Statement": statements })
}

fn condition(random: &mut Random) -> (String, Value) {
    if random.below(6) == 0 {
        return ("Null".into(), json!(["true", "false"][random.below(2)]));
    }
    let quantifier = ["", "", "", "", "ForAnyValue:", "ForAllValues:"][random.below(6)];
    let operator = [
        "StringEquals",
        "StringNotEquals",
        "StringEqualsIgnoreCase",
        "StringNotEqualsIgnoreCase",
        "StringLike",
        "StringNotLike",
    ][random.below(6)];
    let if_exists = ["", "", "IfExists"][random.below(3)];
    let patterns: &[&str] = if operator.ends_with("Like") && random.below(2) == 0 {
        &["*", "?", "??", "a*", "*B", "?b", "A?"]
    } else {
        &[]
    };
    // All forms of one text are listed often, because that is where a Deny leaves nothing over.
    let sets: &[&[&str]] = &[
        &["a"],
        &["a", "A"],
        &["ab"],
        &["ab", "AB"],
        &["ab", "aB", "Ab", "AB"],
        &["b", "ab"],
        &["aba", "ABA", "aBa"],
    ];
    let mut values = sets[random.below(sets.len())].to_vec();
    if !patterns.is_empty() {
        values.push(patterns[random.below(patterns.len())]);
    }
    (format!("{quantifier}{operator}{if_exists}"), json!(values))
}

#[test]
fn no_request_of_a_small_alphabet_bypasses_a_policy_that_holds() {
    let requests = requests();
    assert!(requests.iter().all(must_fail));
    let (mut random, mut held, mut case_decides) = (Random(5), 0, 0);
    for _ in 0..1500 {
        let json = policy(&mut random);
        if !closes_decrypt(&judge(&json)) {
            continue;
        }
        held += 1;
        case_decides += usize::from(json.to_string().contains("EqualsIgnoreCase\":{\"kms:Enc"));
        for request in &requests {
            assert_eq!(
                decide(&json, request),
                Decision::ExplicitDeny,
                "{json:#}\n{request:#?}"
            );
        }
    }
    assert!(held > 40, "{held} policies held");
    assert!(case_decides > 10, "{case_decides} of them ignore case");
}
