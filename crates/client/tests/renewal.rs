//! When a proof is made and renewed, and as of which moment it is judged.

#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use attestation::RowState;
use clearseal_client::{Client, ClientBuilder, Clock, Policy, UnixMillis, blocking};
use fixtures::host::{Host, PATIENCE, Rotation, now};
use serde_json::{Value, json};

const ROTATION: Rotation = Rotation {
    every: 600,
    overlap: 600,
    linger: 60,
};

fn builder(host: &Host) -> ClientBuilder {
    Client::builder(&host.url)
        .policy(changed(host, |_| ()))
        .accept_simulated(true)
        .timeout(PATIENCE)
}

fn changed(host: &Host, change: impl FnOnce(&mut Value)) -> Policy {
    let mut json: Value = serde_json::from_slice(host.policy_json()).unwrap();
    change(&mut json);
    Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap()
}

async fn code(client: &Client) -> String {
    let embedded = client.embed(&["one".to_owned()]).await;
    embedded.map_or_else(|error| error.code().to_owned(), |_| String::new())
}

fn attestations(host: &Host) -> usize {
    host.attestations.load(Ordering::SeqCst)
}

async fn until(what: impl Fn() -> bool) {
    tokio::time::timeout(PATIENCE, async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn lists_that_come_late_neither_move_the_clock_nor_delay_the_proof() {
    let host = Host::start(61);
    host.publish(|forgery| forgery.crls());
    host.delay_crls(Duration::from_secs(20));
    let client = builder(&host).build().unwrap();
    let session = tokio::time::timeout(Duration::from_secs(15), client.connect());
    let session = session.await.unwrap().unwrap();
    let attestation = session.attestation();
    let apart = attestation.judged_at().0 - attestation.claims().timestamp.0;
    assert!(apart < 5_000, "{apart} ms");
}

#[tokio::test]
async fn lists_that_the_policy_requires_are_waited_for() {
    let host = Host::start(62);
    host.publish(|forgery| forgery.crls());
    host.delay_crls(Duration::from_secs(6));
    let policy = changed(&host, |policy| policy["revocation"] = json!("required"));
    let client = builder(&host).policy(policy).build().unwrap();
    let session = client.connect().await.unwrap();
    let rows = &session.report().checks;
    let row = rows.iter().find(|row| row.id == 27).unwrap();
    assert_eq!(row.state, RowState::Passed);
    let attestation = session.attestation();
    let apart = attestation.judged_at().0 - attestation.claims().timestamp.0;
    assert!(apart < 5_000, "{apart} ms");
}

/// As where a machine slept in between.
#[tokio::test]
async fn evidence_that_took_too_long_is_a_timeout_and_not_a_refusal() {
    let host = Host::start(63);
    let time = Arc::new(AtomicU64::new(now().0));
    let read = Arc::clone(&time);
    let clock = Clock::new(move || UnixMillis(read.load(Ordering::SeqCst)));
    let client = builder(&host).clock(clock).build().unwrap();
    host.stall(true);
    let connecting = tokio::spawn({
        let client = client.clone();
        async move { client.connect().await }
    });
    until(|| attestations(&host) == 1).await;
    time.fetch_add(600_000, Ordering::SeqCst);
    host.stall(false);
    let error = connecting.await.unwrap().err().unwrap();
    assert_eq!(error.code(), "TIMEOUT");
    assert_eq!(client.states()[0].1.word(), "unreachable");
}

#[test]
fn a_renewal_goes_on_while_no_call_waits() {
    let host = Host::start(64);
    host.rotate(ROTATION);
    let client = builder(&host)
        .clock(Clock::new(host.clock()))
        .renew_before(Duration::from_secs(300));
    let client = blocking::Client::new(client.build().unwrap()).unwrap();
    let first = client.connect().unwrap();
    host.advance(Duration::from_secs(1_000));
    host.stall(true);
    // The renewal runs in the background and takes longer than the request.
    client.embed(&["one".to_owned()]).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while attestations(&host) < 2 && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    host.stall(false);
    let is_renewed = || {
        let states = client.states();
        let session = states[0].1.session().unwrap();
        session.valid_until() > first.valid_until()
    };
    while !is_renewed() {
        assert!(std::time::Instant::now() < deadline, "not renewed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn keys_are_replaced_before_the_enclave_stops_taking_requests_to_them() {
    for rotation in [
        ROTATION,
        Rotation {
            every: 60,
            overlap: 60,
            ..ROTATION
        },
        Rotation {
            every: 3_600,
            ..ROTATION
        },
    ] {
        let host = Host::start(65);
        host.rotate(rotation);
        let client = builder(&host).clock(Clock::new(host.clock()));
        let client = client.build().unwrap();
        let step = rotation.overlap / 6;
        let mut renewals = 0;
        for _ in 0..2 * (rotation.every + rotation.overlap) / step {
            let before = client.connect().await.unwrap();
            assert_eq!(code(&client).await, "");
            // Time for the background attestation.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let after = client.connect().await.unwrap();
            renewals += u32::from(after.valid_until() > before.valid_until());
            host.advance(Duration::from_secs(step));
        }
        assert_eq!(host.unknown_keys.load(Ordering::SeqCst), 0);
        assert!(renewals >= 2, "{renewals}");
    }
}

#[tokio::test]
async fn an_end_that_no_renewal_moves_is_not_asked_about_again_and_again() {
    let host = Host::start(66);
    let end = UnixMillis(now().0 + 50_000).to_string();
    let policy = changed(&host, |policy| policy["not_after"] = json!(end));
    let client = builder(&host).policy(policy).build().unwrap();
    for _ in 0..30 {
        assert_eq!(code(&client).await, "");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert!(attestations(&host) <= 3, "{}", attestations(&host));
}

#[tokio::test]
async fn an_attestation_that_is_given_up_leaves_the_state_as_it_was() {
    let host = Host::start(67);
    let client = builder(&host).build().unwrap();
    host.stall(true);
    let connect = tokio::time::timeout(Duration::from_millis(300), client.connect());
    assert!(connect.await.is_err());
    assert_eq!(client.states()[0].1.word(), "idle");
    host.stall(false);
    assert_eq!(code(&client).await, "");
}
