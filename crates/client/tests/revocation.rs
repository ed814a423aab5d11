//! Revocation lists between a client and a host that serves, withholds or revokes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use attestation::{Policy, RowState, SignatureMemory};
use clearseal_client::{Client, Error};
use fixtures::host::{Host, PATIENCE};

/// A client under the host's own policy, which also requires revocation lists or does not.
fn client(host: &Host, required: bool) -> Client {
    Client::builder(&host.url)
        .policy(policy(host, required))
        .accept_simulated(true)
        .timeout(PATIENCE)
        .build()
        .unwrap()
}

fn policy(host: &Host, required: bool) -> Policy {
    let mut json: serde_json::Value = serde_json::from_str(&host.policy.to_json()).unwrap();
    if required {
        json["revocation"] = "required".into();
    }
    Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap()
}

async fn outcome(client: &Client) -> Result<RowState, String> {
    match client.connect().await {
        Ok(session) => {
            let rows = &session.report().checks;
            Ok(rows.iter().find(|row| row.id == 27).unwrap().state)
        }
        Err(Error::Refused(report)) => Err(report.code.clone().unwrap()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_host_that_withholds_lists_is_refused_where_the_policy_requires_them() {
    let host = Host::start(91);
    assert_eq!(outcome(&client(&host, false)).await, Ok(RowState::Skipped));
    let withheld = outcome(&client(&host, true)).await;
    assert_eq!(withheld, Err("REVOCATION_UNKNOWN".to_owned()));
    host.publish(|forgery| forgery.crls());
    assert_eq!(outcome(&client(&host, true)).await, Ok(RowState::Passed));
    assert_eq!(outcome(&client(&host, false)).await, Ok(RowState::Passed));
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_under_every_policy() {
    let host = Host::start(92);
    host.publish(|forgery| {
        let mut crl = forgery.crl(1);
        crl.entries.push(forgery.revocation(2));
        forgery.sign_crl(&crl, 1)
    });
    for required in [false, true] {
        let refused = outcome(&client(&host, required)).await;
        assert_eq!(refused, Err("CERTIFICATE_REVOKED".to_owned()));
    }
}

#[tokio::test]
async fn a_bundle_keeps_the_lists_that_its_session_was_judged_with() {
    let host = Host::start(93);
    host.publish(|forgery| forgery.crls());
    let client = client(&host, true);
    let embedded = client.embed(&["one".to_owned()]).await.unwrap();
    let bundle = embedded.answer.bundle(false).unwrap();
    assert!(!bundle.crls.is_empty());
    let json = bundle.to_json().unwrap();
    let mut again = clearseal_client::AuditBundle::from_json(&json).unwrap();
    let judge = |bundle: &clearseal_client::AuditBundle| {
        let report = bundle.verify(&policy(&host, true), || None, &mut SignatureMemory::new());
        report.attestation.code
    };
    assert_eq!(judge(&again), None);
    again.crls.clear();
    assert_eq!(judge(&again).as_deref(), Some("REVOCATION_UNKNOWN"));
}

#[tokio::test]
async fn only_lists_of_the_chain_are_kept_and_each_once() {
    let (host, other) = (Host::start(94), Host::start(95));
    let (mut own, mut foreign) = (Vec::new(), Vec::new());
    other.publish(|forgery| {
        // Both hosts' roots have one name.
        foreign = [1, 2]
            .map(|at| forgery.sign_crl(&forgery.crl(at), at))
            .concat();
        Vec::new()
    });
    host.publish(|forgery| {
        own = forgery.crls();
        [&foreign[..], &own, &own, &foreign].concat()
    });
    let session = client(&host, true).connect().await.unwrap();
    assert_eq!(session.crl_bytes(), own);
}

#[tokio::test]
async fn a_proof_ends_with_the_lists_that_its_policy_requires() {
    let host = Host::start(96);
    let soon = fixtures::host::now().seconds() + 900;
    host.publish(|forgery| {
        let mut all = forgery.crls();
        let mut short = forgery.crl(1);
        short.next_update = forge::der::time(soon);
        all.extend(forgery.sign_crl(&short, 1));
        all
    });
    let until = async |required| {
        let session = client(&host, required).connect().await.unwrap();
        session.attestation().valid_until().seconds()
    };
    assert!(until(false).await > soon);
    assert!(until(true).await > soon, "another list lasts longer");
    host.publish(|forgery| {
        let mut lists = Vec::new();
        for place in 0..3 {
            let mut short = forgery.crl(place);
            short.next_update = forge::der::time(soon);
            lists.extend(forgery.sign_crl(&short, place));
        }
        lists
    });
    assert!(until(false).await > soon);
    assert_eq!(until(true).await, soon);
}
