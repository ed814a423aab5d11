//! With answer steps, every kind of answer leaves at a step, so that its exact duration is not visible.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use enclave_server::api::{AnswerSteps, Limits};
use protocol::channel::frame::Kind;
use serde_json::json;

use crate::channel::{Listening, answer, ask};
use crate::common::{HeldToy, LIMITS, MODEL, Options, Rig, code, embeddings, hello};

fn stepped() -> Options {
    Options {
        answer_steps: Some(AnswerSteps::new(Duration::from_millis(10))),
        ..Options::default()
    }
}

/// Lets other tasks run until `done`.
async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

fn steady(rig: &Rig) -> Duration {
    Duration::from_millis(rig.time.steady.load(Ordering::SeqCst))
}

/// Waits until `count` answers have been delayed, and returns the ends of all waits.
async fn wait_ends(rig: &Rig, count: usize) -> Vec<Duration> {
    until(|| rig.time.waits.lock().unwrap().len() >= count).await;
    rig.time.waits.lock().unwrap().clone()
}

/// Advances the clock to `end`.
fn pass(rig: &Rig, end: Duration) {
    let left = end.saturating_sub(steady(rig)).as_millis();
    rig.advance_millis(u64::try_from(left).unwrap());
}

/// Number of leaves of the service's log, which its host can read at any time.
async fn leaves(rig: &Rig) -> usize {
    rig.leaves(&rig.logs().await[0], 0).await.leaves.len()
}

#[tokio::test]
async fn an_answer_leaves_at_the_next_step_and_the_log_shows_it_no_earlier() {
    let held = Arc::new(HeldToy::default());
    let rig = Rig::with(Options {
        encoder: held.clone(),
        ..stepped()
    });
    let attested = rig.attest().await;
    for (number, taken, leaves_after) in [
        (1, 0, 10),
        (2, 9, 10),
        (3, 10, 10),
        (4, 11, 20),
        (5, 100, 160),
        (6, 1_281, 2_560),
        (7, 3_000, 3_840),
    ] {
        let arrived = steady(&rig);
        let control = async {
            held.wait_begun(number).await;
            rig.advance_millis(taken);
            held.release(1);
            let ends = wait_ends(&rig, number).await;
            let end = ends[number - 1];
            assert_eq!(
                end - arrived,
                Duration::from_millis(leaves_after),
                "computed in {taken} ms"
            );
            // An answer that is ready at a step leaves at once.
            if end > steady(&rig) {
                assert_eq!(leaves(&rig).await, number, "the keys and earlier receipts");
            }
            pass(&rig, end);
        };
        let (answer, ()) = tokio::join!(rig.exchange(&attested, hello()), control);
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.response.status, 200);
        assert_eq!(leaves(&rig).await, number + 1);
    }
}

#[tokio::test]
async fn refusals_failures_and_reads_leave_at_the_same_steps() {
    let rig = Rig::with(stepped());
    let attested = rig.attest().await;
    let get = |path: &str| fixtures::enclave::bare_request("GET", path);
    let of = |input: &str| embeddings(&json!({"model": MODEL, "input": input}));
    let requests = [
        (of("hello"), 200),
        (of(""), 400),
        (of("panic"), 500),
        (get("/v1/models"), 200),
        (get("/v1/counters"), 200),
        (get("/nowhere"), 404),
    ];
    for (number, (request, status)) in (1..).zip(requests) {
        let arrived = steady(&rig);
        let control = async {
            let ends = wait_ends(&rig, number).await;
            assert_eq!(ends[number - 1] - arrived, Duration::from_millis(10));
            pass(&rig, ends[number - 1]);
        };
        let (answer, ()) = tokio::join!(rig.exchange(&attested, request), control);
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.response.status, status);
    }
    // Errors before decryption are public, so they are not delayed.
    let (status, problem) = rig.post(vec![0; 10]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{}", code(&problem));
    assert_eq!(rig.time.waits.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn a_delayed_answer_holds_neither_its_slot_nor_its_opening_memory() {
    // Memory for one request of this length at once, and one slot.
    let text = "hello ".repeat(8_000);
    let limits = Limits {
        max_in_flight: 1,
        max_wait: Duration::from_secs(600),
        opening_bytes: 300 << 10,
        ..LIMITS
    };
    let rig = Rig::with(Options {
        limits,
        ..stepped()
    });
    let attested = rig.attest().await;
    let large = || embeddings(&json!({"model": MODEL, "input": text}));
    let control = async {
        let ends = wait_ends(&rig, 3).await;
        pass(&rig, ends.into_iter().max().unwrap());
    };
    let (first, second, third, ()) = tokio::join!(
        rig.exchange(&attested, large()),
        rig.exchange(&attested, large()),
        rig.exchange(&attested, large()),
        control
    );
    for answer in [first, second, third] {
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.response.status, 200);
    }
}

#[tokio::test]
async fn a_channels_answers_leave_at_steps_too() {
    let served = Listening::start(stepped()).await;
    let rig = &served.rig;
    let attested = rig.attest().await;
    let mut channel = served.open(&attested).await.unwrap();
    let of = |input: &str| embeddings(&json!({"model": MODEL, "input": input}));
    for (number, (input, status)) in (1..).zip([("hello", 200), ("", 400), ("panic", 500)]) {
        let arrived = steady(rig);
        let (message, asked) = ask(rig, &attested, number, of(input));
        channel.outgoing.send(Kind::Data, &message).await.unwrap();
        let ends = wait_ends(rig, usize::try_from(number).unwrap()).await;
        let end = *ends.last().unwrap();
        assert_eq!(end - arrived, Duration::from_millis(10), "{input}");
        assert!(leaves(rig).await <= 2, "a receipt is signed at its step");
        pass(rig, end);
        let answer = answer(&mut channel, rig, number, asked).await;
        assert_eq!(answer.response.status, status);
    }
    assert_eq!(leaves(rig).await, 2);
}

#[tokio::test]
async fn without_steps_no_answer_is_delayed() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    assert!(rig.exchange(&attested, hello()).await.is_ok());
    assert!(rig.time.waits.lock().unwrap().is_empty());
}
