//! Unusual policies that are safe: each holds.

use attestation::Policy;
use key_policy::{Accepted, Instance, KeyPolicy, KeyPolicyReport, RowState, verify, write};
use serde_json::{Value, json};

use crate::policies::*;

fn notices(report: &KeyPolicyReport) -> Vec<&'static str> {
    report.checks.iter().filter_map(|row| row.code).collect()
}

#[track_caller]
fn holds(trust: &Policy, policy: &Value, key: Option<&str>) {
    let policy = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
    let report = verify(&policy, trust, key, AT);
    assert!(report.holds, "{report:#?}");
}

#[test]
fn every_version_that_iam_defines_is_read() {
    let mut older = written();
    older["Version"] = json!("2008-10-17");
    holds(&trust(), &older, None);
    older.as_object_mut().unwrap().remove("Version");
    holds(&trust(), &older, None);
}

/// In the older version `${…}` is plain text, so these Denys compare the encryption context with that text.
#[test]
fn a_variable_of_the_older_version_is_plain_text() {
    let trust = trust_of(&[&[(0, "a0")]]);
    let mut policy = denying(&[
        json!({ "StringNotEquals": { pcr(0): hex("a0"), "kms:EncryptionContext:owner": "${aws:username}" } }),
        json!({ "StringNotEquals": { pcr(0): hex("a0") }, "StringEquals": { "kms:EncryptionContext:owner": "${aws:username}" } }),
    ]);
    assert!(!judge_by(&trust, &policy).holds);
    policy["Version"] = json!("2008-10-17");
    holds(&trust, &policy, None);
}

/// KMS sends registers with only a few operations. For all others, a Deny unless a register matches always applies.
#[test]
fn a_deny_of_every_action_also_closes_the_ways_around() {
    let trust = trust_of(&[&[(0, "a0")]]);
    let mut policy = denying(&[json!({ "StringNotEquals": { pcr(0): hex("a0") } })]);
    remove(&mut policy, "DenyWaysAround");
    policy["Statement"][0]["Action"] = json!("kms:*");
    policy["Statement"][1]["Action"] = json!("kms:*");
    holds(&trust, &policy, None);
    let report = judge_by(&trust, &policy);
    assert_eq!(notices(&report), [""; 0], "{report:#?}");
}

#[test]
fn every_form_of_resource_that_names_the_key_is_accepted() {
    let with = |name: &str, value: Value| {
        let mut policy = written();
        for statement in policy["Statement"].as_array_mut().unwrap() {
            let statement = statement.as_object_mut().unwrap();
            statement.remove("Resource");
            statement.insert(name.to_owned(), value.clone());
        }
        policy
    };
    for (name, value, key) in [
        ("Resource", json!("arn:aws:kms:*:*:key/*"), None),
        ("Resource", json!("arn:aws:kms:*:*:key/*"), Some(KEY)),
        ("Resource", json!("arn:aws:kms:*"), None),
        ("NotResource", json!("arn:aws:kms:*:*:alias/*"), None),
        ("NotResource", json!("arn:aws:kms:*:*:alias/*"), Some(KEY)),
        ("Resource", json!(KEY), Some(KEY)),
        (
            "Resource",
            json!("arn:aws:kms:eu-central-1:111122223333:key/*"),
            Some(KEY),
        ),
        ("Resource", json!("arn:aws:kms:*:key/*"), None),
        ("Resource", json!("arn:aws:kms:eu-*"), Some(KEY)),
        ("Resource", json!("arn:aws:kms:*1:1111?*3:k*y/*"), Some(KEY)),
        ("NotResource", json!("arn:aws:kms:*s/*"), None),
    ] {
        holds(&trust(), &with(name, value), key);
    }
    for (name, value, key) in [
        ("Resource", json!(KEY), None),
        (
            "Resource",
            json!(KEY.replace("1234abcd", "ffffffff")),
            Some(KEY),
        ),
        ("NotResource", json!("arn:aws:kms:*:*:key/*"), None),
        ("Resource", json!("arn:aws-cn:kms:*:*:key/*"), None),
        // Not documented: a star that crosses colons in the middle of a segment, and a wildcard in the segment of the service.
        ("Resource", json!("arn:aws:kms:*y/*"), None),
        ("Resource", json!("arn:aws:kms:*y/*"), Some(KEY)),
        ("Resource", json!("arn:aws:k*:*:*:key/*"), Some(KEY)),
        ("Resource", json!("arn:aws:*"), Some(KEY)),
        ("Resource", json!("arn:*/*"), Some(KEY)),
        ("Resource", json!("arn:aws:kms?*:*:key/*"), Some(KEY)),
        (
            "Resource",
            json!("arn:aws:kms:eu-central-1?111122223333:key/*"),
            Some(KEY),
        ),
        ("NotResource", json!("arn:aws:kms:*y/*"), Some(KEY)),
        ("NotResource", json!(KEY.to_uppercase()), Some(KEY)),
    ] {
        let policy = with(name, value);
        let parsed = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
        let report = verify(&parsed, &trust(), key, AT);
        assert!(!report.holds, "{policy}");
        assert!(ways(&report).contains("DENY_OTHER_RESOURCE"));
    }
}

#[test]
fn reencrypt_without_a_statement_is_a_notice() {
    let mut policy = written();
    let around = &mut find(&mut policy, "DenyWaysAround")["Action"];
    around
        .as_array_mut()
        .unwrap()
        .retain(|action| !action.as_str().unwrap().contains("ReEncrypt"));
    let report = judge(&policy);
    assert_eq!(
        (report.holds, notices(&report)),
        (true, vec!["REENCRYPT_BY_GRANT"])
    );
}

/// Denys that each leave a gap, and together none.
#[test]
fn denys_are_evaluated_together() {
    let trust = trust_of(&[&[(0, "a0")]]);
    let not_a0 = |operator: &str| json!({ operator: { pcr(0): hex("a0") } });
    for conditions in [
        vec![
            json!({ "Null": { pcr(0): "true" } }),
            not_a0("ForAnyValue:StringNotEquals"),
        ],
        vec![
            json!({ "Null": { "kms:RecipientAttestation:ImageSha384": "true" } }),
            not_a0("ForAnyValue:StringNotEquals"),
        ],
        vec![not_a0("StringNotEqualsIfExists")],
        vec![not_a0("StringNotLike")],
        vec![json!({ "StringNotEquals": { "kms:RecipientAttestation:ImageSha384": hex("a0") } })],
        vec![
            json!({ "StringNotEquals": { pcr(0): hex("a0"), "kms:EncryptionContext:purpose": "backup" } }),
            json!({ "StringNotEquals": { pcr(0): hex("a0") }, "StringEquals": { "kms:EncryptionContext:purpose": "backup" } }),
        ],
        vec![
            json!({ "StringNotEquals": { pcr(0): hex("a0") }, "DateLessThan": { "aws:CurrentTime": "2027-06-01T00:00:00Z" } }),
            json!({ "StringNotEquals": { pcr(0): hex("a0") }, "DateGreaterThanEquals": { "aws:CurrentTime": "2027-06-01T00:00:00Z" } }),
        ],
    ] {
        holds(&trust, &denying(&conditions), None);
    }
}

/// A trust policy that accepts a signer accepts each of its images, but none in debug mode.
#[test]
fn a_signer_is_accepted_outside_of_debug_mode() {
    let trust = trust_of(&[&[(8, "a8")]]);
    let signer = json!({ "StringNotEquals": { pcr(8): hex("a8") } });
    for zero in [0, 1, 2] {
        let debug = json!({ "StringEquals": { pcr(zero): hex("00") } });
        holds(&trust, &denying(&[signer.clone(), debug]), None);
    }
    let report = judge_by(&trust, &denying(&[signer]));
    assert_eq!(codes(&report), ["DEBUG_DECRYPT"]);
}

/// PCR0 determines PCR1 and PCR2, so no document has PCR0 of a release and another PCR1.
#[test]
fn registers_that_pcr0_covers_need_not_be_compared() {
    let trust = trust_of(&[
        &[(0, "a0"), (1, "a1"), (2, "a2")],
        &[(0, "b0"), (1, "b1"), (2, "b2")],
    ]);
    holds(
        &trust,
        &denying(&[json!({ "StringNotEquals": { pcr(0): [hex("a0"), hex("b0")] } })]),
        None,
    );
}

#[test]
fn every_answer_of_a_passing_report_is_the_expected_one() {
    for row in judge(&written()).checks {
        let good = if row.title.starts_with("Can ") {
            "No"
        } else {
            "Yes"
        };
        assert!(
            row.observed == good || row.name == "root",
            "{}: {}",
            row.title,
            row.observed
        );
        assert_eq!(row.state, RowState::Passed, "{}", row.title);
    }
}

/// A trust policy that has ended accepts none of its releases, even if they end later.
#[test]
fn the_end_of_the_trust_policy_ends_its_releases() {
    let mut json = trust_json();
    json["not_after"] = json!("2026-06-01T00:00:00Z");
    let trust = Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap();
    assert!(codes(&judge_by(&trust, &written())).contains(&"ENDED_RELEASE_DECRYPT"));
    let error = write(&trust, deployment(), AT).unwrap_err().to_string();
    assert!(error.starts_with("KEY_POLICY_NO_RELEASE"), "{error}");
}

/// The enclave asks for the key without the organisation in the model's name.
#[test]
fn both_forms_of_a_model_name_give_one_key_policy() {
    let mut json = trust_json();
    json["model"]["id"] = json!("org/model");
    let trust = Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap();
    let with_organisation = write(&trust, deployment(), AT).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&with_organisation).unwrap(),
        written()
    );
}

/// A trust policy of so many releases, each with registers that PCR0 does not cover.
fn trust_of_count(releases: u32) -> Policy {
    let releases: Vec<Vec<(u8, String)>> = (1..=releases)
        .map(|n| {
            let byte = |digit: u8| format!("{digit:x}{n:x}");
            vec![
                (0, byte(1)),
                (1, byte(2)),
                (2, byte(3)),
                (3, byte(4)),
                (8, byte(5)),
            ]
        })
        .collect();
    let borrowed: Vec<Vec<(u8, &str)>> = releases
        .iter()
        .map(|pcrs| {
            pcrs.iter()
                .map(|(index, byte)| (*index, byte.as_str()))
                .collect()
        })
        .collect();
    let slices: Vec<&[(u8, &str)]> = borrowed.iter().map(Vec::as_slice).collect();
    trust_of(&slices)
}

#[test]
fn a_policy_of_full_size_is_decided() {
    let trust = trust_of_count(12);
    let written = write(&trust, deployment(), AT).unwrap();
    holds(&trust, &serde_json::from_str(&written).unwrap(), Some(KEY));
}

/// One release more than a policy with line breaks and indentation has room for.
#[test]
fn a_policy_that_fits_only_in_compact_form_is_written_so() {
    let mut policies = (12..16).map(|count| {
        let trust = trust_of_count(count);
        let text = write(&trust, deployment(), AT).unwrap();
        (trust, text)
    });
    let (trust, text) = policies.find(|(_, text)| !text.contains('\n')).unwrap();
    assert!(text.len() <= key_policy::MAX_KEY_POLICY, "{}", text.len());
    let policy: Value = serde_json::from_str(&text).unwrap();
    assert!(format!("{policy:#}").len() > key_policy::MAX_KEY_POLICY);
    holds(&trust, &policy, Some(KEY));
}

fn measurements(pcrs: &[(u8, &str)]) -> Value {
    let mut all = serde_json::Map::new();
    all.insert("HashAlgorithm".to_owned(), json!("SHA384 { ... }"));
    for (index, byte) in pcrs {
        all.insert(format!("PCR{index}"), json!(hex(byte)));
    }
    json!({ "Measurements": all })
}

fn instance(pcrs: &[(u8, &str)]) -> Instance {
    Instance::parse("instance", measurements(pcrs).to_string().as_bytes()).unwrap()
}

#[test]
fn an_attestable_instance_can_hold_a_key_too() {
    let trust = trust();
    let instances = [
        instance(&[(4, "e4"), (7, "e7"), (12, "00")]),
        instance(&[(4, "f4"), (12, "fc")]),
    ];
    let accepted = Accepted {
        trust: &trust,
        instances: &instances,
    };
    let mut policy: Value =
        serde_json::from_str(&write(accepted, deployment(), AT).unwrap()).unwrap();
    let judge = |policy: &Value, accepted| {
        let policy = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
        verify(&policy, accepted, Some(KEY), AT)
    };
    let report = judge(&policy, accepted);
    assert!(report.holds, "{report:#?}");
    assert_eq!(notices(&report), [""; 0]);

    // The same policy is refused where the instances are not accepted.
    let report = judge(&policy, Accepted::from(&trust));
    assert_eq!(codes(&report), ["OTHER_INSTANCE_DECRYPT"]);
    assert!(ways(&report).contains("NITRO_TPM"));

    // Without its Deny, the register of the kernel's command line may have any value.
    remove(&mut policy, "DenyInstance3Register12");
    assert_eq!(codes(&judge(&policy, accepted)), ["OTHER_INSTANCE_DECRYPT"]);
    let locked = judge(&written(), accepted);
    assert_eq!(
        (locked.holds, notices(&locked)),
        (true, vec!["RELEASE_LOCKED_OUT"])
    );
}

#[test]
fn instances_of_one_pcr4_are_not_written_into_one_policy() {
    let trust = trust();
    let instances = [
        instance(&[(4, "e4"), (12, "00")]),
        instance(&[(4, "e4"), (12, "ec")]),
    ];
    let accepted = Accepted {
        trust: &trust,
        instances: &instances,
    };
    let error = write(accepted, deployment(), AT).unwrap_err().to_string();
    assert!(error.starts_with("KEY_POLICY_SAME_PCR4"), "{error}");
}

#[test]
fn measurements_that_name_no_instance_are_refused() {
    let good = measurements(&[(4, "e4"), (12, "00")]).to_string();
    assert!(Instance::parse("good", good.as_bytes()).is_ok());
    for bad in [
        String::new(),
        "{}".to_owned(),
        "[]".to_owned(),
        measurements(&[(4, "e4")]).to_string(),
        measurements(&[(7, "e7"), (12, "00")]).to_string(),
        measurements(&[(4, "00"), (12, "00")]).to_string(),
        good.replace("SHA384", "SHA256"),
        good.replace("PCR12", "PCR24"),
        good.replace("PCR12", "PCR012"),
        good.replace("PCR12", "PCR4"),
        good.replace("e4e4", "e4"),
        good.replace("e4e4", "zzzz"),
        good.replace("Measurements", "Measurement"),
    ] {
        assert!(Instance::parse("bad", bad.as_bytes()).is_err(), "{bad}");
    }
}
