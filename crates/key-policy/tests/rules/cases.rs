//! Writes `tests/simulator/cases.json`: random policies, requests, and this crate's answers, for a simulator in another language.
//!
//! `CLEARSEAL_UPDATE=1 cargo test -p key-policy --test rules` writes it.

use crate::evaluate;
use crate::iam::{Decision, Request};
use crate::random::{Kind, Random, hex, policy, requests};
use serde_json::{Value, json};

/// Operations that KMS evaluates without registers.
const OTHERS: &[&str] = &[
    "kms:Encrypt",
    "kms:ReEncryptFrom",
    "kms:PutKeyPolicy",
    "kms:DescribeKey",
];

#[test]
fn the_simulators_cases_are_up_to_date() {
    let requests = requests();
    let mut random = Random(4);
    let cases: Vec<Value> = (0..40)
        .map(|_| {
            let policy = policy(&mut random, Kind::Any);
            let asked: Vec<Value> = (0..6)
                .map(|at| {
                    let mut request = requests[random.below(requests.len())].clone();
                    if at == 5 {
                        request.action = OTHERS[random.below(OTHERS.len())];
                        let register = |key: &String| key.contains("recipientattestation");
                        request.context.retain(|key, _| !register(key));
                    }
                    answer(&policy, &request)
                })
                .collect();
            json!({ "policy": policy, "requests": asked })
        })
        .collect();
    // Shortened: the simulator compares texts of any length.
    let mut text = serde_json::to_string(&cases).unwrap();
    for register in ["0", "1", "4", "7", "8"] {
        for image in ["a", "b", "d", "e", "f", "0"] {
            let byte = format!("{image}{register}");
            text = text.replace(&hex(&byte), &byte);
        }
    }
    let made = text.replace("},{\"policy\"", "},\n{\"policy\"") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulator/cases.json");
    if std::env::var_os("CLEARSEAL_UPDATE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == made,
        "write the cases again: CLEARSEAL_UPDATE=1 cargo test -p key-policy --test rules"
    );
}

fn answer(policy: &Value, request: &Request) -> Value {
    let answer = match evaluate(policy, request).unwrap() {
        Decision::Allow => "Allowed",
        Decision::ExplicitDeny => "ExplicitlyDenied",
        Decision::ImplicitDeny => "ImplicitlyDenied",
    };
    json!({ "action": request.action, "caller": request.caller, "context": request.context, "answer": answer })
}
