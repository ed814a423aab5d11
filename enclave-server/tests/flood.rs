//! One client floods the built server with 32 concurrent sealed requests, each with 3.8 megabytes of token ids.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use crate::process::{Client, Server};
use fixtures::system_time;
use getrandom::SysRng;
use protocol::exchange;
use rand_core::UnwrapErr;
use serde_json::json;

const MODEL: &str = "all-MiniLM-L6-v2";

/// A third of an enclave with one GiB.
const MOST_MIB: f64 = 300.0;

#[test]
fn token_bombs_use_little_memory_and_other_clients_are_answered() {
    let server = Server::start();
    let attested = Client::connect(&server).attest();
    let idle = server.memory("VmRSS:");
    for (name, input) in [
        ("one list", format!("[[{}1]]", "1,".repeat(1_900_000))),
        (
            "lists",
            format!("[{}[1]]", format!("[{}1],", "1,".repeat(64_000)).repeat(15)),
        ),
    ] {
        let content = format!(
            r#"{{"model":"{MODEL}","input":{input},"tokenizer":"{MODEL}","encoding_format":"base64"}}"#
        );
        let sealed: Vec<_> = (0..32)
            .map(|_| {
                let request = fixtures::enclave::embeddings_of(content.as_str());
                exchange::begin(&attested, request, system_time(), &mut UnwrapErr(SysRng))
                    .unwrap()
                    .0
            })
            .collect();
        std::thread::scope(|scope| {
            for sealed in &sealed {
                let mut client = Client::connect(&server);
                scope.spawn(move || {
                    let (status, _) = client.ask("POST", "/v1/gateway", sealed);
                    assert!([200, 503].contains(&status), "{status}");
                });
            }
            // Meanwhile another client embeds a short text.
            let request = fixtures::enclave::embeddings(&json!({"model": MODEL, "input": "hello"}));
            let (sealed, pending) =
                exchange::begin(&attested, request, system_time(), &mut UnwrapErr(SysRng)).unwrap();
            let answer = Client::connect(&server).send("POST", "/v1/gateway", &sealed);
            let answer = pending.finish(&answer, system_time()).unwrap();
            assert_eq!(answer.response.status, 200);
        });
        let peak = server.memory("VmHWM:");
        std::thread::sleep(Duration::from_secs(2));
        let after = server.memory("VmRSS:");
        println!("{name}: {idle:.0} MiB before, {peak:.0} at most, {after:.0} two seconds later");
        assert!(peak < MOST_MIB, "{peak:.0} MiB");
        assert!(after - idle < 100.0, "{after:.0} MiB after {idle:.0}");
    }
}
