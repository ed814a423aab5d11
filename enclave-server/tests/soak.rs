//! Memory of the whole server under load for a long time: eight sealed clients in a closed loop.
//!
//! For longer: `CLEARSEAL_SOAK_SECONDS=600 cargo test --release -p enclave-server --test soak -- --nocapture`.
//! `CLEARSEAL_SOAK_SERVER` names another binary than the one just built, a static one for example.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod process;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use attestation::VerifiedAttestation;
use fixtures::system_time;
use getrandom::SysRng;
use process::{Client, Server};
use protocol::exchange;
use rand_core::UnwrapErr;
use serde_json::json;

const CLIENTS: usize = 8;

/// Default length of a run in seconds: long enough to send every text once.
const SECONDS: u64 = 20;

/// Most mebibytes that the second half of the run may add. The memory that the allocator keeps varies by about as much.
const MAY_GROW: f64 = 16.0;

/// Embeds a text, sealed, and checks the receipt.
fn embed(client: &mut Client, attested: &VerifiedAttestation, text: &str) {
    let request =
        fixtures::enclave::embeddings(&json!({"model": "all-MiniLM-L6-v2", "input": text}));
    let (sealed, pending) =
        exchange::begin(attested, request, system_time(), &mut UnwrapErr(SysRng)).unwrap();
    let answer = client.send("POST", "/v1/gateway", &sealed);
    let answer = pending.finish(&answer, system_time()).unwrap();
    assert_eq!(answer.response.status, 200, "{text:?}");
}

/// Slope of the least-squares line through (minutes, MiB).
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
    // The server answers once the model is loaded.
    Client::connect(&server).attest();
    println!("ready: {:.1} MiB at most", server.memory("VmHWM:"));
    // An empty input is refused in OpenAI's format.
    let texts: Vec<String> = fixtures::texts::texts(1000)
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
                    embed(&mut connection, &attested, text);
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
