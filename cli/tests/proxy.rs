//! `clearseal proxy` as a process: what OpenAI's clients see, and what web pages and broken hosts do not get.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dialects;
mod empties;
mod gates;
mod outages;
mod policies;
mod receipts;
mod tls;

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
            if line.starts_with("OpenAI's API is on http") {
                let (_, rest) = line.split_once("://").unwrap();
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

/// OpenAI's clients repeat 503; a request that is too long stays too long.
#[test]
fn a_length_limit_in_front_of_the_host_is_named_and_not_retried() {
    let host = Host::start(21);
    let proxy = Proxy::start(&[&host], &["--wait", "30"]);
    assert!(proxy.is_right("short"));
    host.set(Mood::BodyLimit(64 << 10));
    assert!(proxy.is_right("short"));
    let sealed = host.sealed_requests();
    let (status, head, body) = proxy.embed(&"x".repeat(100 << 10), "");
    let error = &body["error"];
    assert_eq!((status, &error["code"]), (413, &json!("BODY_TOO_LARGE")));
    assert_eq!(error["type"], "invalid_request_error");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("client_max_body_size"), "{message}");
    assert!(head.contains("x-should-retry: false"), "{head}");
    assert!(!head.contains("retry-after"), "{head}");
    assert_eq!(host.sealed_requests(), sealed + 1);
    let (_, _, health) = proxy.get("/healthz");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(
        (&health["ready"], &health["failed"]),
        (&json!(true), &json!(1))
    );
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
