//! Revocation lists on the command line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{AT, Fixture, NOW};
use base64ct::{Base64, Encoding};
use serde_json::Value;

/// A fixture with a policy that requires lists, and the lists of root and regional CA.
fn fixture(name: &str) -> Fixture {
    let fixture = Fixture::new(name);
    let mut policy = fixture.policy();
    policy["revocation"] = "required".into();
    fixture.write("required.json", policy.to_string().as_bytes());
    let forgery = fixture.issuer.forge(&fixture.contents, NOW);
    let root = forgery.sign_crl(&forgery.crl(0), 0);
    let mut crl = forgery.crl(1);
    let regional = forgery.sign_crl(&crl, 1);
    let pem = format!(
        "-----BEGIN X509 CRL-----\n{}\n-----END X509 CRL-----\n",
        Base64::encode_string(&regional)
    );
    crl.entries.push(forgery.revocation(2));
    fixture.write("root.crl", &root);
    fixture.write("regional.pem", pem.as_bytes());
    fixture.write("revoking.crl", &forgery.sign_crl(&crl, 1));
    fixture
}

fn row(report: &Value) -> (String, String) {
    let rows = report["checks"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == 27).unwrap();
    let member = |name: &str| row[name].as_str().unwrap().to_owned();
    (member("state"), member("observed"))
}

#[test]
fn lists_are_judged_and_a_policy_may_require_them() {
    let fixture = fixture("revocation");
    let verify = |policy: &str, lists: &[&str]| {
        let base = [
            "verify",
            "attestation",
            "document.cbor",
            "--json",
            "--at",
            AT,
        ];
        let mut arguments = [&base[..], &["--accept-authentic", "--policy", policy]].concat();
        for list in lists {
            arguments.extend(["--crl", list]);
        }
        fixture.run(&arguments)
    };
    let none = verify("policy.json", &[]);
    assert_eq!(row(&none.json()).0, "skipped", "{}", none.err);
    assert_eq!(none.json()["code"], Value::Null);
    assert_eq!(
        verify("required.json", &[]).json()["code"],
        "REVOCATION_UNKNOWN"
    );
    let one = verify("required.json", &["root.crl"]);
    assert_eq!(one.json()["code"], "REVOCATION_UNKNOWN");
    let both = verify("required.json", &["root.crl", "regional.pem"]).json();
    assert_eq!(both["code"], Value::Null);
    assert_eq!(
        row(&both),
        (
            "passed".to_owned(),
            "Not revoked: regional, zonal; per CRL of 2027-01-15T07:00:00Z, good until 2027-01-22T08:00:00Z".to_owned()
        )
    );
    for policy in ["policy.json", "required.json"] {
        let revoked = verify(policy, &["root.crl", "revoking.crl"]);
        assert_eq!(revoked.status, 1);
        assert_eq!(revoked.json()["code"], "CERTIFICATE_REVOKED");
        assert_eq!(revoked.json()["verdict"], "refused");
    }
    let missing = verify("policy.json", &["absent.crl"]);
    assert_eq!(missing.status, 2);
    fixture.write("empty.crl", b"");
    assert_eq!(verify("policy.json", &["empty.crl"]).status, 2);
}

#[test]
fn an_inspection_says_of_what_it_had_no_list() {
    let fixture = fixture("revocation-inspect");
    let run = fixture.run(&[
        "inspect",
        "attestation",
        "document.cbor",
        "--root",
        "root.der",
        "--at",
        AT,
        "--crl",
        "root.crl",
        "--json",
    ]);
    assert_eq!(run.status, 0, "{}", run.err);
    let (state, observed) = row(&run.json());
    assert_eq!(state, "skipped");
    assert!(observed.ends_with("No CRL about the zonal"), "{observed}");
}
