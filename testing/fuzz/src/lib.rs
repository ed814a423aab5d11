//! The fuzz targets.
//!
//! Each [`Target`] is one input from untrusted parties: a function that takes any bytes and panics if a property is violated, and
//! the seeds that a fuzzer starts from. The functions are in the workspace, so that `cargo test -p fuzz` runs each of them with
//! its seeds and some thousands of mutations under the ordinary toolchain; `testing/fuzz/libfuzzer` wraps them for libFuzzer
//! (docs/FUZZING.md).
//!
//! Everything is deterministic: keys, nonces and signatures come from fixed seeds, so that a crashing input stays reproducible.
//!
//! Signatures block a fuzzer: check 21 refuses any change, and the code behind it is never reached. So the targets come in pairs.
//! `document`, `receipt`, `gateway` and `response` take bytes as received; `payload`, `chain`, `claims` and `answer` sign or seal
//! the fuzzer's bytes, as an attacker with the keys could, and test the code behind.

#![forbid(unsafe_code)]
// A panic reports a violated property to the fuzzer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a violated property, or a fixture that cannot be created, ends the run"
)]

mod fixture;
mod targets;

pub use targets::TARGETS;

/// A fuzz target, its seeds, and the fuzzer's settings.
pub struct Target {
    /// Name of the target, of its corpus and of its libFuzzer binary.
    pub name: &'static str,
    /// Description of the input.
    pub input: &'static str,
    /// Takes any bytes; panics if a property is violated.
    pub run: fn(&[u8]),
    /// Inputs that reach deep into the code: valid ones, and ones with a single defect.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Name of the dictionary in `testing/fuzz/dictionaries`, without extension.
    pub dictionary: &'static str,
    /// Longest useful input, in bytes: above the limit of the tested code, so that the limit is reached too.
    pub max_len: usize,
}

/// Runs the target `name` with `data`.
///
/// # Panics
/// If a property is violated, or no target has this name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").run)(data);
}
