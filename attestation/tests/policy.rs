//! Trust policies: what is refused, what survives, and which word each can lead to.

mod common;

use attestation::{Policy, PolicySource};
use common::Scene;
use proptest::prelude::*;
use serde_json::{Value, json};

fn right() -> Value {
    json!({
        "format": "clearseal-trust-policy/1",
        "name": "production",
        "root": "aws-nitro-enclaves-g1",
        "releases": [
            { "name": "0.1.0", "pcrs": { "0": "aa".repeat(48), "1": "bb".repeat(48), "2": "cc".repeat(48) } },
            { "name": "0.0.9", "pcrs": { "8": "dd".repeat(48) }, "not_after": "2027-01-31T00:00:00Z" },
        ],
        "max_age_seconds": 300,
        "clock_skew_seconds": 60,
        "security_mode": "production",
        "policy_version": "2027-01",
        "model": { "id": "all-MiniLM-L6-v2", "sha256": "ee".repeat(32) },
    })
}

fn code(policy: &Value) -> Option<&'static str> {
    Policy::from_json(policy.to_string().as_bytes(), PolicySource::File)
        .err()
        .map(|error| error.code())
}

#[test]
fn a_policy_survives_the_round_trip() {
    let policy = Policy::from_json(right().to_string().as_bytes(), PolicySource::Build).unwrap();
    assert_eq!(
        Policy::from_json(policy.to_json().as_bytes(), PolicySource::Build).unwrap(),
        policy
    );
    assert_eq!(
        serde_json::from_str::<Value>(&policy.to_json()).unwrap(),
        right()
    );
    let development = Scene::new().policy;
    assert_eq!(
        Policy::from_json(development.to_json().as_bytes(), PolicySource::Server).unwrap(),
        development
    );
}

#[test]
fn what_would_accept_anything_is_an_error() {
    for (at, value) in [
        ("/releases", json!([])),
        ("/releases/0/pcrs", json!({})),
        ("/releases/0/pcrs", json!({ "4": "aa".repeat(48) })),
        (
            "/releases/0/pcrs",
            json!({ "1": "aa".repeat(48), "3": "aa".repeat(48) }),
        ),
    ] {
        let mut policy = right();
        *policy.pointer_mut(at).unwrap() = value;
        assert_eq!(code(&policy), Some("POLICY_EMPTY"), "{at}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (at, value) in [
        ("/name", json!("")),
        ("/name", json!("x".repeat(257))),
        ("/releases/0/name", json!("0.0.9")),
        ("/releases/0/pcrs/0", json!("aa".repeat(47))),
        ("/releases/0/pcrs/0", json!("gg".repeat(48))),
        (
            "/releases/0/pcrs",
            json!({ "0": "aa".repeat(48), "32": "aa".repeat(48) }),
        ),
        ("/releases/1/not_after", json!("2027-02-30T00:00:00Z")),
        ("/max_age_seconds", json!(0)),
        ("/max_age_seconds", json!(86_401)),
        ("/clock_skew_seconds", json!(601)),
        ("/model/sha256", json!("ee".repeat(31))),
        ("/root", json!({ "development": "not base64" })),
        ("/root", json!({ "development": "AAAA" })),
    ] {
        let mut policy = right();
        *policy.pointer_mut(at).unwrap() = value;
        assert_eq!(code(&policy), Some("POLICY_INVALID"), "{at}");
    }
}

#[test]
fn whatever_is_unknown_doubled_or_missing_is_refused() {
    for (at, key) in [
        ("", "max_age"),
        ("/releases/0", "pcr"),
        ("/model", "version"),
    ] {
        let mut policy = right();
        policy
            .pointer_mut(at)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .insert(key.to_owned(), json!(1));
        assert_eq!(code(&policy), Some("POLICY_UNREADABLE"), "{at}/{key}");
    }
    for key in ["format", "name", "root", "releases"] {
        let mut policy = right();
        policy.as_object_mut().unwrap().remove(key);
        assert_eq!(code(&policy), Some("POLICY_UNREADABLE"), "{key}");
    }
    for (at, value) in [
        ("/format", json!("clearseal-trust-policy/2")),
        ("/root", json!("aws-nitro-enclaves-g2")),
        ("/security_mode", json!("debug")),
        ("/releases/0/pcrs", json!({ "00": "aa".repeat(48) })),
        ("/releases/0/pcrs", json!({ "PCR0": "aa".repeat(48) })),
        ("/max_age_seconds", json!(-1)),
    ] {
        let mut policy = right();
        *policy.pointer_mut(at).unwrap() = value;
        assert_eq!(code(&policy), Some("POLICY_UNREADABLE"), "{at}");
    }
    let doubled = right().to_string().replacen(
        "\"pcrs\":{",
        &format!("\"pcrs\":{{\"0\":\"{}\",", "00".repeat(48)),
        1,
    );
    let doubled = Policy::from_json(doubled.as_bytes(), PolicySource::File).unwrap_err();
    assert!(doubled.to_string().contains("twice"), "{doubled}");
    let doubled = right()
        .to_string()
        .replacen("\"name\":", "\"name\":\"x\",\"name\":", 1);
    assert!(Policy::from_json(doubled.as_bytes(), PolicySource::File).is_err());
    assert!(Policy::from_json(&vec![b' '; 64 * 1024 + 1], PolicySource::File).is_err());
    assert!(Policy::from_json(b"", PolicySource::File).is_err());
}

proptest! {
    #[test]
    fn any_registers_survive_the_round_trip(
        pcrs in proptest::collection::btree_map(0..32u8, any::<[u8; 16]>(), 1..10),
        age in 1..86_400u64,
        skew in 0..600u64,
    ) {
        let mut policy = right();
        let hex = |value: &[u8; 16]| data_encoding::HEXLOWER.encode(value).repeat(3);
        let mut pcrs: serde_json::Map<_, _> = pcrs.iter().map(|(index, value)| (index.to_string(), json!(hex(value)))).collect();
        pcrs.insert("0".to_owned(), json!("ab".repeat(48)));
        policy["releases"][0]["pcrs"] = pcrs.into();
        policy["max_age_seconds"] = age.into();
        policy["clock_skew_seconds"] = skew.into();
        let read = Policy::from_json(policy.to_string().as_bytes(), PolicySource::File).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&read.to_json()).unwrap(), policy);
    }
}
