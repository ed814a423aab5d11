//! A trust policy that is replaced while its client runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clearseal_client::{
    Client, ClientBuilder, Clock, ModelPin, Policy, PolicyChange, PolicyNews, PolicySource, State,
    UnixMillis,
};
use fixtures::host::{Host, Mood, PATIENCE, now, vector};
use serde_json::{Value, json};

fn builder(host: &Host) -> ClientBuilder {
    Client::builder(&host.url)
        .policy(changed(host, |_| ()))
        .accept_simulated(true)
        .timeout(PATIENCE)
}

/// The host's policy with changes, as a file that the user chose.
fn changed(host: &Host, change: impl FnOnce(&mut Value)) -> Policy {
    let mut json: Value = serde_json::from_slice(host.policy_json()).unwrap();
    change(&mut json);
    Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap()
}

/// Accepts another image than the host's.
fn without_release(host: &Host) -> Policy {
    changed(host, |policy| {
        policy["name"] = json!("without");
        policy["releases"][0]["pcrs"]["0"] = json!("ab".repeat(48));
    })
}

async fn code(client: &Client) -> String {
    let embedded = client.embed(&["one".to_owned()]).await;
    embedded.map_or_else(|error| error.code().to_owned(), |_| String::new())
}

fn attestations(host: &Host) -> usize {
    host.attestations.load(Ordering::SeqCst)
}

#[tokio::test]
async fn nothing_is_sent_under_a_release_that_was_withdrawn() {
    let host = Host::start(41);
    let client = builder(&host).build().unwrap();
    assert_eq!(code(&client).await, "");
    let sent = host.sealed_requests();

    let change = client.set_policy(without_release(&host));
    assert_eq!(change, PolicyChange { kept: 0, ended: 1 });
    assert!(matches!(client.states()[0].1, State::Withdrawn(_)));
    assert!(!client.is_ready());
    let before = attestations(&host);
    let error = client.embed(&["one".to_owned()]).await.err().unwrap();
    assert_eq!(error.code(), "POLICY_WITHDRAWN");
    assert!(error.to_string().contains("PCR_MISMATCH"), "{error}");
    assert!(!error.is_transient());
    assert_eq!(
        attestations(&host),
        before + 1,
        "one search for another enclave"
    );
    assert_eq!(code(&client).await, "POLICY_WITHDRAWN");
    assert_eq!(host.sealed_requests(), sent);
    assert_eq!(client.states()[0].1.word(), "withdrawn");

    // Accepted again, and found by the next request.
    client.set_policy(changed(&host, |_| ()));
    assert_eq!(code(&client).await, "");
    assert_eq!(client.states()[0].1.word(), "simulated");
}

#[tokio::test]
async fn a_session_that_the_new_policy_accepts_goes_on() {
    let host = Host::start(42);
    let client = builder(&host).build().unwrap();
    assert_eq!(code(&client).await, "");
    let change = client.set_policy(changed(&host, |policy| policy["name"] = json!("second")));
    assert_eq!(change, PolicyChange { kept: 1, ended: 0 });
    assert_eq!(code(&client).await, "");
    assert_eq!(attestations(&host), 1, "its evidence was judged again");
    let session = client.connect().await.unwrap();
    assert_eq!(session.report().policy.as_ref().unwrap().name, "second");
}

#[tokio::test]
async fn a_policy_that_was_never_accepted_is_not_called_withdrawn() {
    let host = Host::start(43);
    let client = builder(&host).build().unwrap();
    client.set_policy(without_release(&host));
    assert_eq!(code(&client).await, "PCR_MISMATCH");
}

#[tokio::test]
async fn a_release_or_policy_that_the_new_policy_ends_is_withdrawn() {
    for (place, expected) in [("release", "RELEASE_EXPIRED"), ("policy", "POLICY_EXPIRED")] {
        let host = Host::start(44);
        let time = Arc::new(AtomicU64::new(now().0));
        let read = Arc::clone(&time);
        let clock = Clock::new(move || UnixMillis(read.load(Ordering::SeqCst)));
        let client = builder(&host).clock(clock).build().unwrap();
        assert_eq!(code(&client).await, "");
        let sent = host.sealed_requests();
        time.fetch_add(10_000, Ordering::SeqCst);
        // Accepted when the evidence came, and over by now.
        let end = UnixMillis(now().0 + 3_000).to_string();
        let ended = changed(&host, |policy| match place {
            "release" => policy["releases"][0]["not_after"] = json!(end),
            _ => policy["not_after"] = json!(end),
        });
        assert_eq!(client.set_policy(ended), PolicyChange { kept: 0, ended: 1 });
        let error = client.embed(&["one".to_owned()]).await.err().unwrap();
        assert_eq!(error.code(), "POLICY_WITHDRAWN");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(host.sealed_requests(), sent);
    }
}

#[tokio::test]
async fn a_policy_that_ends_sooner_ends_the_session_at_that_moment() {
    let host = Host::start(45);
    let time = Arc::new(AtomicU64::new(now().0));
    let read = Arc::clone(&time);
    let clock = Clock::new(move || UnixMillis(read.load(Ordering::SeqCst)));
    let client = builder(&host).clock(clock).build().unwrap();
    assert_eq!(code(&client).await, "");
    let end = UnixMillis(now().0 + 100_000);
    let sooner = changed(&host, |policy| policy["not_after"] = json!(end.to_string()));
    assert_eq!(
        client.set_policy(sooner),
        PolicyChange { kept: 0, ended: 1 }
    );
    assert_eq!(code(&client).await, "");
    assert_eq!(attestations(&host), 1);
    let sent = host.sealed_requests();
    time.fetch_add(110_000, Ordering::SeqCst);
    assert!(!client.is_ready());
    assert_eq!(code(&client).await, "POLICY_EXPIRED");
    assert_eq!(host.sealed_requests(), sent);
}

#[tokio::test]
async fn a_request_on_its_way_is_cut() {
    let host = Host::start(46);
    let client = builder(&host).build().unwrap();
    client.connect().await.unwrap();
    host.set(Mood::BusyLate);
    let running = tokio::spawn({
        let client = client.clone();
        async move { code(&client).await }
    });
    while host.sealed_requests() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.set_policy(without_release(&host));
    // Its answer would have been BUSY.
    assert_eq!(running.await.unwrap(), "POLICY_WITHDRAWN");
    assert_eq!(host.sealed_requests(), 1);
}

#[tokio::test]
async fn another_upstream_answers_where_one_runs_a_withdrawn_release() {
    let (old, new) = (Host::start(47), Host::start(47));
    new.swap_image();
    let both = changed(&old, |policy| {
        let mut second = policy["releases"][0].clone();
        second["name"] = json!("second");
        second["pcrs"]["0"] = json!("ab".repeat(48));
        policy["releases"].as_array_mut().unwrap().push(second);
    });
    let client = builder(&old)
        .policy(both)
        .upstream(&new.url)
        .build()
        .unwrap();
    assert_eq!(code(&client).await, "");
    assert_eq!((old.sealed_requests(), new.sealed_requests()), (1, 0));
    client.set_policy(without_release(&old));
    assert_eq!(code(&client).await, "");
    assert_eq!((old.sealed_requests(), new.sealed_requests()), (1, 1));
}

#[tokio::test]
async fn where_the_other_upstream_is_down_the_withdrawal_is_reported() {
    let host = Host::start(48);
    let client = builder(&host)
        .upstream("http://127.0.0.1:1")
        .build()
        .unwrap();
    assert_eq!(code(&client).await, "");
    client.set_policy(without_release(&host));
    assert_eq!(code(&client).await, "POLICY_WITHDRAWN");
}

#[tokio::test]
async fn none_of_several_candidates_gets_a_request_after_a_withdrawal() {
    let host = Host::start(49);
    host.add_replica(50);
    let client = builder(&host).candidates(2).build().unwrap();
    for _ in 0..3 {
        assert_eq!(code(&client).await, "");
    }
    let sent = host.sealed_requests();
    let change = client.set_policy(without_release(&host));
    assert!(change.kept == 0 && change.ended >= 2, "{change:?}");
    assert_eq!(code(&client).await, "POLICY_WITHDRAWN");
    assert_eq!(host.sealed_requests(), sent);

    client.set_policy(changed(&host, |_| ()));
    for _ in 0..3 {
        assert_eq!(code(&client).await, "");
    }
}

/// Policies change all the time while requests come: whatever began after a change is treated by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_that_begins_after_a_change_goes_out_under_the_policy_before_it() {
    let host = Host::start(51);
    let client = builder(&host).build().unwrap();
    assert_eq!(code(&client).await, "");
    for _ in 0..5 {
        client.set_policy(changed(&host, |_| ()));
        let before: Vec<_> = (0..8)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    let text = format!("text {number}");
                    match client.embed(std::slice::from_ref(&text)).await {
                        Ok(embedded) => assert_eq!(embedded.items[0].vector, vector(&text)),
                        Err(error) => assert_eq!(error.code(), "POLICY_WITHDRAWN"),
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        client.set_policy(without_release(&host));
        let after: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { code(&client).await })
            })
            .collect();
        for task in after {
            assert_eq!(task.await.unwrap(), "POLICY_WITHDRAWN");
        }
        for task in before {
            task.await.unwrap();
        }
    }
}

/// In one step, as an editor does.
fn replace(path: &std::path::Path, bytes: &[u8]) {
    let next = path.with_extension("next");
    std::fs::write(&next, bytes).unwrap();
    std::fs::rename(&next, path).unwrap();
}

/// A file that is replaced, damaged, taken away and put back.
#[tokio::test]
async fn a_file_is_followed_and_damage_to_it_changes_nothing() {
    let host = Host::start(52);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.json");
    let good = changed(&host, |_| ()).to_json();
    std::fs::write(&path, &good).unwrap();
    let mut source = PolicySource::file(&path).every(Duration::from_millis(100));
    let client = Client::builder(&host.url)
        .policy(source.load().await.unwrap())
        .accept_simulated(true)
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let (told, mut news) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn({
        let client = client.clone();
        async move {
            let tell = |news: PolicyNews<'_>| {
                let word = match news {
                    PolicyNews::Changed { name, change } => format!("{name} {}", change.ended),
                    PolicyNews::Problem(problem) => problem.code.clone(),
                    _ => "RECOVERED".to_owned(),
                };
                told.send(word).unwrap();
            };
            client.follow(source, tell).await;
        }
    });
    assert_eq!(code(&client).await, "");

    // Half of it, as where it is being written.
    replace(&path, &good.as_bytes()[..good.len() / 2]);
    assert_eq!(news.recv().await.unwrap(), "POLICY_UNREADABLE");
    assert_eq!(code(&client).await, "");
    let problem = client.policy_status().problem.unwrap();
    assert!(problem.message.contains("policy.json"), "{problem:?}");
    replace(&path, good.as_bytes());
    assert_eq!(news.recv().await.unwrap(), "RECOVERED");
    assert_eq!(client.policy_status().problem, None);

    std::fs::remove_file(&path).unwrap();
    client.refresh_policy();
    assert_eq!(news.recv().await.unwrap(), "POLICY_FILE_UNREADABLE");
    assert_eq!(code(&client).await, "");

    replace(&path, without_release(&host).to_json().as_bytes());
    assert_eq!(news.recv().await.unwrap(), "RECOVERED");
    assert_eq!(news.recv().await.unwrap(), "without 1");
    assert_eq!(client.policy_status().name.as_deref(), Some("without"));
    assert_eq!(code(&client).await, "POLICY_WITHDRAWN");
}

/// Serves a policy and its signature.
fn publish(policy: Vec<u8>, signature: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/policy.json", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            let is_signature = head[..read].starts_with(b"GET /policy.json.minisig");
            let body = match is_signature {
                true => signature.as_bytes(),
                false => &policy,
            };
            let head = format!(
                "HTTP/1.1 200 -\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(body).unwrap();
        }
    });
    url
}

#[tokio::test]
async fn that_the_first_policys_number_was_not_written_is_told() {
    let host = Host::start(53);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("policy-state.json");
    let policy = changed(&host, |policy| {
        policy["sequence"] = json!(1);
        policy["not_after"] = json!(UnixMillis(now().0 + 1_000_000).to_string());
    });
    let policy = policy.to_json().into_bytes();
    let key = release::SecretKey::from_random([7; 8], &[7; 32]);
    let signature = key.sign(&policy, now().seconds()).to_text();
    let url = publish(policy, signature);
    let mut source = PolicySource::signed(&url, &key.public().to_text(), Some(state.clone()));
    let source = source.as_mut().unwrap();
    // In the place of the file.
    std::fs::create_dir(&state).unwrap();
    let policy = source.load().await.unwrap();
    let problem = source.problem().map(|problem| problem.code().to_owned());
    assert_eq!(problem.as_deref(), Some("POLICY_STATE_NOT_WRITTEN"));
    let client = builder(&host).policy(policy).build().unwrap();
    let (told, mut news) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn({
        let client = client.clone();
        let source = std::mem::replace(source, PolicySource::file("nowhere"));
        async move {
            let tell = |news: PolicyNews<'_>| match news {
                PolicyNews::Problem(problem) => told.send(problem.code.clone()).unwrap(),
                news => panic!("{news:?}"),
            };
            client.follow(source, tell).await;
        }
    });
    let first = tokio::time::timeout(Duration::from_secs(20), news.recv());
    assert_eq!(first.await.unwrap().unwrap(), "POLICY_STATE_NOT_WRITTEN");
}

#[tokio::test]
async fn another_model_is_demanded_in_place_of_that_of_each_policy() {
    let host = Host::start(58);
    let served = builder(&host).build().unwrap();
    let served = ModelPin::of(&served.connect().await.unwrap().manifest().model);
    let of_another = |name: &str| {
        changed(&host, |policy| {
            policy["name"] = json!(name);
            policy["model"]["sha256"] = json!("cd".repeat(32));
        })
    };
    let client = builder(&host).policy(of_another("first")).build().unwrap();
    assert_eq!(code(&client).await, "MODEL_MISMATCH");
    let client = builder(&host).policy(of_another("first")).model(served);
    let client = client.build().unwrap();
    assert_eq!(code(&client).await, "");
    assert_eq!(client.set_policy(of_another("second")).kept, 1);
    assert_eq!(code(&client).await, "");
    // A policy that demands no model accepts no service, whichever model the caller demands.
    let of_none = changed(&host, |policy| {
        policy.as_object_mut().unwrap().remove("model");
    });
    assert_eq!(client.set_policy(of_none).ended, 1);
    assert_eq!(code(&client).await, "POLICY_WITHDRAWN");
}
