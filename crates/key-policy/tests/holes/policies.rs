//! A trust policy, the key policy that is written from it, and functions that change it.

use std::collections::BTreeSet;

use attestation::{Policy, UnixMillis};
use key_policy::{Deployment, KeyPolicy, KeyPolicyReport, RowState, verify, write};
use serde_json::{Value, json};

pub(crate) const AT: UnixMillis = UnixMillis(1_800_000_000_000);
pub(crate) const KEY: &str =
    "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
pub(crate) const PARENT: &str = "arn:aws:iam::111122223333:role/clearseal-parent";

pub(crate) fn deployment() -> Deployment<'static> {
    Deployment {
        parent: PARENT,
        sealer: Some("arn:aws:iam::111122223333:role/clearseal-sealer"),
        keeper: Some("arn:aws:iam::111122223333:role/clearseal-keeper"),
    }
}

pub(crate) fn hex(byte: &str) -> String {
    byte.repeat(48)
}

/// Two releases, of which the second also pins the signer and ends, and one that has ended.
pub(crate) fn trust_json() -> Value {
    json!({
        "format": "clearseal-trust-policy/1",
        "name": "test",
        "root": "aws-nitro-enclaves-g1",
        "releases": [
            { "name": "one", "pcrs": { "0": hex("a0"), "1": hex("a1"), "2": hex("a2") } },
            { "name": "two", "pcrs": { "0": hex("b0"), "8": hex("b8") }, "not_before": "2026-01-01T00:00:00Z", "not_after": "2027-06-01T00:00:00Z" },
            { "name": "ended", "pcrs": { "0": hex("c0") }, "not_after": "2026-06-01T00:00:00Z" },
        ],
        "model": { "id": "model", "sha256": "04".repeat(32) },
    })
}

pub(crate) fn trust() -> Policy {
    Policy::chosen_by_hand(trust_json().to_string().as_bytes()).unwrap()
}

pub(crate) fn written() -> Value {
    serde_json::from_str(&write(&trust(), deployment(), AT).unwrap()).unwrap()
}

pub(crate) fn judge(policy: &Value) -> KeyPolicyReport {
    let policy = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
    verify(&policy, &trust(), Some(KEY), AT)
}

/// A trust policy with releases of these registers.
pub(crate) fn trust_of(releases: &[&[(u8, &str)]]) -> Policy {
    let releases: Vec<Value> = releases
        .iter()
        .enumerate()
        .map(|(at, pcrs)| {
            let pcrs: serde_json::Map<String, Value> = pcrs
                .iter()
                .map(|(index, byte)| (index.to_string(), json!(hex(byte))))
                .collect();
            json!({ "name": format!("release {at}"), "pcrs": pcrs })
        })
        .collect();
    let mut trust = trust_json();
    trust["releases"] = json!(releases);
    Policy::chosen_by_hand(trust.to_string().as_bytes()).unwrap()
}

/// A key policy of three parts: Denys about attestation with `conditions`, the Deny that protects the key's policy, and an Allow
/// for the parent, so that the Denys decide.
pub(crate) fn denying(conditions: &[Value]) -> Value {
    let mut statements: Vec<Value> = conditions
        .iter()
        .map(|condition| json!({ "Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Resource": "*", "Condition": condition }))
        .collect();
    statements.push(find(&mut written(), "DenyWaysAround").clone());
    statements.push(allow(&json!({ "Principal": { "AWS": PARENT } })));
    json!({ "Version": "2012-10-17", "Statement": statements })
}

pub(crate) fn pcr(index: u8) -> String {
    format!("kms:RecipientAttestation:PCR{index}")
}

pub(crate) fn judge_by(trust: &Policy, policy: &Value) -> KeyPolicyReport {
    let policy = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
    verify(&policy, trust, Some(KEY), AT)
}

pub(crate) fn ways(report: &KeyPolicyReport) -> BTreeSet<&'static str> {
    let failed = report
        .checks
        .iter()
        .filter(|row| row.state == RowState::Failed);
    failed
        .flat_map(|row| row.bypasses.iter().map(|way| way.code.code()))
        .collect()
}

pub(crate) fn codes(report: &KeyPolicyReport) -> Vec<&'static str> {
    let failed = report
        .checks
        .iter()
        .filter(|row| row.state == RowState::Failed);
    failed.filter_map(|row| row.code).collect()
}

pub(crate) fn find<'a>(policy: &'a mut Value, sid: &str) -> &'a mut Value {
    let statements = policy["Statement"].as_array_mut().unwrap();
    statements
        .iter_mut()
        .find(|statement| statement["Sid"] == sid)
        .unwrap()
}

pub(crate) fn add(policy: &mut Value, statement: Value) {
    policy["Statement"].as_array_mut().unwrap().push(statement);
}

pub(crate) fn remove(policy: &mut Value, sid: &str) {
    policy["Statement"]
        .as_array_mut()
        .unwrap()
        .retain(|statement| statement["Sid"] != sid);
}

pub(crate) fn allow(extra: &Value) -> Value {
    let mut statement = json!({ "Sid": "Hole", "Effect": "Allow", "Principal": { "AWS": "arn:aws:iam::111122223333:role/other" }, "Action": "kms:Decrypt", "Resource": "*" });
    for (name, value) in extra.as_object().unwrap() {
        if value.is_null() {
            statement.as_object_mut().unwrap().remove(name);
        } else {
            statement[name] = value.clone();
        }
    }
    statement
}
