//! The whole server under load for a long time: eight sealed clients in a closed loop, and what it keeps of memory.
//!
//! For longer: `CLEARSEAL_SOAK_SECONDS=600 cargo test --release -p enclave-server --test soak -- --nocapture`.
//! `CLEARSEAL_SOAK_SERVER` names another binary than the one just built, a static one for example.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

#[path = "service/common.rs"]
mod common;
mod texts;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use attestation::{Evidence, Freshness, Policy, UnixMillis, VerifiedAttestation};
use getrandom::SysRng;
use protocol::exchange;
use rand_core::{Rng, UnwrapErr};
use serde_json::json;

const CLIENTS: usize = 8;

/// Seconds of a run whose length nobody asked for: long enough for every text to come by, and for nothing slow.
const SECONDS: u64 = 20;

/// Mebibytes the second half of the run may add: what the allocator keeps goes up and down by about as much.
const MAY_GROW: f64 = 16.0;

struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts the server on a port that was free a moment ago, and waits until it answers.
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = port.unwrap().to_string();
        let binary = std::env::var("CLEARSEAL_SOAK_SERVER")
            .unwrap_or(env!("CARGO_BIN_EXE_enclave-server").to_owned());
        let child = Command::new(binary)
            .args(["--simulate-nsm", "--listen", &format!("tcp:{address}")])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, address };
        while TcpStream::connect(&server.address).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// A line of the kernel's account of the server, in MiB.
    fn memory(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib: f64 = line
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        kib / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection that is kept, and the little of HTTP that it needs.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: enclave\r\ncontent-type: message/ohttp-req\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0
            .get_mut()
            .write_all(&[head.as_bytes(), body].concat())
            .unwrap();
        let (mut line, mut length, mut first) = (String::new(), 0, true);
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            assert!(!first || line.contains(" 200 "), "{line}");
            first = false;
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        body
    }

    fn attest(&mut self) -> VerifiedAttestation {
        let mut nonce = [0; 32];
        UnwrapErr(SysRng).fill_bytes(&mut nonce);
        let path = data_encoding::BASE64URL_NOPAD.encode(&nonce);
        let evidence = self.send("GET", &format!("/v1/attestation?nonce={path}"), &[]);
        let evidence = Evidence::parse(&evidence).unwrap();
        let policy = self.send("GET", "/v1/development-policy", &[]);
        let policy = Policy::with_evidence(&policy).unwrap();
        let (report, verified) = attestation::verify(evidence.question(
            &policy,
            Freshness::Live {
                nonce: &nonce,
                now: now(),
            },
        ));
        verified
            .including_simulated()
            .unwrap_or_else(|| panic!("{report:#?}"))
    }

    fn embed(&mut self, attested: &VerifiedAttestation, text: &str) {
        let request = common::embeddings(&json!({"model": "all-MiniLM-L6-v2", "input": text}));
        let (sealed, pending) =
            exchange::begin(attested, request, now(), &mut UnwrapErr(SysRng)).unwrap();
        let answer = self.send("POST", "/v1/gateway", &sealed);
        let answer = pending.finish(&answer, now()).unwrap();
        assert_eq!(answer.response.status, 200, "{text:?}");
    }
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixMillis(u64::try_from(since.unwrap().as_millis()).unwrap())
}

/// Least squares through (minutes, MiB).
fn slope(samples: &[(f64, f64)]) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|sample| sample.0), mean(|sample| sample.1));
    let covariance: f64 = samples.iter().map(|(a, b)| (a - x) * (b - y)).sum();
    covariance / samples.iter().map(|(a, _)| (a - x).powi(2)).sum::<f64>()
}

#[test]
fn memory_stays_flat() {
    let seconds =
        std::env::var("CLEARSEAL_SOAK_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    let end = Duration::from_secs(seconds);
    let server = Server::start();
    // It answers once the model is loaded.
    Client::connect(&server).attest();
    println!("ready: {:.1} MiB at most", server.memory("VmHWM:"));
    // What the server does not embed: an empty input is refused in OpenAI's shape.
    let texts: Vec<String> = texts::texts(1000)
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let (started, done) = (Instant::now(), AtomicUsize::new(0));
    let samples = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, texts, done) = (&server, &texts, &done);
            scope.spawn(move || {
                let mut connection = Client::connect(server);
                let attested = connection.attest();
                let texts = texts.iter().cycle().skip(client * texts.len() / CLIENTS);
                for text in texts.take_while(|_| started.elapsed() < end) {
                    connection.embed(&attested, text);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut samples = Vec::new();
        while started.elapsed() < end {
            std::thread::sleep(Duration::from_secs(1));
            let minutes = started.elapsed().as_secs_f64() / 60.0;
            samples.push((minutes, server.memory("VmRSS:")));
            if samples.len() % 30 == 1 {
                println!(
                    "{minutes:5.1} min, {:6} requests: {:.1} MiB",
                    done.load(Ordering::Relaxed),
                    samples[samples.len() - 1].1
                );
            }
        }
        samples
    });
    let later = &samples[samples.len() / 2..];
    let (rate, span) = (slope(later), later[later.len() - 1].0 - later[0].0);
    println!(
        "{} requests; {:.1} MiB at most; in the second half {rate:+.3} MiB a minute",
        done.into_inner(),
        server.memory("VmHWM:")
    );
    assert!(rate * span <= MAY_GROW, "{rate:+.3} MiB a minute");
}
