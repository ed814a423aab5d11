//! Key policies that compare only some registers of a release, so that another image can decrypt: each is refused, with a request
//! that succeeds.

use attestation::Policy;
use key_policy::Attested;
use serde_json::{Value, json};

use crate::policies::*;

/// The condition of a Deny: the registers have none of these values.
fn other_than(registers: &[(u8, &[&str])]) -> Value {
    let keys: serde_json::Map<String, Value> = registers
        .iter()
        .map(|(index, bytes)| {
            let values: Vec<String> = bytes.iter().map(|byte| hex(byte)).collect();
            (pcr(*index), json!(values))
        })
        .collect();
    json!({ "StringNotEqualsIgnoreCase": keys })
}

fn zero() -> Value {
    json!({ "StringEquals": { pcr(0): hex("00") } })
}

/// Name of the fault, the trust policy, and the conditions of the Denys.
fn siblings() -> Vec<(&'static str, Policy, Vec<Value>)> {
    let image = || trust_of(&[&[(0, "a0"), (1, "a1"), (2, "a2")]]);
    let two = || {
        trust_of(&[
            &[(0, "a0"), (1, "a1"), (2, "a2")],
            &[(0, "b0"), (1, "b1"), (2, "b2")],
        ])
    };
    vec![
        (
            "PCR1 alone: kernel and init",
            image(),
            vec![other_than(&[(1, &["a1"])])],
        ),
        (
            "PCR2 alone: another kernel reads the application",
            image(),
            vec![other_than(&[(2, &["a2"])])],
        ),
        (
            "PCR3 and no zero PCR0: any image under the same role",
            trust_of(&[&[(0, "a0"), (3, "a3")]]),
            vec![other_than(&[(3, &["a3"])]), zero()],
        ),
        (
            "PCR8 and no zero PCR0: any image of the same signer",
            trust_of(&[&[(0, "a0"), (8, "a8")]]),
            vec![other_than(&[(8, &["a8"])]), zero()],
        ),
        (
            "PCR0 and PCR1 in one Deny",
            image(),
            vec![other_than(&[(0, &["a0"]), (1, &["a1"])])],
        ),
        (
            "PCR0 and PCR2 in one Deny",
            image(),
            vec![other_than(&[(0, &["a0"]), (2, &["a2"])])],
        ),
        (
            "all three in one Deny",
            image(),
            vec![other_than(&[(0, &["a0"]), (1, &["a1"]), (2, &["a2"])])],
        ),
        (
            "PCR1, and PCR2, in two Denys",
            image(),
            vec![other_than(&[(1, &["a1"])]), other_than(&[(2, &["a2"])])],
        ),
        (
            "two operators in one Deny",
            image(),
            vec![json!({
                "StringNotEquals": { pcr(0): hex("a0") },
                "StringNotEqualsIgnoreCase": { pcr(1): hex("a1") },
            })],
        ),
        (
            "an operator with IfExists in one Deny",
            image(),
            vec![json!({
                "StringNotEquals": { pcr(0): hex("a0") },
                "StringNotLikeIfExists": { pcr(2): hex("a2") },
            })],
        ),
        (
            "PCR0 by its other name, and PCR1",
            image(),
            vec![json!({ "StringNotEquals": {
                "kms:RecipientAttestation:ImageSha384": hex("a0"),
                pcr(1): hex("a1"),
            } })],
        ),
        (
            "PCR0 and PCR1 of two releases in one Deny",
            two(),
            vec![other_than(&[(0, &["a0", "b0"]), (1, &["a1", "b1"])])],
        ),
        (
            "PCR1 of two releases",
            two(),
            vec![other_than(&[(1, &["a1", "b1"])])],
        ),
        (
            "PCR2 of two releases",
            two(),
            vec![other_than(&[(2, &["a2", "b2"])])],
        ),
        (
            "PCR1 and PCR2 of two releases mixed",
            trust_of(&[&[(1, "a1"), (2, "a2")], &[(1, "b1"), (2, "b2")]]),
            vec![
                other_than(&[(1, &["a1", "b1"])]),
                other_than(&[(2, &["a2", "b2"])]),
            ],
        ),
        (
            "PCR0 of one release with PCR8 of the other",
            trust_of(&[&[(0, "a0"), (8, "a8")], &[(0, "b0"), (8, "b8")]]),
            vec![
                other_than(&[(0, &["a0", "b0"])]),
                other_than(&[(8, &["a8", "b8"])]),
            ],
        ),
        (
            "a register that no release has",
            trust_of(&[&[(0, "a0")]]),
            vec![other_than(&[(1, &["a1"])])],
        ),
        (
            "a release's PCR0 and one that is not released",
            trust_of(&[&[(0, "a0")]]),
            vec![other_than(&[(0, &["a0", "d0"])])],
        ),
        (
            "PCR4 is compared, and may be absent",
            trust_of(&[&[(0, "a0"), (4, "a4")]]),
            vec![
                other_than(&[(0, &["a0"])]),
                json!({ "ForAnyValue:StringNotEquals": { pcr(4): hex("a4") } }),
            ],
        ),
        (
            "one caller is spared",
            trust_of(&[&[(0, "a0")]]),
            vec![json!({
                "StringNotEquals": { pcr(0): hex("a0") },
                "ArnNotLike": { "aws:PrincipalArn": "arn:aws:iam::111122223333:role/break-glass*" },
            })],
        ),
        (
            "one encryption context is spared",
            trust_of(&[&[(0, "a0")]]),
            vec![json!({
                "StringNotEquals": { pcr(0): hex("a0"), "kms:EncryptionContext:purpose": "backup" },
            })],
        ),
        (
            "an encryption context that differs in case is spared",
            trust_of(&[&[(0, "a0")]]),
            vec![
                json!({
                    "StringNotEquals": { pcr(0): hex("a0") },
                    "StringNotEqualsIgnoreCase": { "kms:EncryptionContext:purpose": "backup" },
                }),
                json!({
                    "StringNotEquals": { pcr(0): hex("a0") },
                    "StringEquals": { "kms:EncryptionContext:purpose": "backup" },
                }),
            ],
        ),
        (
            "NitroTPM is spared",
            trust_of(&[&[(0, "a0")]]),
            vec![json!({
                "StringNotEquals": { pcr(0): hex("a0") },
                "Null": { "kms:RecipientAttestation:NitroTPMPCR4": "true" },
            })],
        ),
    ]
}

#[test]
fn a_policy_that_lets_another_image_decrypt_is_refused_with_a_request() {
    for (name, trust, conditions) in siblings() {
        let report = judge_by(&trust, &denying(&conditions));
        assert!(!report.holds, "{name}");
        let failed: Vec<_> = report
            .checks
            .iter()
            .filter(|row| row.code.is_some())
            .collect();
        assert!(
            failed
                .iter()
                .all(|row| row.example.is_some() && !row.bypasses.is_empty()),
            "{name}: {failed:#?}"
        );
    }
}

#[test]
fn the_example_names_the_register_in_which_the_image_differs() {
    let (_, trust, conditions) = siblings().swap_remove(0);
    let report = judge_by(&trust, &denying(&conditions));
    let row = report
        .checks
        .iter()
        .find(|row| row.code == Some("OTHER_IMAGE_DECRYPT"))
        .unwrap();
    let example = row.example.as_ref().unwrap();
    assert_eq!(
        (example.action, example.attested),
        ("kms:Decrypt", Attested::Enclave)
    );
    assert_eq!(example.facts["PCR1"], hex("a1"));
    assert_eq!(example.facts["PCR0"], "a value that is not named");
    assert!(ways(&report).contains("DENY_SPARES_REGISTERS"));
}

#[test]
fn registers_that_one_deny_joins_are_named_as_the_fault() {
    for (name, trust, conditions) in siblings() {
        if name.ends_with("in one Deny") {
            let report = judge_by(&trust, &denying(&conditions));
            assert!(ways(&report).contains("DENY_ANDS_REGISTERS"), "{name}");
        }
    }
}

/// A Deny compares each of twenty keys of the encryption context, and the last Deny applies where none of them did. The policy is
/// safe, but showing it would take a million requests.
#[test]
fn a_policy_that_is_undecided_within_the_bound_is_refused() {
    let key = |n: u8| format!("kms:EncryptionContext:{n}");
    let mut none = serde_json::Map::from_iter([(pcr(0), json!(hex("a0")))]);
    let mut conditions = Vec::new();
    for n in 0..20 {
        none.insert(key(n), json!("x"));
        conditions.push(json!({
            "StringNotEquals": { pcr(0): hex("a0") },
            "StringEquals": { key(n): "x" },
        }));
    }
    conditions.push(json!({ "StringNotEquals": none }));
    let report = judge_by(&trust_of(&[&[(0, "a0")]]), &denying(&conditions));
    assert!(!report.holds);
    assert_eq!(report.checks[0].code, Some("NOT_DECIDED"));
}

/// `tests/simulator/holes.json`: these policies, each with the request that succeeds, for a simulator in another language.
/// `CLEARSEAL_UPDATE=1 cargo test -p key-policy --test holes` writes it.
#[test]
fn the_simulators_holes_are_up_to_date() {
    let cases: Vec<Value> = siblings()
        .into_iter()
        .map(|(name, trust, conditions)| {
            let policy = denying(&conditions);
            let report = judge_by(&trust, &policy);
            let example = report
                .checks
                .into_iter()
                .find_map(|row| row.example)
                .unwrap();
            let context: serde_json::Map<String, Value> = example
                .facts
                .into_iter()
                .filter(|(_, value)| value != "absent")
                .flat_map(|(key, value)| {
                    let value = match (value.as_str(), key.as_str()) {
                        ("a value that is not named", "aws:principalarn") => {
                            "arn:aws:iam::111122223333:role/break-glass-1".to_owned()
                        }
                        ("a value that is not named", _) => hex("f0"),
                        _ => value,
                    };
                    let register = |name: &str| format!("kms:RecipientAttestation:{name}");
                    let keys = match key.as_str() {
                        "PCR0" => vec![register("PCR0"), register("ImageSha384")],
                        other if other.contains(':') => vec![key],
                        other => vec![register(other)],
                    };
                    keys.into_iter().map(move |key| (key, json!(value)))
                })
                .collect();
            json!({ "name": name, "policy": policy, "action": example.action, "context": context })
        })
        .collect();
    let made = serde_json::to_string_pretty(&cases).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulator/holes.json");
    if std::env::var_os("CLEARSEAL_UPDATE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == made,
        "write the holes again: CLEARSEAL_UPDATE=1 cargo test -p key-policy --test holes"
    );
}
