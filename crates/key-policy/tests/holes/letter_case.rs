//! Denys that compare one key of the encryption context, some with case and some without: refused where a value matches none of
//! them, or where that depends on letters outside ASCII.

use serde_json::{Map, Value, json};

use crate::policies::*;

/// Denys of other images, each for these values of the encryption context.
fn deny_for(conditions: &[(&str, Value)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(operator, values)| {
            let mut block =
                Map::from_iter([("StringNotEquals".to_owned(), json!({ pcr(0): hex("a0") }))]);
            let keys = block.entry(*operator).or_insert_with(|| json!({}));
            keys["kms:EncryptionContext:purpose"] = values.clone();
            Value::Object(block)
        })
        .collect();
    denying(&conditions)
}

#[test]
fn a_value_that_matches_no_deny_refuses_the_policy() {
    let not_ignoring = |value: &str| ("StringNotEqualsIgnoreCase", json!(value));
    for (name, conditions) in [
        (
            "mixed case",
            [not_ignoring("ab"), ("StringEquals", json!(["ab", "AB"]))],
        ),
        (
            "the last of four forms",
            [
                not_ignoring("ab"),
                ("StringEquals", json!(["ab", "AB", "Ab"])),
            ],
        ),
        (
            "a pattern that tells forms apart",
            [not_ignoring("ab"), ("StringLike", json!(["a?", "?B"]))],
        ),
        (
            "the Kelvin sign",
            [not_ignoring("k"), ("StringEquals", json!(["k", "K"]))],
        ),
        (
            "the long s, and not the first of two",
            [
                not_ignoring("ss"),
                (
                    "StringEquals",
                    json!(["ss", "sS", "Ss", "SS", "\u{17f}s", "\u{17f}S"]),
                ),
            ],
        ),
        (
            "a letter outside ASCII",
            [not_ignoring("\u{e9}"), ("StringEquals", json!("\u{e9}"))],
        ),
        (
            "an empty value, with a quantifier",
            [
                ("ForAnyValue:StringNotEquals", json!("ab")),
                ("ForAnyValue:StringEquals", json!("ab")),
            ],
        ),
        (
            "two pairs, with a quantifier",
            [
                ("ForAllValues:StringNotEquals", json!("ab")),
                ("ForAllValues:StringEquals", json!("ab")),
            ],
        ),
        (
            "a text that is not an ARN",
            [
                ("ArnNotEquals", json!("arn:aws:iam::111122223333:role/a")),
                ("ArnEquals", json!("arn:aws:iam::111122223333:role/a")),
            ],
        ),
        (
            "a text that is not a Boolean",
            [("Bool", json!("true")), ("Bool", json!("false"))],
        ),
        (
            "a text that is not a number",
            [
                ("NumericEquals", json!("1")),
                ("NumericNotEquals", json!("1")),
            ],
        ),
        (
            "a text that is not an address",
            [
                ("IpAddress", json!("10.0.0.0/8")),
                ("NotIpAddress", json!("10.0.0.0/8")),
            ],
        ),
        (
            "a text that is not a date",
            [
                ("DateLessThan", json!("2027-01-01T00:00:00Z")),
                ("DateGreaterThanEquals", json!("2027-01-01T00:00:00Z")),
            ],
        ),
    ] {
        let report = judge_by(&trust_of(&[&[(0, "a0")]]), &deny_for(&conditions));
        assert!(!report.holds, "{name}");
    }
}

#[test]
fn the_example_has_a_form_that_is_not_listed() {
    let report = judge_by(
        &trust_of(&[&[(0, "a0")]]),
        &deny_for(&[
            ("StringNotEqualsIgnoreCase", json!("ab")),
            ("StringEquals", json!(["ab", "AB", "Ab"])),
        ]),
    );
    let example = report.checks.iter().find_map(|row| row.example.as_ref());
    assert_eq!(
        example.unwrap().facts["kms:encryptioncontext:purpose"],
        "aB"
    );
}

/// Each form of the value matches a Deny, whether or not letters outside ASCII are compared without case.
#[test]
fn denys_of_every_form_hold() {
    for conditions in [
        [
            ("StringNotEqualsIgnoreCase", json!("ab")),
            ("StringEquals", json!(["ab", "AB", "Ab", "aB"])),
        ],
        [
            ("StringNotEqualsIgnoreCase", json!("backup")),
            ("StringEqualsIgnoreCase", json!("BackUp")),
        ],
        [
            ("StringNotEqualsIgnoreCase", json!("\u{e9}")),
            ("StringEqualsIgnoreCase", json!("\u{e9}")),
        ],
        [
            ("StringNotEquals", json!("\u{e9}")),
            ("StringLike", json!("*")),
        ],
        [("Null", json!("true")), ("StringLike", json!("*"))],
    ] {
        let report = judge_by(&trust_of(&[&[(0, "a0")]]), &deny_for(&conditions));
        assert!(report.holds, "{conditions:?}: {report:#?}");
    }
}
