//! A request of four megabytes makes the server allocate at most a small multiple of its size at once.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]
#![allow(unsafe_code, reason = "an allocator is unsafe to implement")]

#[path = "service/common.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{LIMITS, MODEL, Options, Rig};
use enclave_server::api::Limits;
use getrandom::SysRng;
use protocol::exchange;
use protocol::inner::InnerRequest;
use rand_core::UnwrapErr;

/// Counts the bytes that are allocated, and their peak.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(added: usize) {
    let held = HELD.fetch_add(added, Ordering::Relaxed) + added;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract, which is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn bomb(input: &str) -> InnerRequest {
    InnerRequest {
        method: "POST".to_owned(),
        path: "/v1/embeddings".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        content: format!(r#"{{"model":"{MODEL}","input":{input},"tokenizer":"{MODEL}"}}"#)
            .into_bytes(),
    }
}

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
        let request = bomb(&input);
        let length = request.content.len();
        drop(input);
        let (sealed, pending) = exchange::begin(
            &attested.verified,
            request,
            rig.now(),
            &mut UnwrapErr(SysRng),
        )
        .unwrap();
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let (status, answer) = rig.post(sealed).await;
        let peak = PEAK.load(Ordering::Relaxed) - before;
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
