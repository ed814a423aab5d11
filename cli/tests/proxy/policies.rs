//! Trust policies that change while the proxy runs.

use super::{Host, Mood, Proxy, folder, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;

fn hang_up(proxy: &Proxy) {
    let pid = proxy.child.id().to_string();
    let sent = Command::new("kill").args(["-HUP", &pid]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_release_that_the_policy_withdraws_gets_no_further_request() {
    let host = Host::start(17);
    let path = folder("proxy-policy").join("policy.json");
    let mut policy: Value = serde_json::from_slice(host.policy_json()).unwrap();
    let replace = |policy: &str| {
        let next = path.with_extension("next");
        std::fs::write(&next, policy).unwrap();
        std::fs::rename(&next, &path).unwrap();
    };
    replace(&policy.to_string());
    let proxy = Proxy::start(&[&host], &["--policy", path.to_str().unwrap()]);
    assert!(proxy.is_right("a"));

    // Damage changes nothing, and is shown.
    replace("{");
    hang_up(&proxy);
    let health = wait_for(&proxy, |health| !health["policy"]["problem"].is_null());
    assert_eq!(health["policy"]["problem"]["code"], "POLICY_UNREADABLE");
    let (_, _, page) = proxy.get("/");
    assert!(page.contains("POLICY_UNREADABLE"), "{page}");
    assert!(proxy.is_right("b"));

    let sent = host.sealed_requests();
    policy["name"] = json!("without");
    policy["releases"][0]["pcrs"]["0"] = json!("ab".repeat(48));
    replace(&policy.to_string());
    // Without a signal: within seconds.
    let health = wait_for(&proxy, |health| health["policy"]["name"] == "without");
    assert_eq!(health["policy"]["problem"], Value::Null);
    assert_eq!(health["ready"], false);
    let (status, _, body) = proxy.embed("a secret", "");
    assert_eq!(
        (status, &body["error"]["code"]),
        (503, &json!("POLICY_WITHDRAWN")),
        "{body}"
    );
    assert_eq!(host.sealed_requests(), sent);
    let (_, _, page) = proxy.get("/");
    assert!(page.contains("WITHDRAWN"), "{page}");

    replace(std::str::from_utf8(host.policy_json()).unwrap());
    hang_up(&proxy);
    wait_for(&proxy, |health| health["policy"]["name"] != "without");
    assert!(proxy.is_right("c"));
}

/// One place: the second request waits for it while the policy is changed.
#[test]
fn a_request_that_waited_for_a_place_is_judged_by_the_policy_of_its_turn() {
    let host = Host::start(18);
    let path = folder("proxy-policy-race").join("policy.json");
    let mut policy: Value = serde_json::from_slice(host.policy_json()).unwrap();
    std::fs::write(&path, policy.to_string()).unwrap();
    let arguments = ["--policy", path.to_str().unwrap(), "--concurrency", "1"];
    let proxy = Proxy::start(&[&host], &arguments);
    host.set(Mood::BusyLate);
    std::thread::scope(|scope| {
        let requests: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| proxy.embed("a secret", "")))
            .collect();
        while host.sealed_requests() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        policy["name"] = json!("without");
        policy["releases"][0]["pcrs"]["0"] = json!("ab".repeat(48));
        std::fs::write(&path, policy.to_string()).unwrap();
        hang_up(&proxy);
        wait_for(&proxy, |health| health["policy"]["name"] == "without");
        let sent = host.sealed_requests();
        let codes: Vec<_> = requests
            .into_iter()
            .map(|request| request.join().unwrap().2["error"]["code"].clone())
            .collect();
        assert!(codes.contains(&json!("POLICY_WITHDRAWN")), "{codes:?}");
        assert!(
            host.sealed_requests() <= sent,
            "a request left after the change"
        );
    });
}

/// Serves a policy, and its signature at the next address.
struct Publisher {
    url: String,
    served: std::sync::Arc<std::sync::Mutex<(String, String)>>,
}

impl Publisher {
    fn key(seed: u8) -> release::SecretKey {
        release::SecretKey::from_random([seed; 8], &[seed; 32])
    }

    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/policy.json", listener.local_addr().unwrap());
        let served = std::sync::Arc::<std::sync::Mutex<(String, String)>>::default();
        let shared = std::sync::Arc::clone(&served);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(line)) = head.next() else {
                    continue;
                };
                while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let (policy, signature) = shared.lock().unwrap().clone();
                let body = match line.contains(".minisig ") {
                    true => signature,
                    false => policy,
                };
                let length = body.len();
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
                let _ = write!(stream, "{head} {length}\r\n\r\n{body}");
            }
        });
        Self { url, served }
    }

    fn publish(&self, policy: &Value, signed_by: u8) {
        let policy = policy.to_string();
        let signature = Self::key(signed_by).sign(policy.as_bytes(), 1_800_000_000);
        *self.served.lock().unwrap() = (policy, signature.to_text());
    }
}

#[test]
fn a_signed_policy_is_followed_and_never_rolled_back() {
    let host = Host::start(19);
    let folder = folder("proxy-signed-policy");
    let state = folder.join("policy-state.json");
    let publisher = Publisher::start();
    let mut policy: Value = serde_json::from_slice(host.policy_json()).unwrap();
    policy["not_after"] = json!("2199-01-01T00:00:00Z");
    let policy = |number: u64, accepts: bool| {
        let mut policy = policy.clone();
        policy["sequence"] = json!(number);
        policy["name"] = json!(format!("number {number}"));
        if !accepts {
            policy["releases"][0]["pcrs"]["0"] = json!("ab".repeat(48));
        }
        policy
    };
    let key = Publisher::key(7).public().to_text();
    let key = key.lines().nth(1).unwrap().to_owned();
    let url = publisher.url.clone();
    let arguments = |state: &Path| {
        let state = state.to_str().unwrap().to_owned();
        let every = ["--policy-every".to_owned(), "1".to_owned()];
        let given = [
            "--policy-url".to_owned(),
            url.clone(),
            "--policy-key".to_owned(),
            key.clone(),
            "--policy-state".to_owned(),
            state,
        ];
        [&given[..], &every].concat()
    };
    let arguments = arguments(&state);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    publisher.publish(&policy(5, true), 7);
    let proxy = Proxy::start(&[&host], &arguments);
    assert!(proxy.is_right("a"));
    let problem = |code: &'static str| {
        move |health: &Value| health["policy"]["problem"]["code"] == json!(code)
    };

    publisher.publish(&policy(9, false), 8);
    wait_for(&proxy, problem("POLICY_SIGNED_BY_OTHER"));
    publisher.publish(&policy(4, false), 7);
    wait_for(&proxy, problem("POLICY_ROLLED_BACK"));
    publisher.served.lock().unwrap().0.push(' ');
    wait_for(&proxy, problem("POLICY_SIGNATURE_INVALID"));
    assert!(proxy.is_right("b"));

    let sent = host.sealed_requests();
    publisher.publish(&policy(6, false), 7);
    let health = wait_for(&proxy, |health| health["policy"]["name"] == "number 6");
    assert_eq!(health["policy"]["problem"], Value::Null);
    let (status, _, body) = proxy.embed("a secret", "");
    assert_eq!(
        (status, &body["error"]["code"]),
        (503, &json!("POLICY_WITHDRAWN"))
    );
    // The policy that accepted the release, again.
    publisher.publish(&policy(5, true), 7);
    wait_for(&proxy, problem("POLICY_ROLLED_BACK"));
    let (status, ..) = proxy.embed("a secret", "");
    assert_eq!(status, 503);
    assert_eq!(host.sealed_requests(), sent);
    drop(proxy);

    // After a restart, too.
    let output = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args(["proxy", "--accept-simulated", "--url", &host.url])
        .args(&arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("POLICY_ROLLED_BACK"), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(host.sealed_requests(), sent);
}
