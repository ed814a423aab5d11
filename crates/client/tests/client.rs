//! The client against hosts that are honest, broken, and hostile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use attestation::SignatureMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clearseal_client::{Batch, Client, Clock, Error, State, UnixMillis};
use fixtures::host::{Host, Mood, PATIENCE, now, vector};

fn client(host: &Host) -> Client {
    let client = Client::builder(&host.url).policy(host.policy.clone());
    client
        .accept_simulated(true)
        .timeout(PATIENCE)
        .build()
        .unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

async fn code(client: &Client) -> String {
    client
        .embed(&texts(&["one"]))
        .await
        .err()
        .map_or_else(String::new, |error| error.code().to_owned())
}

#[tokio::test]
async fn texts_become_vectors_with_a_receipt() {
    let host = Host::start(1);
    let client = client(&host);
    assert!(matches!(client.states()[0].1, State::Idle));
    let embedded = client
        .embed(&texts(&["one", "a b c d e f g h i j"]))
        .await
        .unwrap();
    assert_eq!(embedded.items[0].vector, vector("one"));
    assert_eq!(
        (embedded.items[0].tokens, embedded.items[0].truncated),
        (1, false)
    );
    assert_eq!(
        (embedded.items[1].tokens, embedded.items[1].truncated),
        (8, true)
    );
    assert!(matches!(client.states()[0].1, State::Simulated(_)));
    let bundle = embedded.answer.bundle(true).unwrap();
    let report = bundle.verify(&host.policy, || None, &mut SignatureMemory::new());
    assert_eq!(report.receipt.code, None);
    assert_eq!(host.attestations.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_simulation_that_was_not_accepted_gets_no_request() {
    let host = Host::start(2);
    let chosen = Client::builder(&host.url)
        .policy(host.policy.clone())
        .build()
        .unwrap();
    assert_eq!(code(&chosen).await, "SIMULATION_REFUSED");
    assert!(matches!(chosen.states()[0].1, State::Refused(_)));
    let bare = Client::builder(&host.url).build().unwrap();
    assert_eq!(code(&bare).await, "POLICY_MISSING");
    assert_eq!(host.sealed_requests(), 0);
    let accepted = Client::builder(&host.url)
        .accept_simulated(true)
        .build()
        .unwrap();
    assert_eq!(code(&accepted).await, "");
}

#[tokio::test]
async fn a_restart_costs_one_fresh_proof_for_all_who_meet_it() {
    let host = Host::start(3);
    let client = client(&host);
    assert_eq!(code(&client).await, "");
    host.restart();
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let text = format!("text {number}");
                let embedded = client.embed(std::slice::from_ref(&text)).await.unwrap();
                assert_eq!(embedded.items[0].vector, vector(&text));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(host.attestations.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn hostile_hosts_get_one_more_attempt_and_no_loop() {
    for (mood, expected, most) in [
        (Mood::KeyUnknown, "KEY_UNKNOWN_TWICE", 2),
        (Mood::Mixed, "KEY_UNKNOWN_TWICE", 2),
        (Mood::Busy, "BUSY", 1),
        (Mood::BusyAs("GATEWAY_BUSY"), "GATEWAY_BUSY", 1),
        (Mood::BusyAs("MEMORY_BUSY"), "MEMORY_BUSY", 1),
        (Mood::BusyAs("ENCLAVE_NOT_READY"), "ENCLAVE_NOT_READY", 2),
        (Mood::Cut, "NETWORK", 2),
        (Mood::Tamper, "OPEN_FAILED", 2),
        (Mood::Rewrite, "HOST_REFUSED", 2),
    ] {
        let host = Host::start(4);
        let client = client(&host);
        host.set(mood);
        let found = code(&client).await;
        assert!(found.ends_with(expected), "{found}");
        assert_eq!(host.sealed_requests(), most, "{expected}");
        assert!(host.attestations.load(Ordering::SeqCst) <= 2);
    }
}

#[tokio::test]
async fn a_request_to_several_outlives_all_but_one_without_a_new_attestation() {
    let host = Host::start(21);
    host.add_replica(22);
    host.add_replica(23);
    let client = Client::builder(&host.url).policy(host.policy.clone());
    let client = client
        .accept_simulated(true)
        .candidates(3)
        .timeout(PATIENCE);
    let client = client.build().unwrap();
    let embedded = client.embed(&texts(&["one"])).await.unwrap();
    assert_eq!(embedded.items[0].vector, vector("one"));
    let attestations = host.attestations.load(Ordering::SeqCst);
    assert!(attestations >= 3);
    let mut answered = std::collections::BTreeSet::new();
    for (down, requests) in [(&[][..], 9), (&[0], 4), (&[1, 2], 4), (&[0, 1], 4)] {
        host.take_down(down);
        for _ in 0..requests {
            let embedded = client.embed(&texts(&["two"])).await.unwrap();
            assert_eq!(embedded.items[0].vector, vector("two"));
            let session = embedded.answer.session();
            answered.insert(session.attestation().manifest_sha256());
            let report = embedded.answer.bundle(true).unwrap().verify(
                &host.policy,
                || None,
                &mut SignatureMemory::new(),
            );
            assert_eq!(report.receipt.code, None);
        }
    }
    assert_eq!(answered.len(), 3, "each has answered some");
    assert_eq!(host.attestations.load(Ordering::SeqCst), attestations);
}

#[tokio::test]
async fn a_request_that_is_too_long_for_several_goes_to_one() {
    let host = Host::start(29);
    host.add_replica(30);
    let client = Client::builder(&host.url).policy(host.policy.clone());
    let client = client
        .accept_simulated(true)
        .candidates(2)
        .timeout(PATIENCE);
    let client = client.build().unwrap();
    let long = "x".repeat((4 << 20) - 10_000);
    let embedded = client.embed(std::slice::from_ref(&long)).await.unwrap();
    assert_eq!(embedded.items[0].vector, vector(&long));
}

#[tokio::test]
async fn two_addresses_of_one_enclave_are_one_candidate() {
    let host = Host::start(27);
    let client = Client::builder(&host.url)
        .upstream(&host.url)
        .policy(host.policy.clone());
    let client = client
        .accept_simulated(true)
        .candidates(2)
        .timeout(PATIENCE);
    let client = client.build().unwrap();
    for _ in 0..3 {
        assert_eq!(code(&client).await, "");
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_is_not_asked_while_a_proof_is_valid() {
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", down.local_addr().unwrap());
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        // Each connection is closed at once.
        for _ in down.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let host = Host::start(28);
    let client = Client::builder(url)
        .upstream(&host.url)
        .policy(host.policy.clone())
        .accept_simulated(true)
        .timeout(PATIENCE)
        .build()
        .unwrap();
    assert_eq!(code(&client).await, "");
    let before = asked.load(Ordering::SeqCst);
    assert!(before > 0);
    for _ in 0..3 {
        assert_eq!(code(&client).await, "");
    }
    assert_eq!(asked.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn where_no_candidate_is_left_a_fresh_enclave_is_verified() {
    let host = Host::start(24);
    host.add_replica(25);
    let client = Client::builder(&host.url).policy(host.policy.clone());
    let client = client
        .accept_simulated(true)
        .candidates(2)
        .timeout(PATIENCE);
    let client = client.build().unwrap();
    client.embed(&texts(&["one"])).await.unwrap();
    host.add_replica(26);
    host.take_down(&[0, 1]);
    let embedded = client.embed(&texts(&["two"])).await.unwrap();
    assert_eq!(embedded.items[0].vector, vector("two"));
    // And the next request has candidates again.
    host.take_down(&[0]);
    client.embed(&texts(&["three"])).await.unwrap();
}

#[tokio::test]
async fn a_document_may_be_shared_and_must_hold_our_nonce() {
    let host = Host::start(17);
    host.set(Mood::Sharing);
    let client = client(&host);
    client.connect().await.unwrap();
    host.set(Mood::SharingWrongly);
    let client = self::client(&host);
    assert_eq!(code(&client).await, "NONCE_MISMATCH");
    assert_eq!(host.gateway_calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_image_that_was_swapped_in_gets_nothing() {
    let host = Host::start(5);
    let client = client(&host);
    assert_eq!(code(&client).await, "");
    host.swap_image();
    // Sealed to the keys of the enclave that is gone: the new image cannot open it.
    assert_eq!(code(&client).await, "PCR_MISMATCH");
    let sent = host.sealed_requests();
    assert_eq!(code(&client).await, "PCR_MISMATCH");
    assert_eq!(host.sealed_requests(), sent);
}

#[tokio::test]
async fn the_next_upstream_answers_where_the_first_does_not() {
    let (first, second) = (Host::start(6), Host::start(6));
    let client = Client::builder("http://127.0.0.1:1")
        .upstream(&first.url)
        .upstream(&second.url)
        .accept_simulated(true)
        .timeout(PATIENCE)
        .build()
        .unwrap();
    assert_eq!(code(&client).await, "");
    assert_eq!((first.sealed_requests(), second.sealed_requests()), (1, 0));
    for mood in [Mood::Busy, Mood::Tamper, Mood::KeyUnknown, Mood::Cut] {
        first.set(mood);
        assert_eq!(code(&client).await, "");
    }
    assert_eq!(second.sealed_requests(), 4);
    let words: Vec<_> = client
        .states()
        .iter()
        .map(|(_, state)| state.word())
        .collect();
    assert_eq!(words, ["unreachable", "simulated", "simulated"]);
}

#[tokio::test]
async fn a_second_upstream_that_is_broken_does_not_hide_that_the_first_is_busy() {
    let host = Host::start(9);
    let client = Client::builder(&host.url)
        .upstream(format!("{}/nowhere", host.url))
        .policy(host.policy.clone())
        .accept_simulated(true)
        .timeout(PATIENCE)
        .build()
        .unwrap();
    assert_eq!(code(&client).await, "");
    host.set(Mood::Busy);
    let error = client.embed(&texts(&["one"])).await.err().unwrap();
    assert_eq!(error.code(), "BUSY");
    assert!(error.is_transient());
}

#[tokio::test]
async fn an_upstream_that_is_down_does_not_hide_that_another_was_refused() {
    let (host, down) = (Host::start(10), "http://127.0.0.1:1");
    host.swap_image();
    for [first, second] in [[&host.url[..], down], [down, &host.url]] {
        let client = Client::builder(first)
            .upstream(second)
            .policy(host.policy.clone())
            .accept_simulated(true)
            .timeout(PATIENCE)
            .build()
            .unwrap();
        assert_eq!(code(&client).await, "PCR_MISMATCH");
        let error = client.connect().await.err().unwrap();
        assert!(matches!(error, Error::Refused(_)), "{error}");
    }
}

#[tokio::test]
async fn a_proof_is_renewed_before_its_end_and_never_used_after() {
    let host = Host::start(7);
    let time = Arc::new(AtomicU64::new(now().0));
    let clock = Clock::new({
        let time = Arc::clone(&time);
        move || UnixMillis(time.load(Ordering::SeqCst))
    });
    let client = Client::builder(&host.url)
        .policy(host.policy.clone())
        .accept_simulated(true)
        .clock(clock)
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let first = client.connect().await.unwrap();
    assert!(client.is_ready());
    // About to end: used, and renewed in the background.
    let margin = 30_000;
    time.store(first.valid_until().0 - margin, Ordering::SeqCst);
    // The renewal is over before the answer comes, and is refused: the client's clock was moved, the host's was not. The
    // request goes on under the proof that it began with, and its upstream is asked once.
    host.set(Mood::BusyLate);
    assert_eq!(code(&client).await, "BUSY");
    assert_eq!(host.sealed_requests(), 1);
    tokio::time::timeout(PATIENCE, async {
        while host.attestations.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    // Over: the real clock has not reached the end of the manifest, the client's has. Nothing is sealed under the old proof.
    time.store(first.valid_until().0 + 1, Ordering::SeqCst);
    let sent = host.sealed_requests();
    let error = client.embed(&texts(&["one"])).await.err().unwrap();
    assert!(
        matches!(error, Error::Refused(_) | Error::ExpiredTwice),
        "{error}"
    );
    assert_eq!(host.sealed_requests(), sent);
    assert!(!client.is_ready());
}

/// nginx refuses requests above 1 MiB unless it is told otherwise.
#[tokio::test]
async fn a_length_limit_of_a_proxy_in_between_is_named() {
    let host = Host::start(31);
    let client = client(&host);
    assert_eq!(code(&client).await, "");
    host.set(Mood::BodyLimit(64 << 10));
    assert_eq!(code(&client).await, "");
    let before = host.sealed_requests();
    let long = "x".repeat(100 << 10);
    let error = client.embed(&[long]).await.err().unwrap();
    assert_eq!(host.sealed_requests(), before + 1);
    assert_eq!(error.code(), "BODY_TOO_LARGE");
    assert!(!error.is_transient());
    let Error::Unreachable(problem) = &error else {
        panic!("{error}");
    };
    assert_eq!(problem.status, Some(413));
    let words: Vec<_> = problem.detail.split(' ').collect();
    assert!(
        words
            .iter()
            .any(|word| word.parse::<usize>().is_ok_and(|it| it > 100 << 10)),
        "{error}"
    );
    assert!(
        problem.detail.contains("a proxy in front of the host"),
        "{error}"
    );
    assert!(error.remedy().contains("client_max_body_size"), "{error}");
}

#[tokio::test]
async fn batches_are_sent_in_requests_where_a_proxy_drops_upgrades() {
    let host = Host::start(32);
    let client = client(&host);
    let (send, mut batches) = tokio::sync::mpsc::channel(64);
    let (long, short) = ("a b c d e f g h i j", "é");
    for number in 0..50 {
        let refused = if number == 20 { "" } else { short };
        let batch = Batch {
            texts: texts(&[&format!("text {number}"), refused, long]),
            tag: number,
        };
        send.send(batch).await.ok();
    }
    drop(send);
    let (mut order, mut refused, mut next) = (Vec::new(), Vec::new(), 0);
    let done = client.bulk(&mut batches, |batch, part| {
        let problem = part.without_channel.unwrap();
        assert_eq!(problem.code, "UPGRADE_REQUIRED");
        assert!(problem.remedy.contains("proxy_set_header upgrade"));
        assert_eq!(part.texts.start, next);
        next = part.texts.end % batch.texts.len();
        match part.outcome {
            Ok(embedded) => {
                for (text, item) in batch.texts[part.texts.clone()].iter().zip(&embedded.items) {
                    assert_eq!(item.vector, vector(text));
                }
            }
            Err(error) => refused.push((batch.tag, error.code().to_owned())),
        }
        order.extend(part.texts.map(|text| (batch.tag, text)));
        Ok(())
    });
    assert_eq!(done.await.unwrap(), 50);
    let expected = (0..50).flat_map(|batch| (0..3).map(move |text| (batch, text)));
    assert!(order.into_iter().eq(expected));
    assert_eq!(refused, [(20, "INPUT_EMPTY".to_owned())]);
}
