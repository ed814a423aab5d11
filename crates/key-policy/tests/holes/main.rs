//! Key policies with faults: each known way around attestation is refused with its code.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod letter_case;
mod policies;
mod siblings;
mod valid;

use attestation::Policy;
use key_policy::{BypassCode, KeyPolicy, RowState, write};
use policies::*;
use serde_json::{Value, json};

#[test]
fn a_written_key_policy_holds_without_a_warning() {
    let report = judge(&written());
    assert!(report.holds, "{report:#?}");
    assert!(
        report
            .checks
            .iter()
            .all(|row| row.state == RowState::Passed),
        "{report:#?}"
    );
}

/// Changes the Deny about attestation in the written policy, and expects the code of each fault.
#[test]
fn each_fault_of_the_deny_is_refused_by_code() {
    let not_equals = |operator: &str, value: Value| json!({ operator: { "kms:RecipientAttestation:PCR0": value } });
    let images = json!([hex("a0"), hex("b0")]);
    let with = |name: &str, value: Value| (name.to_owned(), value);
    let cases = [
        (
            "DENY_SPARES_PRINCIPALS",
            with("Principal", json!({ "AWS": PARENT })),
        ),
        (
            "DENY_SPARES_PRINCIPALS",
            with("NotPrincipal", json!({ "AWS": PARENT })),
        ),
        (
            "DENY_OTHER_RESOURCE",
            with("Resource", json!(KEY.replace("1234abcd", "ffffffff"))),
        ),
        (
            "DENY_FOR_ANY_VALUE",
            with(
                "Condition",
                not_equals("ForAnyValue:StringNotEqualsIgnoreCase", images.clone()),
            ),
        ),
        (
            "DENY_FOR_ANY_VALUE",
            with(
                "Condition",
                not_equals(
                    "ForAnyValue:StringNotEqualsIgnoreCaseIfExists",
                    images.clone(),
                ),
            ),
        ),
        (
            "DENY_WILDCARD",
            with(
                "Condition",
                not_equals("StringNotLike", json!(["a*", hex("b0")])),
            ),
        ),
        (
            "DENY_ONLY_UNATTESTED",
            with(
                "Condition",
                json!({ "Null": { "kms:RecipientAttestation:PCR0": "true" } }),
            ),
        ),
        (
            "DENY_POSITIVE",
            with(
                "Condition",
                not_equals("StringEqualsIgnoreCase", json!(hex("d0"))),
            ),
        ),
        (
            "DENY_SPARES_MEASUREMENT",
            with(
                "Condition",
                not_equals(
                    "StringNotEqualsIgnoreCase",
                    json!([hex("a0"), hex("b0"), hex("d0")]),
                ),
            ),
        ),
        (
            "DENY_SPARES_MEASUREMENT",
            with(
                "Condition",
                not_equals(
                    "StringNotEqualsIgnoreCase",
                    json!([hex("a0"), hex("b0"), hex("00")]),
                ),
            ),
        ),
        (
            "DENY_SPARES_MEASUREMENT",
            with(
                "Condition",
                not_equals(
                    "StringNotEqualsIgnoreCase",
                    json!([hex("a0"), hex("b0"), "${aws:PrincipalTag/image}"]),
                ),
            ),
        ),
        (
            "DENY_ANDS_REGISTERS",
            with(
                "Condition",
                json!({ "StringNotEqualsIgnoreCase": { "kms:RecipientAttestation:PCR0": images, "kms:RecipientAttestation:PCR1": hex("a1") } }),
            ),
        ),
        (
            "DENY_SPARES_REGISTERS",
            with(
                "Condition",
                json!({ "StringNotEqualsIgnoreCase": { "kms:RecipientAttestation:PCR1": hex("a1") } }),
            ),
        ),
        (
            "DENY_NARROWED",
            with(
                "Condition",
                json!({ "StringNotEqualsIgnoreCase": { "kms:RecipientAttestation:PCR0": images }, "ArnNotEquals": { "aws:PrincipalArn": PARENT } }),
            ),
        ),
        (
            "DENY_NARROWED",
            with(
                "Condition",
                json!({ "StringNotEqualsIgnoreCase": { "kms:RecipientAttestation:PCR0": images }, "DateLessThan": { "aws:CurrentTime": "2030-01-01T00:00:00Z" } }),
            ),
        ),
        (
            "DENY_SPARES_ACTIONS",
            with("Action", json!("kms:ReEncrypt*")),
        ),
        ("DENY_SPARES_ACTIONS", with("NotAction", json!("kms:D*"))),
    ];
    for (code, (name, value)) in cases {
        let mut policy = written();
        let statement = find(&mut policy, "DenyUnlessAttested")
            .as_object_mut()
            .unwrap();
        if let Some(plain) = name.strip_prefix("Not") {
            statement.remove(plain);
        }
        statement.insert(name, value.clone());
        if code == "DENY_SPARES_ACTIONS" {
            for sid in [
                "DenyRelease2Before",
                "DenyRelease2After",
                "DenyRelease2Register8",
            ] {
                remove(&mut policy, sid);
            }
        }
        let report = judge(&policy);
        assert!(!report.holds, "{code}: {value}");
        assert!(
            ways(&report).contains(code),
            "{code}: {value}: {:?}",
            ways(&report)
        );
    }
    let mut policy = written();
    policy["Statement"]
        .as_array_mut()
        .unwrap()
        .retain(|statement| statement["Effect"] == "Allow");
    assert!(ways(&judge(&policy)).contains("NO_DENY"));
}

/// Without the Deny, an Allow that seems to restrict access, and does not.
#[test]
fn each_fault_of_an_allow_is_refused_by_code() {
    let attested = |operator: &str, value: Value| json!({ "Condition": { operator: { "kms:RecipientAttestation:PCR0": value } } });
    let cases = [
        (
            "DELEGATES_TO_IAM",
            json!({ "Principal": { "AWS": "arn:aws:iam::111122223333:root" }, "Action": "kms:*" }),
        ),
        (
            "DELEGATES_TO_IAM",
            json!({ "Principal": { "AWS": "111122223333" } }),
        ),
        ("ANYONE", json!({ "Principal": "*" })),
        ("ANYONE", json!({ "Principal": { "AWS": ["*"] } })),
        (
            "ALL_BUT_PRINCIPALS",
            json!({ "Principal": null, "NotPrincipal": { "AWS": PARENT } }),
        ),
        (
            "SERVICE_PRINCIPAL",
            json!({ "Principal": { "Service": "s3.amazonaws.com" } }),
        ),
        (
            "VIA_SERVICE",
            json!({ "Condition": { "StringEquals": { "kms:ViaService": "s3.eu-central-1.amazonaws.com" } } }),
        ),
        ("ACTION_WILDCARD", json!({ "Action": "kms:D*" })),
        ("ACTION_WILDCARD", json!({ "Action": ["KMS:*crypt"] })),
        (
            "ALL_BUT_ACTIONS",
            json!({ "Action": null, "NotAction": "kms:Encrypt" }),
        ),
        (
            "IF_EXISTS",
            attested("StringEqualsIgnoreCaseIfExists", json!(hex("a0"))),
        ),
        (
            "FOR_ALL_VALUES",
            attested("ForAllValues:StringEquals", json!(hex("a0"))),
        ),
        (
            "NEGATED_MEASUREMENT",
            attested("StringNotEquals", json!(hex("00"))),
        ),
        ("ANY_ENCLAVE", attested("Null", json!("false"))),
        (
            "NITRO_TPM",
            json!({ "Condition": { "StringEquals": { "kms:RecipientAttestation:NitroTPMPCR4": hex("a0") } } }),
        ),
        ("MEASUREMENT_WILDCARD", attested("StringLike", json!("*"))),
        (
            "OTHER_MEASUREMENT",
            attested("StringEquals", json!(hex("d0"))),
        ),
        (
            "PARTIAL_MEASUREMENT",
            json!({ "Condition": { "StringEquals": { "kms:RecipientAttestation:PCR1": hex("a1") } } }),
        ),
        ("NO_MEASUREMENT", json!({})),
        (
            "MIXED_RELEASES",
            json!({ "Condition": { "StringEquals": { "kms:RecipientAttestation:PCR0": [hex("a0"), hex("b0")], "kms:RecipientAttestation:PCR8": [hex("a8"), hex("b8")] } } }),
        ),
    ];
    for (code, extra) in cases {
        let mut policy = written();
        for sid in [
            "DenyUnlessAttested",
            "DenyRelease2Register8",
            "DenyRelease2Before",
            "DenyRelease2After",
        ] {
            remove(&mut policy, sid);
        }
        add(&mut policy, allow(&extra));
        let report = judge(&policy);
        assert!(!report.holds, "{code}");
        assert!(ways(&report).contains(code), "{code}: {:?}", ways(&report));
    }
}

#[test]
fn every_bypass_has_a_policy() {
    let source = include_str!("main.rs");
    for code in BypassCode::ALL {
        assert!(source.contains(&format!("\"{}\"", code.code())), "{code:?}");
    }
}

/// The Deny covers a careless Allow: no further Allow lets a request through.
#[test]
fn an_allow_in_addition_to_the_deny_opens_nothing() {
    let mut policy = written();
    add(
        &mut policy,
        allow(
            &json!({ "Principal": { "AWS": "arn:aws:iam::111122223333:root" }, "Action": "kms:*" }),
        ),
    );
    let report = judge(&policy);
    assert!(report.holds, "{report:#?}");
}

#[test]
fn actions_that_give_access_later_are_refused() {
    for (code, action) in [
        ("REENCRYPT", "kms:ReEncryptFrom"),
        ("REENCRYPT", "kms:ReEncrypt*"),
        ("POLICY_CHANGE", "kms:PutKeyPolicy"),
        ("POLICY_CHANGE", "kms:Put*"),
        ("GRANT", "kms:CreateGrant"),
        ("REPLICATION", "kms:ReplicateKey"),
        ("REPLICATION", "kms:UpdatePrimaryRegion"),
        ("IMPORT", "kms:ImportKeyMaterial"),
    ] {
        let mut policy = written();
        remove(&mut policy, "DenyWaysAround");
        let before = judge(&policy);
        // An earlier grant can allow this action without a statement, and the key policy does not show grants.
        let noticed: Vec<_> = before.checks.iter().filter_map(|row| row.code).collect();
        assert_eq!((before.holds, noticed), (true, vec!["REENCRYPT_BY_GRANT"]));
        add(&mut policy, allow(&json!({ "Action": action })));
        let after = codes(&judge(&policy));
        assert!(after.contains(&code), "{action}: {after:?}");
    }
}

#[test]
fn each_question_has_its_own_code() {
    let mut policy = written();
    let deny =
        &mut find(&mut policy, "DenyUnlessAttested")["Condition"]["StringNotEqualsIgnoreCase"];
    deny["kms:RecipientAttestation:PCR0"]
        .as_array_mut()
        .unwrap()
        .push(json!(hex("00")));
    assert_eq!(
        codes(&judge(&policy)),
        ["DEBUG_DECRYPT", "OTHER_IMAGE_DECRYPT"]
    );

    let mut policy = written();
    let deny =
        &mut find(&mut policy, "DenyUnlessAttested")["Condition"]["StringNotEqualsIgnoreCase"];
    deny["kms:RecipientAttestation:PCR0"]
        .as_array_mut()
        .unwrap()
        .push(json!(hex("c0")));
    assert_eq!(
        codes(&judge(&policy)),
        ["OTHER_IMAGE_DECRYPT", "ENDED_RELEASE_DECRYPT"]
    );

    let mut policy = written();
    remove(&mut policy, "DenyRelease2Register8");
    // A grant bypasses the Allow, which is the only statement that still compares the register.
    assert_eq!(codes(&judge(&policy)), ["MIXED_REGISTERS_DECRYPT"]);
}

#[test]
fn harmless_findings_are_warnings() {
    let warnings = |policy: &Value| -> Vec<_> {
        let report = judge(policy);
        assert!(report.holds, "{report:#?}");
        report
            .checks
            .into_iter()
            .filter_map(|row| row.code)
            .collect()
    };
    let mut policy = written();
    remove(&mut policy, "DenyRelease2After");
    assert_eq!(warnings(&policy), ["OUTLIVES_RELEASE"]);
    let mut policy = written();
    remove(&mut policy, "Release1");
    assert_eq!(warnings(&policy), ["RELEASE_LOCKED_OUT"]);
    let observed = |policy: &Value| {
        let checks = judge(policy).checks;
        checks
            .into_iter()
            .find(|row| row.name == "usable")
            .unwrap()
            .observed
    };
    assert_eq!(
        observed(&policy),
        "These cannot decrypt: one (no statement allows it)"
    );
    add(
        &mut policy,
        json!({
            "Sid": "DenySigner", "Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Resource": "*",
            "Condition": { "StringEqualsIgnoreCase": { pcr(8): hex("b8") } },
        }),
    );
    assert_eq!(
        observed(&policy),
        "These cannot decrypt: one (no statement allows it), two (denied by statement DenySigner)"
    );
}

#[test]
fn the_output_of_the_aws_command_line_is_read_too() {
    let wrapped = json!({ "Policy": written().to_string(), "PolicyName": "default" });
    assert!(judge(&wrapped).holds);
}

#[test]
fn a_policy_with_an_unknown_element_is_refused_as_a_whole() {
    let good = written().to_string();
    let change = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    for bad in [
        String::new(),
        "[]".to_owned(),
        "{}".to_owned(),
        change("\"Version\"", "\"version\""),
        change("2012-10-17", "2008-10-18"),
        change("\"Version\":\"2012-10-17\"", "\"Version\":null"),
        change("StringNotEqualsIgnoreCase", "NullIfExists"),
        change("StringNotEqualsIgnoreCase", "ForAnyValue:Null"),
        change("\"Effect\":\"Deny\"", "\"Effect\":\"deny\""),
        change(
            "\"Effect\":\"Deny\"",
            "\"Effect\":\"Allow\",\"Effect\":\"Deny\"",
        ),
        change(
            "\"Effect\":\"Deny\"",
            "\"effect\":\"Allow\",\"Effect\":\"Deny\"",
        ),
        change("\"Sid\"", "\"Comment\""),
        change("StringNotEqualsIgnoreCase", "StringNotEqualsIgnoringCase"),
        change("\"Resource\":\"*\"", "\"Resource\":[]"),
        change(
            "\"Resource\":\"*\"",
            "\"Resource\":\"*\",\"NotResource\":\"*\"",
        ),
        change("\"Principal\":\"*\"", "\"Principal\":\"everyone\""),
        format!("{good} "),
        format!("{good}x"),
    ] {
        let parsed = KeyPolicy::parse(bad.as_bytes());
        assert_eq!(parsed.is_err(), bad != format!("{good} "), "{bad}");
    }
    assert!(KeyPolicy::parse(format!("{good}{}", " ".repeat(70_000)).as_bytes()).is_err());
}

/// KMS takes 32 KiB. The answer of `aws kms get-key-policy` is longer, because it holds the policy as text.
#[test]
fn a_policy_is_read_up_to_the_size_that_kms_takes() {
    let mut policy = written();
    let size = |policy: &Value| policy.to_string().len();
    policy["Id"] = json!("");
    policy["Id"] = json!("x".repeat(32_768 - size(&policy)));
    assert_eq!(size(&policy), 32_768);
    let parse = |policy: &Value, after: &str| {
        let bare = KeyPolicy::parse(format!("{policy}{after}").as_bytes());
        let wrapped = json!({ "Policy": policy.to_string(), "PolicyName": "default" });
        let wrapped = KeyPolicy::parse(wrapped.to_string().as_bytes());
        (bare.map(|_| ()), wrapped.map(|_| ()))
    };
    assert_eq!(parse(&policy, "\n"), (Ok(()), Ok(())));
    policy["Id"] = json!(format!("{}x", policy["Id"].as_str().unwrap()));
    for refused in [parse(&policy, "").0, parse(&policy, "").1] {
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains("32769 bytes, and KMS takes 32768"),
            "{error}"
        );
    }
}

#[test]
fn a_trust_policy_that_kms_cannot_enforce_is_refused() {
    let code = |change: &dyn Fn(&mut Value)| {
        let mut json = trust_json();
        change(&mut json);
        let trust = Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap();
        let error = write(&trust, deployment(), AT).unwrap_err().to_string();
        error.split_once(':').unwrap().0.to_owned()
    };
    assert_eq!(
        code(&|json| json["releases"][0]["pcrs"] = json!({ "1": hex("a1"), "2": hex("a2") })),
        "KEY_POLICY_NEEDS_PCR0"
    );
    assert_eq!(
        code(&|json| json["releases"][1]["pcrs"]["0"] = json!(hex("a0"))),
        "KEY_POLICY_SAME_PCR0"
    );
    assert_eq!(
        code(&|json| json["releases"] = json!([json["releases"][2]])),
        "KEY_POLICY_NO_RELEASE"
    );
    assert_eq!(
        code(&|json| {
            json.as_object_mut().unwrap().remove("model");
        }),
        "KEY_POLICY_NO_MODEL"
    );
    assert_eq!(
        code(&|json| {
            let many = (0..250).map(|n| json!({ "name": n.to_string(), "pcrs": { "0": format!("{n:02x}11").repeat(24) } }));
            json["releases"] = many.collect();
        }),
        "KEY_POLICY_TOO_LARGE"
    );
}
