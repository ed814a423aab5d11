//! Nothing of a request reaches the log, at any level and in any failure.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use common::{MODEL, Options, Rig, SECRET, embeddings};
use serde_json::json;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_no_vector_and_no_panic_message_is_logged() {
    let log = Captured::default();
    let writer = log.clone();
    // For every thread, including inference threads; this program has only one test.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();
    enclave_server::logging::quiet_panics();

    let rig = Rig::build(Options::default(), |inner| {
        inner.route(
            "/panic",
            axum::routing::get(async || -> &'static str { panic!("{SECRET}") }),
        )
    });
    let attested = rig.attest().await;
    let mut vectors = Vec::new();
    for body in [
        json!({"model": MODEL, "input": format!("{SECRET} {SECRET}")}),
        json!({"model": MODEL, "input": format!("panic {SECRET}")}),
        json!({"model": SECRET, "input": "hello"}),
        json!({"model": MODEL, "input": {SECRET: SECRET}}),
    ] {
        let answer = rig
            .exchange(&attested, embeddings(&body))
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let json: serde_json::Value = serde_json::from_slice(&answer.response.content).unwrap();
        vectors.extend(
            json["data"][0]["embedding"]
                .as_array()
                .into_iter()
                .flatten()
                .map(ToString::to_string),
        );
    }
    let mut panicking = embeddings(&json!(null));
    (panicking.method, panicking.path) = ("GET".to_owned(), "/panic".to_owned());
    assert_eq!(
        rig.exchange(&attested, panicking)
            .await
            .unwrap_or_else(|error| panic!("{error}"))
            .response
            .status,
        500
    );
    rig.get(&format!("/{SECRET}?{SECRET}")).await;
    rig.get(&format!("/v1/attestation?nonce={SECRET}")).await;
    rig.post(SECRET.as_bytes().to_vec()).await;

    // From here on a panic is a failure of this test.
    drop(std::panic::take_hook());
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        log.contains("answered") && log.contains("a thread panicked"),
        "the log was captured: {log}"
    );
    assert!(!log.contains(SECRET), "{log}");
    assert_eq!(vectors.len(), 4);
    assert!(vectors.iter().all(|number| !log.contains(number)), "{log}");
}
