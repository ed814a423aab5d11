//! Key policies: written from a trust policy, and judged against one.

use crate::common;
use common::{AT, Fixture};
use serde_json::{Value, json};

const ROLE: &str = "arn:aws:iam::111122223333:role/parent";

fn fixture(name: &str) -> Fixture {
    let fixture = Fixture::new(name);
    let mut policy = fixture.policy();
    policy["root"] = "aws-nitro-enclaves-g1".into();
    policy["model"] = json!({ "id": "model", "sha256": "04".repeat(32) });
    fixture.write("trust.json", policy.to_string().as_bytes());
    fixture
}

#[test]
fn what_is_written_holds_and_a_careless_change_is_refused() {
    let fixture = fixture("kms-policy");
    let written = fixture.run(&[
        "policy",
        "kms",
        "--policy",
        "trust.json",
        "--role",
        ROLE,
        "--at",
        AT,
    ]);
    assert_eq!(written.status, 0, "{}", written.err);
    fixture.write("key.json", written.out.as_bytes());
    let verify = |file: &str| {
        fixture.run(&[
            "verify",
            "kms-policy",
            file,
            "--policy",
            "trust.json",
            "--at",
            AT,
            "--json",
        ])
    };
    let held = verify("key.json");
    assert_eq!(
        (held.status, held.json()["holds"].clone()),
        (0, json!(true))
    );

    let mut policy: Value = serde_json::from_str(&written.out).unwrap();
    policy["Statement"][0]["Principal"] = json!({ "AWS": ROLE });
    fixture.write("hole.json", policy.to_string().as_bytes());
    let refused = verify("hole.json");
    assert_eq!(refused.status, 1);
    assert_eq!(refused.json()["checks"][0]["code"], "UNATTESTED_DECRYPT");
    assert_eq!(
        refused.json()["checks"][0]["ways"][0]["code"],
        "DENY_SPARES_PRINCIPALS"
    );

    fixture.write("other.json", b"{\"Version\":\"2012-10-17\",\"Comment\":1}");
    let unreadable = verify("other.json");
    assert_eq!(
        (unreadable.status, unreadable.json()["code"].clone()),
        (1, json!("KEY_POLICY_UNREADABLE"))
    );
    assert_eq!(verify("absent.json").status, 2);
}

#[test]
fn only_a_role_can_be_named() {
    let fixture = fixture("kms-roles");
    for role in [
        "*",
        "arn:aws:iam::111122223333:root",
        "arn:aws:iam::111122223333:role/*",
        "111122223333",
    ] {
        let run = fixture.run(&[
            "policy",
            "kms",
            "--policy",
            "trust.json",
            "--role",
            role,
            "--at",
            AT,
        ]);
        assert_eq!(run.status, 2, "{role}");
    }
}

#[test]
fn a_partial_comparison_is_refused_with_a_request_that_gets_through() {
    let fixture = fixture("kms-partial");
    let mut trust = fixture.policy();
    trust["root"] = "aws-nitro-enclaves-g1".into();
    let pcr = |byte: &str| byte.repeat(48);
    trust["releases"] =
        json!([{ "name": "one", "pcrs": { "0": pcr("a0"), "1": pcr("a1"), "2": pcr("a2") } }]);
    fixture.write("trust.json", trust.to_string().as_bytes());
    let deny = |action: Value, condition: Value| json!({ "Effect": "Deny", "Principal": "*", "Action": action, "Resource": "arn:aws:kms:*:*:key/*", "Condition": condition });
    let attested = json!({ "StringNotEquals": { "kms:RecipientAttestation:PCR1": pcr("a1") } });
    let allow = json!({ "Effect": "Allow", "Principal": { "AWS": ROLE }, "Action": "kms:*", "Resource": "*" });
    let policy = json!({ "Statement": [deny(json!("kms:*"), attested), allow] });
    fixture.write("key.json", policy.to_string().as_bytes());
    let verify = |more: &[&str]| {
        let mut arguments = vec![
            "verify",
            "kms-policy",
            "key.json",
            "--policy",
            "trust.json",
            "--at",
            AT,
        ];
        arguments.extend(more);
        fixture.run(&arguments)
    };
    let refused = verify(&[]);
    assert_eq!(refused.status, 1, "{}", refused.err);
    for words in [
        "OTHER_IMAGE_DECRYPT",
        "DENY_SPARES_REGISTERS",
        "for example kms:Decrypt from an enclave, with PCR0: a value that is not named",
    ] {
        assert!(refused.out.contains(words), "{words}: {}", refused.out);
    }

    let held = policy
        .to_string()
        .replace("PCR1", "PCR0")
        .replace(&pcr("a1"), &pcr("a0"));
    fixture.write("key.json", held.as_bytes());
    assert_eq!(verify(&[]).status, 0, "{}", verify(&[]).out);
    let key = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    assert_eq!(verify(&["--key-arn", key]).status, 0);
    let alias = verify(&[
        "--key-arn",
        "arn:aws:kms:eu-central-1:111122223333:alias/key",
    ]);
    assert_eq!(alias.status, 2);
    assert!(
        alias.err.contains("is not the ARN of a key"),
        "{}",
        alias.err
    );
}

#[test]
fn an_instance_with_nitrotpm_is_written_and_judged() {
    let fixture = fixture("kms-instance");
    let pcr = |byte: &str| byte.repeat(48);
    let measurements = json!({ "Measurements": { "HashAlgorithm": "SHA384 { ... }", "PCR4": pcr("e4"), "PCR7": pcr("e7"), "PCR12": pcr("00") } });
    fixture.write("instance.json", measurements.to_string().as_bytes());
    let written = fixture.run(&[
        "policy",
        "kms",
        "--policy",
        "trust.json",
        "--role",
        ROLE,
        "--instance",
        "instance.json",
        "--at",
        AT,
    ]);
    assert_eq!(written.status, 0, "{}", written.err);
    fixture.write("key.json", written.out.as_bytes());
    let verify = |more: &[&str]| {
        let mut arguments = vec![
            "verify",
            "kms-policy",
            "key.json",
            "--policy",
            "trust.json",
            "--json",
            "--at",
            AT,
        ];
        arguments.extend(more);
        fixture.run(&arguments)
    };
    assert_eq!(verify(&["--instance", "instance.json"]).status, 0);
    let refused = verify(&[]);
    assert_eq!(refused.status, 1);
    let checks = refused.json()["checks"].clone();
    let failed = checks
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["state"] == "failed")
        .unwrap();
    assert_eq!(failed["code"], "OTHER_INSTANCE_DECRYPT");
    assert_eq!(failed["example"]["attested"], "instance");

    fixture.write("instance.json", b"{}");
    let unreadable = verify(&["--instance", "instance.json"]);
    assert_eq!(unreadable.status, 2);
    assert!(
        unreadable.err.contains("INSTANCE_MEASUREMENTS"),
        "{}",
        unreadable.err
    );
}
