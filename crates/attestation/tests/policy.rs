//! Trust policies: which are refused, which survive a round trip, and the best verdict of each.

#![allow(
    clippy::unwrap_used,
    reason = "a policy that cannot be read is a failed test"
)]

use attestation::{Acceptance, Policy, PolicyReview, UnixMillis};
use fixtures::Fixture;
use proptest::prelude::*;
use serde_json::{Value, json};

fn right() -> Value {
    json!({
        "format": "clearseal-trust-policy/1",
        "name": "production",
        "root": "aws-nitro-enclaves-g1",
        "not_after": "2027-12-31T23:59:59Z",
        "releases": [
            { "name": "0.1.0", "pcrs": { "0": "aa".repeat(48), "1": "bb".repeat(48), "2": "cc".repeat(48) } },
            { "name": "0.0.9", "pcrs": { "8": "dd".repeat(48) }, "not_before": "2026-12-01T00:00:00.250Z", "not_after": "2027-01-31T00:00:00Z" },
        ],
        "max_age_seconds": 300,
        "clock_skew_seconds": 60,
        "security_mode": "production",
        "policy_version": "2027-01",
        "model": { "id": "all-MiniLM-L6-v2", "sha256": "ee".repeat(32) },
    })
}

fn code(policy: &Value) -> Option<&'static str> {
    Policy::chosen_by_hand(policy.to_string().as_bytes())
        .err()
        .map(|error| error.code())
}

#[test]
fn a_policy_survives_the_round_trip() {
    let policy = Policy::built_in(right().to_string().leak()).unwrap();
    assert_eq!(Policy::built_in(policy.to_json().leak()).unwrap(), policy);
    assert_eq!(
        serde_json::from_str::<Value>(&policy.to_json()).unwrap(),
        right()
    );
    let development = Fixture::new().policy;
    assert_eq!(
        Policy::with_evidence(development.to_json().as_bytes()).unwrap(),
        development
    );
}

#[test]
fn policies_that_would_accept_anything_are_errors() {
    for (at, value, expected) in [
        ("/releases", json!([]), "POLICY_EMPTY"),
        ("/releases/0/pcrs", json!({}), "POLICY_TOO_WIDE"),
        (
            "/releases/0/pcrs",
            json!({ "4": "aa".repeat(48) }),
            "POLICY_TOO_WIDE",
        ),
        (
            "/releases/0/pcrs",
            json!({ "1": "aa".repeat(48), "3": "aa".repeat(48) }),
            "POLICY_TOO_WIDE",
        ),
    ] {
        let mut policy = right();
        *policy.pointer_mut(at).unwrap() = value;
        assert_eq!(code(&policy), Some(expected), "{at}");
    }
}

/// Registers that identify no image are refused when the policy is read, not when a document happens to match them.
#[test]
fn registers_that_identify_no_image_are_refused() {
    let (some, zero) = ("aa".repeat(48), "00".repeat(48));
    for (pcrs, accepted) in [
        (json!({ "0": some }), true),
        (json!({ "1": some, "2": some }), true),
        (json!({ "8": some }), true),
        (json!({ "0": some, "3": zero, "4": zero }), true),
        (json!({ "1": some }), false),
        (json!({ "2": some }), false),
        (json!({ "2": some, "3": some, "4": some }), false),
        (json!({ "0": zero }), false),
        (json!({ "0": zero, "1": zero, "2": zero }), false),
        (json!({ "1": some, "2": zero }), false),
        (json!({ "8": zero }), false),
        (json!({ "2": some, "8": zero }), false),
        (json!({ "0": some, "1": zero }), false),
        (json!({ "0": some, "8": zero }), false),
    ] {
        let mut policy = right();
        policy["releases"][0]["pcrs"] = pcrs.clone();
        let expected = (!accepted).then_some("POLICY_TOO_WIDE");
        assert_eq!(code(&policy), expected, "{pcrs}");
    }
}

#[test]
fn invalid_values_are_refused() {
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
        ("/releases/1/not_before", json!("2027-01-31")),
        ("/releases/1/not_before", json!("2027-01-31T00:00:00.001Z")),
        ("/not_after", json!("never")),
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

/// Values at a bound are accepted, and the next values beyond it are refused.
#[test]
fn bounds_of_values_are_exact() {
    for (at, inside, outside) in [
        ("/name", json!("x".repeat(256)), json!("x".repeat(257))),
        ("/policy_version", json!("x"), json!("")),
        ("/model/id", json!("x".repeat(256)), json!("x".repeat(257))),
        ("/releases/0/name", json!("x".repeat(256)), json!("")),
        ("/max_age_seconds", json!(1), json!(0)),
        ("/max_age_seconds", json!(86_400), json!(86_401)),
        ("/clock_skew_seconds", json!(600), json!(601)),
        (
            "/releases/1/not_before",
            json!("2027-01-31T00:00:00Z"),
            json!("2027-01-31T00:00:00.001Z"),
        ),
        (
            "/releases/0/pcrs",
            json!({ "0": "aa".repeat(48), "31": "aa".repeat(48) }),
            json!({ "0": "aa".repeat(48), "32": "aa".repeat(48) }),
        ),
    ] {
        let mut policy = right();
        *policy.pointer_mut(at).unwrap() = inside;
        assert_eq!(code(&policy), None, "{at}");
        *policy.pointer_mut(at).unwrap() = outside;
        assert_eq!(code(&policy), Some("POLICY_INVALID"), "{at}");
    }
    let mut policy = right();
    policy["clock_skew_seconds"] = json!(0);
    assert_eq!(code(&policy), None);
    let padded = |size: usize| {
        let mut text = right().to_string();
        text.push_str(&" ".repeat(size - text.len()));
        Policy::chosen_by_hand(text.as_bytes())
    };
    assert!(padded(64 * 1024).is_ok());
    assert!(padded(64 * 1024 + 1).is_err());
}

#[test]
fn errors_name_the_position() {
    for (at, key, value, place) in [
        ("", "max_age", json!(1), "max_age is not a key"),
        (
            "/releases/1",
            "pcr",
            json!({}),
            "releases[1].pcr is not a key",
        ),
        (
            "/model",
            "version",
            json!("1"),
            "model.version is not a key",
        ),
        (
            "/releases/1/pcrs",
            "8",
            json!("dd"),
            "releases[1].pcrs.8 is not 96 hex digits",
        ),
        (
            "/releases/0",
            "not_before",
            json!("soon"),
            "releases[0].not_before is not a date and time of RFC 3339",
        ),
        (
            "",
            "not_after",
            json!("soon"),
            "not_after is not a date and time of RFC 3339",
        ),
        (
            "/model",
            "sha256",
            json!("ee"),
            "model.sha256 is not 64 hex digits",
        ),
    ] {
        let mut policy = right();
        let object = policy.pointer_mut(at).unwrap().as_object_mut().unwrap();
        object.insert(key.to_owned(), value);
        let error = Policy::chosen_by_hand(policy.to_string().as_bytes());
        let message = error.unwrap_err().to_string();
        assert!(message.contains(place), "{message}");
    }
}

fn example() -> Policy {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/POLICY.md");
    let page = std::fs::read_to_string(page).unwrap();
    let json = page
        .split("```json")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    Policy::chosen_by_hand(json.as_bytes()).unwrap()
}

fn codes(review: &PolicyReview) -> Vec<&str> {
    review.warnings.iter().map(|warning| warning.code).collect()
}

/// The page's own example, compared with the page's description.
#[test]
fn the_documented_example_is_a_policy_and_rolls_out_as_described() {
    use Acceptance::{Ended, NotYet, Now};
    let policy = example();
    for (at, expected, usable) in [
        ("2027-01-31T23:59:59.999Z", [Now, NotYet], true),
        ("2027-02-01T00:00:00Z", [Now, Now], true),
        ("2027-02-14T00:00:00Z", [Now, Now], true),
        ("2027-02-14T00:00:00.001Z", [Ended, Now], true),
        ("2027-06-30T23:59:59Z", [Ended, Now], true),
        ("2027-06-30T23:59:59.001Z", [Ended, Ended], false),
    ] {
        let review = policy.review(UnixMillis::from_rfc3339(at).unwrap());
        let accepted: Vec<_> = review.releases.iter().map(|it| it.accepted).collect();
        assert_eq!(
            (&accepted[..], review.usable),
            (&expected[..], usable),
            "{at}"
        );
        assert_eq!(review.best_verdict, "verified");
    }
    let review = policy.review(UnixMillis::from_rfc3339("2027-02-01T00:00:00Z").unwrap());
    assert!(review.warnings.is_empty(), "{:?}", review.warnings);
    assert_eq!(review.releases[0].pinned, [0, 1, 2]);
    assert_eq!(review.releases[0].unpinned, [8]);
    // A release without an end of its own ends with the policy.
    let end = UnixMillis::from_rfc3339("2027-06-30T23:59:59Z").unwrap();
    assert_eq!(review.releases[1].not_after_ms, Some(end.0));
    let over = policy.review(UnixMillis(end.0 + 1));
    assert_eq!(codes(&over), ["POLICY_EXPIRED"]);
}

#[test]
fn a_review_warns_its_owner() {
    let now = "2027-01-15T00:00:00Z";
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str, &[&str]); 12] = [
        (|_| {}, now, &["PINS_ONE_REGISTER"]),
        (
            |it| it["releases"][0]["pcrs"] = json!({ "0": "aa".repeat(48) }),
            now,
            &["PINS_ONE_REGISTER", "PINS_ONE_REGISTER"],
        ),
        (
            |it| it["releases"][1]["pcrs"] = it["releases"][0]["pcrs"].clone(),
            now,
            &["SAME_RELEASE_TWICE"],
        ),
        (
            |it| it["max_age_seconds"] = json!(3_600),
            now,
            &["PINS_ONE_REGISTER"],
        ),
        (
            |it| it["max_age_seconds"] = json!(3_601),
            now,
            &["PINS_ONE_REGISTER", "LONG_AGE"],
        ),
        (
            |it| it["security_mode"] = json!("evaluation"),
            now,
            &["PINS_ONE_REGISTER", "EVALUATION_MODE"],
        ),
        (
            |it| drop(it.as_object_mut().unwrap().remove("model")),
            now,
            &["PINS_ONE_REGISTER", "BINDS_NO_SERVICE"],
        ),
        // Whole days and hours are counted down; exactly seven days are not soon.
        (|_| {}, "2027-12-24T23:59:59Z", &["PINS_ONE_REGISTER"]),
        (
            |_| {},
            "2027-12-24T23:59:59.001Z",
            &["ENDS_SOON", "PINS_ONE_REGISTER"],
        ),
        (
            |it| it["releases"][0]["not_after"] = json!("2027-01-10T00:00:00Z"),
            "2027-01-26T00:00:00Z",
            &["ENDS_SOON", "PINS_ONE_REGISTER"],
        ),
        (
            |it| it["releases"][0]["not_after"] = json!("2027-01-10T00:00:00Z"),
            "2027-02-01T00:00:00Z",
            &["NO_RELEASE_ACCEPTED", "PINS_ONE_REGISTER"],
        ),
        (
            |_| {},
            "2028-01-01T00:00:00Z",
            &["POLICY_EXPIRED", "PINS_ONE_REGISTER"],
        ),
    ];
    for (number, (edit, at, expected)) in cases.into_iter().enumerate() {
        let mut policy = right();
        edit(&mut policy);
        let policy = Policy::chosen_by_hand(policy.to_string().as_bytes()).unwrap();
        let review = policy.review(UnixMillis::from_rfc3339(at).unwrap());
        assert_eq!(codes(&review), expected, "case {number}");
        assert_eq!(
            review.usable,
            !["POLICY_EXPIRED", "NO_RELEASE_ACCEPTED"].contains(&codes(&review)[0])
        );
        assert_eq!(
            review.releases[1].unpinned,
            if number == 2 { vec![8] } else { vec![0, 1, 2] }
        );
    }
    for (at, text) in [
        ("2027-12-28T23:59:59Z", "in 3 days."),
        ("2027-12-30T23:59:59Z", "in 1 day."),
        ("2027-12-31T20:59:59Z", "in 3 hours."),
    ] {
        let policy = Policy::chosen_by_hand(right().to_string().as_bytes()).unwrap();
        let review = policy.review(UnixMillis::from_rfc3339(at).unwrap());
        assert!(
            review.warnings[0].text.ends_with(text),
            "{}",
            review.warnings[0].text
        );
    }
    let review = Fixture::new().policy.review(fixtures::NOW);
    assert_eq!(codes(&review), ["DEVELOPMENT_ROOT", "EVALUATION_MODE"]);
    assert_eq!(
        (&*review.root, &*review.best_verdict),
        ("development", "simulated")
    );
    let servers = Policy::with_evidence(right().to_string().as_bytes()).unwrap();
    assert_eq!(servers.review(fixtures::NOW).best_verdict, "simulated");
}

#[test]
fn unknown_doubled_and_missing_keys_are_refused() {
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
    let doubled = Policy::chosen_by_hand(doubled.as_bytes()).unwrap_err();
    assert!(doubled.to_string().contains("twice"), "{doubled}");
    let doubled = right()
        .to_string()
        .replacen("\"name\":", "\"name\":\"x\",\"name\":", 1);
    assert!(Policy::chosen_by_hand(doubled.as_bytes()).is_err());
    assert!(Policy::chosen_by_hand(&vec![b' '; 64 * 1024 + 1]).is_err());
    assert!(Policy::chosen_by_hand(b"").is_err());
}

proptest! {
    #[test]
    fn any_registers_survive_the_round_trip(
        pcrs in proptest::collection::btree_map(0..32u8, any::<[u8; 16]>(), 1..10),
        age in 1..86_400u64,
        skew in 0..600u64,
    ) {
        let mut policy = right();
        let hex = |value: &[u8; 16]| base16ct::lower::encode_string(value).repeat(3);
        let mut pcrs: serde_json::Map<_, _> = pcrs.iter().map(|(index, value)| (index.to_string(), json!(hex(value)))).collect();
        pcrs.insert("0".to_owned(), json!("ab".repeat(48)));
        policy["releases"][0]["pcrs"] = pcrs.into();
        policy["max_age_seconds"] = age.into();
        policy["clock_skew_seconds"] = skew.into();
        let read = Policy::chosen_by_hand(policy.to_string().as_bytes()).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&read.to_json()).unwrap(), policy);
    }
}
