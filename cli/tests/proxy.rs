//! `clearseal proxy` as a process: what OpenAI's clients see, and what web pages and broken hosts do not get.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gates;
mod receipts;

use attestation::SignatureMemory;
use fixtures::host::{Host, MODEL, Mood, PATIENCE, vector};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Proxy {
    child: Child,
    address: String,
}

impl Proxy {
    fn start(hosts: &[&Host], more: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_clearseal")), hosts, more).0
    }

    /// Starts it with a command that ends as the proxy's own does. Returns the lines that it printed until it was ready, too.
    fn start_by(mut command: Command, hosts: &[&Host], more: &[&str]) -> (Self, Vec<String>) {
        command.args(["proxy", "--accept-simulated", "--listen", "127.0.0.1:0"]);
        for host in hosts {
            command.args(["--url", &host.url]);
        }
        // Broken hosts stay broken in most tests.
        if !more.contains(&"--wait") {
            command.args(["--wait", "0"]);
        }
        let mut child = command.args(more).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut printed = Vec::new();
        let address = loop {
            let line = lines.next().unwrap().unwrap();
            if let Some(rest) = line.strip_prefix("OpenAI's API is on http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
            printed.push(line);
        };
        // Read to the end: the pipe is neither full nor closed.
        std::thread::spawn(move || lines.for_each(drop));
        (Self { child, address }, printed)
    }

    fn send(&self, head: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "{head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String, String) {
        self.send(
            &format!("GET {path} HTTP/1.1\r\nhost: {}", self.address),
            "",
        )
    }

    fn embed(&self, text: &str, fields: &str) -> (u16, String, Value) {
        let body = json!({"model": MODEL, "input": text, "encoding_format": "float"}).to_string();
        let (status, head, body) = self.send(
            &format!(
                "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json{fields}"
            ),
            &body,
        );
        (status, head, serde_json::from_str(&body).unwrap())
    }

    fn is_right(&self, text: &str) -> bool {
        let (status, _, body) = self.embed(text, "");
        let right = body["data"][0]["embedding"] == json!(vector(text));
        assert!(right || status != 200, "a wrong answer: {body}");
        right
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn plain_openai_in_and_sealed_answers_out() {
    let host = Host::start(11);
    let receipts = folder("proxy-receipts").join("receipts.jsonl");
    let proxy = Proxy::start(
        &[&host],
        &[
            "--receipts",
            receipts.to_str().unwrap(),
            "--receipts-size",
            "20000",
        ],
    );
    let (status, head, body) = proxy.embed("a sentence", "\r\nauthorization: Bearer sk-anything");
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["data"][0]["embedding"], json!(vector("a sentence")));
    assert!(head.contains("clearseal-receipt: "), "{head}");
    assert!(!head.contains("access-control"), "{head}");
    let (status, _, models) = proxy.get("/v1/models");
    assert_eq!(status, 200);
    assert!(models.contains(MODEL));
    // A refusal of the enclave arrives unchanged.
    let (status, _, body) = proxy.get("/v1/nothing");
    assert_eq!((status, body.contains("ENDPOINT_UNKNOWN")), (404, true));
    for number in 0..3 {
        assert!(proxy.is_right(&format!("text {number}")));
    }
    let rotated = receipts.with_extension("jsonl.1");
    let lines: Vec<String> = [&rotated, &receipts]
        .iter()
        .flat_map(|path| {
            std::fs::read_to_string(path)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(lines.len(), 4, "one line for each inference");
    for line in lines {
        let bundle = clearseal_client::AuditBundle::from_json(&line).unwrap();
        assert_eq!(
            bundle
                .verify(&host.policy, || None, &mut SignatureMemory::new())
                .receipt
                .code,
            None
        );
    }
    let (status, _, page) = proxy.get("/");
    assert_eq!(status, 200);
    assert!(
        page.contains("SIMULATED") && page.contains("5 answered"),
        "{page}"
    );
    let (status, _, health) = proxy.get("/healthz");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!((status, &health["ready"]), (200, &json!(true)));
}

#[test]
fn web_pages_and_wrong_keys_are_refused_before_anything_is_sealed() {
    let host = Host::start(12);
    let proxy = Proxy::start(&[&host], &["--api-key", "secret"]);
    let post =
        |fields: &str| proxy.send(&format!("POST /v1/embeddings HTTP/1.1\r\n{fields}"), "{}");
    for (fields, status, code) in [
        ("host: evil.example", 403, "HOST_NOT_LOCAL"),
        ("host: evil.example:8788", 403, "HOST_NOT_LOCAL"),
        (
            "host: localhost\r\norigin: https://evil.example",
            403,
            "ORIGIN_REFUSED",
        ),
        ("host: localhost\r\norigin: null", 403, "ORIGIN_REFUSED"),
        ("host: localhost", 401, "API_KEY_WRONG"),
        (
            "host: localhost\r\nauthorization: Bearer secret2",
            401,
            "API_KEY_WRONG",
        ),
        (
            "host: localhost\r\nauthorization: secret",
            401,
            "API_KEY_WRONG",
        ),
    ] {
        let (found, _, body) = post(fields);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (found, &body["error"]["code"]),
            (status, &json!(code)),
            "{fields}"
        );
    }
    let (status, ..) = proxy.send("DELETE /v1/models HTTP/1.1\r\nhost: localhost", "");
    assert_eq!(status, 405);
    assert_eq!(host.sealed_requests(), 0);
    let (status, ..) = proxy.embed("a", "\r\nauthorization: Bearer secret");
    assert_eq!(status, 200);
}

#[test]
fn it_does_not_start_on_anything_else_than_an_accepted_verdict() {
    let host = Host::start(13);
    let folder = folder("proxy-start");
    std::fs::write(folder.join("policy.json"), host.policy_json()).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_clearseal"))
            .args(["proxy", "--url", &host.url])
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (status, stderr) = run(&["--policy", "policy.json"]);
    assert_eq!(
        (status, stderr.contains("SIMULATION_REFUSED")),
        (Some(1), true),
        "{stderr}"
    );
    let (status, stderr) = run(&[]);
    assert_eq!(
        (status, stderr.contains("--policy FILE")),
        (Some(2), true),
        "{stderr}"
    );
    let (status, stderr) = run(&["--accept-simulated", "--listen", "0.0.0.0:0"]);
    assert_eq!(
        (status, stderr.contains("--allow-remote")),
        (Some(2), true),
        "{stderr}"
    );
    host.swap_image();
    let (status, stderr) = run(&["--policy", "policy.json", "--accept-simulated"]);
    assert_eq!(
        (status, stderr.contains("PCR_MISMATCH")),
        (Some(1), true),
        "{stderr}"
    );
    assert_eq!(host.sealed_requests(), 0);
}

#[test]
fn five_hundred_at_once_while_the_enclave_restarts_and_no_wrong_answer() {
    let host = Host::start(14);
    let proxy = Proxy::start(&[&host], &[]);
    let answered = std::thread::scope(|scope| {
        let proxy = &proxy;
        let tasks: Vec<_> = (0..500)
            .map(|number| scope.spawn(move || proxy.is_right(&format!("text {number}"))))
            .collect();
        for _ in 0..3 {
            host.restart();
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        tasks
            .into_iter()
            .map(|task| u32::from(task.join().unwrap()))
            .sum::<u32>()
    });
    assert!(answered > 0);
    assert!(proxy.is_right("after"), "the proxy did not recover");
}

#[test]
fn broken_hosts_give_openai_errors_and_the_next_upstream_answers() {
    let (first, second) = (Host::start(15), Host::start(15));
    let alone = Proxy::start(&[&first], &[]);
    let both = Proxy::start(&[&first, &second], &[]);
    for (mood, code) in [
        (Mood::Busy, "BUSY"),
        (Mood::Cut, "NETWORK"),
        (Mood::KeyUnknown, "KEY_UNKNOWN_TWICE"),
    ] {
        first.set(mood);
        let (status, _, body) = alone.embed("a", "");
        assert_eq!((status, &body["error"]["code"]), (503, &json!(code)));
        assert!(body["error"]["message"].is_string() && body["error"]["type"].is_string());
        assert!(both.is_right("a"));
    }
    // Another image in the first one's place: refused, nothing is sealed to it, and the proxy says so.
    first.set(Mood::Honest);
    first.swap_image();
    let (status, _, body) = alone.embed("a", "");
    assert_eq!(
        (status, &body["error"]["code"]),
        (503, &json!("PCR_MISMATCH"))
    );
    let (status, _, health) = alone.get("/healthz");
    assert_eq!(
        (status, health.contains("refused")),
        (503, true),
        "{health}"
    );
    assert!(both.is_right("b"));
}

/// OpenAI's clients obey both fields: a whole number of seconds, `true` or `false`.
#[test]
fn errors_tell_openais_clients_whether_to_repeat_the_request() {
    let host = Host::start(17);
    let proxy = Proxy::start(&[&host], &[]);
    let advice = |head: &str| {
        let field = |name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
        };
        (field("retry-after: "), field("x-should-retry: ").unwrap())
    };
    for mood in [Mood::Busy, Mood::Cut, Mood::KeyUnknown] {
        host.set(mood);
        let (status, head, _) = proxy.embed("a", "");
        assert_eq!(status, 503);
        assert_eq!(advice(&head), (Some("1".to_owned()), "true".to_owned()));
    }
    // Another image: no attempt can succeed.
    host.set(Mood::Honest);
    host.swap_image();
    let (status, head, _) = proxy.embed("a", "");
    assert_eq!((status, advice(&head)), (503, (None, "false".to_owned())));
    let (status, head, _) = proxy.get("/nothing");
    assert_eq!((status, advice(&head)), (404, (None, "false".to_owned())));
}

#[test]
fn a_request_is_held_while_the_service_is_away() {
    let host = Host::start(18);
    let proxy = Proxy::start(&[&host], &["--wait", "600"]);
    for mood in [Mood::Cut, Mood::Busy] {
        host.set(mood);
        std::thread::scope(|scope| {
            let (before, waiting) = (
                host.sealed_requests(),
                scope.spawn(|| proxy.embed("patient", "")),
            );
            while host.sealed_requests() < before + 3 {
                std::thread::yield_now();
            }
            host.set(Mood::Honest);
            let (status, _, body) = waiting.join().unwrap();
            assert_eq!(status, 200, "{body}");
            assert_eq!(body["data"][0]["embedding"], json!(vector("patient")));
        });
    }
    let (_, _, health) = proxy.get("/healthz");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(
        (&health["answered"], &health["failed"]),
        (&json!(2), &json!(0))
    );
    // A refusal is final.
    host.swap_image();
    assert_eq!(proxy.embed("a", "").0, 503);
}

#[test]
fn a_held_request_does_not_delay_the_end() {
    let host = Host::start(19);
    let mut proxy = Proxy::start(&[&host], &["--wait", "600"]);
    host.set(Mood::Cut);
    let mut stream = TcpStream::connect(&proxy.address).unwrap();
    let request = "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).unwrap();
    while host.sealed_requests() < 3 {
        std::thread::yield_now();
    }
    let stopped = Command::new("kill")
        .arg(proxy.child.id().to_string())
        .status();
    assert!(stopped.unwrap().success());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(proxy.child.wait().unwrap().success());
}

#[test]
fn truncated_texts_are_counted_and_can_be_refused() {
    let host = Host::start(20);
    let long = "word ".repeat(fixtures::host::MAX_WORDS) + "word";
    let counting = Proxy::start(&[&host], &[]);
    assert!(counting.is_right(&long) && counting.is_right("short"));
    let (_, _, health) = counting.get("/healthz");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["truncated"], 1);
    assert!(counting.get("/").2.contains("1 texts were longer"));

    let refusing = Proxy::start(&[&host], &["--refuse-long"]);
    assert!(refusing.is_right("short"));
    let (status, _, body) = refusing.embed(&long, "");
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("INPUT_TOO_LONG"))
    );
    let head = "POST /v1/embeddings/ HTTP/1.1\r\nhost: localhost";
    let (status, _, body) = refusing.send(head, r#"{"input":"a","truncate":true}"#);
    assert_eq!(status, 400);
    assert!(body.contains("TRUNCATION_REFUSED"), "{body}");
    assert!(refusing.get("/healthz/").2.contains("\"truncated\":0"));
}

#[test]
fn clients_that_stall_or_leave_disturb_no_other() {
    let host = Host::start(16);
    let proxy = Proxy::start(&[&host], &[]);
    let stalled: Vec<_> = (0..50)
        .map(|number| {
            let mut stream = TcpStream::connect(&proxy.address).unwrap();
            let head =
                "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
            stream.write_all(head.as_bytes()).unwrap();
            // Half of them leave in the middle of their body.
            (number % 2 == 0).then_some(stream)
        })
        .collect();
    assert!(proxy.is_right("a"));
    drop(stalled);
    assert!(proxy.is_right("b"));
}

/// Waits until the proxy's health says so: the change of a file is noticed when it is looked at.
fn wait_for(proxy: &Proxy, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let (_, _, health) = proxy.get("/healthz");
        let health = serde_json::from_str(&health).unwrap();
        if is_so(&health) {
            return health;
        }
        assert!(std::time::Instant::now() < end, "{health}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

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
