//! Requests that are sealed to several enclaves.

#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clearseal_client::{Client, ClientBuilder, Clock, UnixMillis};
use fixtures::host::{Host, Mood, PATIENCE, now};

/// So many candidates at several hosts, each judged by its own policy.
fn builder(hosts: &[&Host], candidates: usize) -> ClientBuilder {
    let (first, others) = hosts.split_first().unwrap();
    let mut builder = Client::builder(&first.url)
        .accept_simulated(true)
        .candidates(candidates)
        .timeout(PATIENCE);
    for host in others {
        builder = builder.upstream(&host.url);
    }
    builder
}

async fn code(client: &Client) -> String {
    let embedded = client.embed(&["one".to_owned()]).await;
    embedded.map_or_else(|error| error.code().to_owned(), |_| String::new())
}

#[tokio::test]
async fn no_further_candidate_gets_a_request_after_the_end_of_a_proof() {
    let host = Host::start(71);
    host.add_replica(72);
    let time = Arc::new(AtomicU64::new(now().0));
    let read = Arc::clone(&time);
    let clock = Clock::new(move || UnixMillis(read.load(Ordering::SeqCst)));
    let client = builder(&[&host], 2).clock(clock).build().unwrap();
    assert_eq!(code(&client).await, "");
    let sent = host.sealed_requests();
    host.set(Mood::BusyLate);
    let running = tokio::spawn({
        let client = client.clone();
        async move { code(&client).await }
    });
    while host.sealed_requests() == sent {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let end = client.connect().await.unwrap().valid_until();
    time.store(end.0 + 10_000, Ordering::SeqCst);
    assert_ne!(running.await.unwrap(), "");
    assert_eq!(host.sealed_requests(), sent + 1);
}

#[tokio::test]
async fn a_search_that_is_given_up_is_not_made_again_at_once() {
    let host = Host::start(73);
    let client = builder(&[&host], 3).build().unwrap();
    client.connect().await.unwrap();
    host.stall(true);
    let first = tokio::time::timeout(Duration::from_millis(500), code(&client));
    assert!(first.await.is_err());
    let second = tokio::time::timeout(Duration::from_secs(5), code(&client));
    assert_eq!(second.await.unwrap(), "");
}

#[tokio::test]
async fn where_all_candidates_are_busy_the_other_upstreams_are_asked() {
    let (first, second, third) = (Host::start(74), Host::start(75), Host::start(76));
    let client = builder(&[&first, &second, &third], 2).build().unwrap();
    for _ in 0..4 {
        assert_eq!(code(&client).await, "");
    }
    first.set(Mood::Busy);
    second.set(Mood::Busy);
    let sent = first.sealed_requests() + second.sealed_requests();
    assert_eq!(code(&client).await, "");
    let sent = first.sealed_requests() + second.sealed_requests() - sent;
    assert!(sent <= 2, "{sent}: each is asked once");
    third.set(Mood::Busy);
    assert_eq!(code(&client).await, "BUSY");
}

#[tokio::test]
async fn a_candidate_without_a_usable_key_is_left_out() {
    let host = Host::start(77);
    host.add_replica(78);
    host.add_keyless_replica(79);
    let client = builder(&[&host], 3).build().unwrap();
    for _ in 0..6 {
        assert_eq!(code(&client).await, "");
    }
}

#[tokio::test]
async fn an_upstream_that_is_stalled_does_not_delay_a_verified_one() {
    let (good, stalled) = (Host::start(80), Host::start(81));
    stalled.stall(true);
    let client = builder(&[&good, &stalled], 2).build().unwrap();
    for _ in 0..3 {
        let answer = tokio::time::timeout(Duration::from_secs(10), code(&client));
        assert_eq!(answer.await.unwrap(), "");
    }
    stalled.stall(false);
}

#[tokio::test]
async fn a_session_whose_keys_are_unknown_is_no_candidate_any_more() {
    let host = Host::start(82);
    host.add_replica(83);
    let client = builder(&[&host], 2).build().unwrap();
    let first = client.connect().await.unwrap();
    for _ in 0..3 {
        assert_eq!(code(&client).await, "");
    }
    host.restart();
    let is_first = || {
        let states = client.states();
        Arc::ptr_eq(states[0].1.session().unwrap(), &first)
    };
    // The session is replaced in the background.
    for _ in 0..100 {
        assert_eq!(code(&client).await, "");
        if !is_first() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the session whose keys are unknown is still there");
}
