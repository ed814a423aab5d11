//! Which keys a pattern of a `Resource` element names, for a request whose key is not known.

use std::collections::BTreeMap;

use key_policy::{Fact, KeyPolicy, Request, Truth};
use serde_json::json;

/// Evaluates an Allow of this resource. Its principals give the partition.
fn name_every_key(resource: &str, principals: &[&str]) -> Truth {
    let policy = json!({ "Version": "2012-10-17", "Statement": {
        "Effect": "Allow", "Principal": { "AWS": principals }, "Action": "kms:Decrypt", "Resource": resource,
    } });
    let policy = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
    let outcome = policy.evaluate(&Request {
        action: "kms:Decrypt",
        principal: principals.first().copied(),
        key: None,
        facts: BTreeMap::new(),
        others: Fact::Absent,
    });
    outcome.allowed
}

#[test]
fn a_pattern_names_every_key_or_some_or_none() {
    let role = "arn:aws:iam::111122223333:role/parent";
    for (pattern, expected) in [
        ("*", Truth::Yes),
        ("arn:aws:kms:*:*:key/*", Truth::Yes),
        ("arn:*:kms:*:*:key/*", Truth::Yes),
        ("arn:aws:kms:*", Truth::Yes),
        ("arn:aws:kms:*:key/*", Truth::Yes),
        ("arn:aws:kms:*:*:k*/*", Truth::Yes),
        ("arn:aws:kms:*:*:alias/*", Truth::No),
        ("arn:aws:kms:*:*:key/", Truth::No),
        ("arn:aws-cn:kms:*:*:key/*", Truth::No),
        ("arn:aws:s3:::*", Truth::No),
        ("arn:aws:kms:eu-central-1:*:key/*", Truth::Maybe),
        ("arn:aws:kms:*:*:key/?*", Truth::Maybe),
        ("arn:aws:kms:*:*:key/mrk-*", Truth::Maybe),
        ("arn:aws:kms:*y/*", Truth::Maybe),
        ("arn:aws:kms:**y/*", Truth::Maybe),
        ("arn:aws:kms*", Truth::Maybe),
        ("arn:aws:*", Truth::Maybe),
        ("arn:aws:k?s:*:*:key/*", Truth::Maybe),
        ("arn:aws:kms:*:*:KEY/*", Truth::Maybe),
        ("*:key/*", Truth::Maybe),
        ("**", Truth::Maybe),
    ] {
        assert_eq!(name_every_key(pattern, &[role]), expected, "{pattern}");
    }
    assert_eq!(
        name_every_key(
            "arn:aws:kms:*:*:key/*",
            &[role, "arn:aws-cn:iam::111122223333:role/parent"]
        ),
        Truth::Maybe,
        "the key may be in another partition"
    );
}

#[test]
fn a_wildcard_in_the_prefix_of_an_action_may_match() {
    for (action, expected) in [
        ("*", Truth::Yes),
        ("KMS:*crypt", Truth::Yes),
        ("k*:Decrypt", Truth::Maybe),
        ("*Decrypt", Truth::Maybe),
        ("s3:*", Truth::No),
    ] {
        let policy = json!({ "Statement": {
            "Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*",
        } });
        let policy = KeyPolicy::parse(policy.to_string().as_bytes()).unwrap();
        let outcome = policy.evaluate(&Request {
            action: "kms:Decrypt",
            principal: None,
            key: None,
            facts: BTreeMap::new(),
            others: Fact::Absent,
        });
        assert_eq!(outcome.allowed, expected, "{action}");
    }
}
