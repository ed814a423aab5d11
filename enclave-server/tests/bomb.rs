//! A request of four megabytes makes the server allocate at most a small multiple of its size at once.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use common::{LIMITS, MODEL, Options, Rig};
use enclave_server::api::Limits;
use fixtures::allocator::{Counting, Watch};
use fixtures::enclave::embeddings_of;
use getrandom::SysRng;
use protocol::exchange;
use protocol::inner::InnerRequest;
use rand_core::UnwrapErr;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// The only test of this program, so that no other one allocates meanwhile.
#[tokio::test]
async fn a_bomb_costs_a_small_multiple_of_itself() {
    let rig = Rig::with(Options {
        limits: Limits {
            max_request_bytes: 4_300_000,
            opening_bytes: 64 << 20,
            arriving_bytes: 32 << 20,
            ..LIMITS
        },
        ..Options::default()
    });
    let attested = rig.attest().await;
    let ones = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
    let mut bodies = Vec::new();
    for (name, input) in [
        ("one list", ones(1_900_000)),
        ("one list in a list", format!("[{}]", ones(1_900_000))),
        (
            "lists",
            format!("[{}[1]]", format!("{},", ones(65_000)).repeat(29)),
        ),
        (
            "most that is taken",
            format!("[{}[1]]", format!("{},", ones(65_000)).repeat(16)),
        ),
        ("short lists", format!("[{}[1]]", "[1],".repeat(900_000))),
        ("empty lists", format!("[{}[]]", "[],".repeat(1_200_000))),
        (
            "short texts",
            format!("[{}\"a\"]", "\"a\",".repeat(900_000)),
        ),
        ("nested", "[".repeat(3_800_000)),
        ("objects", format!("[{}{{}}]", "{},".repeat(1_200_000))),
        ("one text", format!("\"{}\"", "a ".repeat(1_900_000))),
        ("floats", format!("[{}1]", "1.5,".repeat(900_000))),
        ("whole floats", format!("[{}1]", "1.0,".repeat(900_000))),
        // Each of them is replaced.
        (
            "halves of surrogate pairs",
            format!("\"{}\"", "\\ud83d".repeat(600_000)),
        ),
    ] {
        bodies.push((
            name,
            "/v1/embeddings",
            format!(r#"{{"model":"{MODEL}","input":{input},"tokenizer":"{MODEL}"}}"#),
        ));
    }
    for (name, documents) in [
        (
            "short documents",
            format!("[{}\"a\"]", "\"a\",".repeat(900_000)),
        ),
        (
            "an object with other members",
            format!(r#"[{{"text":"a","x":[{}0]}}]"#, "0,".repeat(1_900_000)),
        ),
        ("one document", format!("[\"{}\"]", "a ".repeat(1_900_000))),
        ("escapes", format!("[\"{}\"]", "\\u0061".repeat(600_000))),
    ] {
        bodies.push((
            name,
            "/v1/rerank",
            format!(r#"{{"model":"{MODEL}","query":"a","documents":{documents}}}"#),
        ));
    }
    for (name, path, body) in bodies {
        let request = InnerRequest {
            path: path.to_owned(),
            ..embeddings_of(body)
        };
        let length = request.content.len();
        let (sealed, pending) = exchange::begin(
            &attested.verified,
            request,
            rig.now(),
            &mut UnwrapErr(SysRng),
        )
        .unwrap();
        let watch = Watch::start();
        let (status, answer) = rig.post(sealed).await;
        let peak = watch.peak();
        assert_eq!(status.as_u16(), 200, "{name}");
        let answer = pending
            .finish(&answer, rig.now())
            .unwrap_or_else(|error| panic!("{error}"));
        println!(
            "{name}: {:.2} times itself, status {}",
            peak as f64 / length as f64,
            answer.response.status
        );
        // The count includes the sealed request.
        assert!(peak <= 5 * length, "{name}: {peak} bytes for {length}");
    }
}
