//! Key policies: written from a trust policy, and judged against one.

mod common;

use common::{AT, Scene};
use serde_json::{Value, json};

const ROLE: &str = "arn:aws:iam::111122223333:role/parent";

fn scene(name: &str) -> Scene {
    let scene = Scene::new(name);
    let mut policy = scene.policy();
    policy["root"] = "aws-nitro-enclaves-g1".into();
    policy["model"] = json!({ "id": "model", "sha256": "04".repeat(32) });
    scene.write("trust.json", policy.to_string().as_bytes());
    scene
}

#[test]
fn what_is_written_holds_and_a_careless_change_is_refused() {
    let scene = scene("kms-policy");
    let written = scene.run(&[
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
    scene.write("key.json", written.out.as_bytes());
    let verify = |file: &str| {
        scene.run(&[
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
    scene.write("hole.json", policy.to_string().as_bytes());
    let refused = verify("hole.json");
    assert_eq!(refused.status, 1);
    assert_eq!(refused.json()["checks"][0]["code"], "UNATTESTED_DECRYPT");
    assert_eq!(
        refused.json()["checks"][0]["ways"][0]["code"],
        "DENY_SPARES_PRINCIPALS"
    );

    scene.write("other.json", b"{\"Version\":\"2012-10-17\",\"Comment\":1}");
    let unreadable = verify("other.json");
    assert_eq!(
        (unreadable.status, unreadable.json()["code"].clone()),
        (1, json!("KEY_POLICY_UNREADABLE"))
    );
    assert_eq!(verify("absent.json").status, 2);
}

#[test]
fn only_a_role_can_be_named() {
    let scene = scene("kms-roles");
    for role in [
        "*",
        "arn:aws:iam::111122223333:root",
        "arn:aws:iam::111122223333:role/*",
        "111122223333",
    ] {
        let run = scene.run(&[
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
