//! What the fuzzers run.
//!
//! Each [`Target`] is one entrance for bytes that somebody else wrote: a function that takes any bytes and panics where a
//! property does not hold, and the seeds that a fuzzer starts from. The functions are here, in the workspace, so that
//! `cargo test -p fuzz` runs every one of them over its seeds and some thousands of changed ones with the ordinary
//! toolchain; `testing/fuzz/libfuzzer` wraps them for libFuzzer (docs/FUZZING.md).
//!
//! Everything is deterministic: keys, nonces and signatures come from fixed seeds, so that a reproducer stays one.
//!
//! Signatures stop a fuzzer: whatever it changes is refused by check 21 and what lies behind is never reached. So the
//! targets come in pairs. `document`, `receipt`, `gateway` and `response` take bytes as they come from a wire; `payload`,
//! `chain`, `claims` and `answer` sign or seal what the fuzzer made, as an attacker with the keys could, and look at
//! what is behind.

#![forbid(unsafe_code)]
// A property that does not hold is a panic: that is how a fuzzer is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a broken property, or a scene that cannot be made, ends the run"
)]

mod scene;
mod targets;

pub use targets::TARGETS;

/// One entrance, its seeds, and how a fuzzer is best set to it.
pub struct Target {
    /// Name of the target, of its corpus and of its libFuzzer binary.
    pub name: &'static str,
    /// What goes in, for a person.
    pub input: &'static str,
    /// Takes any bytes; panics where a property does not hold.
    pub run: fn(&[u8]),
    /// Inputs that reach far: right ones, and ones with one thing broken.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Name of the dictionary in `testing/fuzz/dictionaries`, without its ending.
    pub dictionary: &'static str,
    /// Longest input that is worth trying, bytes: past the limit of what is fuzzed, so that the limit is reached too.
    pub max_len: usize,
}

/// Runs the target of this name over `data`.
///
/// # Panics
/// Where a property does not hold, and where no target has this name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").run)(data);
}
