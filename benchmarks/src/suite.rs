//! The benchmarks, and the loop that runs them.

mod aggregation;
mod client;
mod cold_start;
mod contender;
mod cose;
mod crypto;
mod documents;
mod enclave;
mod engine;
mod frame;
mod hostile;
mod http;
mod loading;
mod nearness;
mod peers;
mod precision;
mod reference;
mod request;
mod run;
mod sockets;
mod system;
mod texts;
mod tokenizer;
mod transport;
mod whole_path;

use anyhow::Result;
pub(crate) use request::Enclave;
pub use run::{FAILED, Options, Run};
use run::{at_once, number, text};

/// A benchmark.
pub struct Benchmark {
    /// Name for `--only`.
    pub name: &'static str,
    /// Description, with the reports' table that it corresponds to.
    pub measures: &'static str,
    /// Approximate duration in seconds, full and quick, to estimate the remaining time.
    pub seconds: (u64, u64),
    run: fn(&mut Run) -> Result<()>,
}

/// All benchmarks, in order.
pub const BENCHMARKS: &[Benchmark] = table! { benchmark:
    "engine",            (60, 10),   engine::latency,
        "inference at 9 to 256 tokens, the fit, throughput (tables 2 and 9)";
    "peers",             (200, 40),  peers::compare,
        "other implementations, turn by turn with ours (tables 2, 8 and 9)";
    "quality",           (5, 3),     engine::quality,
        "cosine to the reference, and whether runs agree to the bit (table 5)";
    "reference",         (60, 10),   reference::measure,
        "tokens and embeddings compared with sentence-transformers, over a thousand texts (table 5)";
    "tokenizer",         (60, 10),   tokenizer::compare,
        "text to tokens, turn by turn with the library alone";
    "precision",         (120, 15),  precision::measure,
        "f16, bf16 and int8 weights compared with f32: time, cosine over a thousand texts, memory";
    "enclave-process",   (20, 4),    enclave::latency,
        "inference in a bare process and in the simulated enclave's, turn by turn (table 2)";
    "concurrency",       (60, 10),   engine::concurrency,
        "1, 2, 4 and 8 clients in a closed loop (table 8)";
    "cold-start",        (60, 15),   cold_start::measure,
        "a start with a sealed model and a released key (table 3)";
    "load",              (60, 15),   loading::measure,
        "a sealed model, streamed or whole";
    "memory",            (1, 1),     engine::memory,
        "peak resident memory (table 4)";
    "crypto",            (10, 2),    crypto::primitives,
        "HPKE, Ed25519, AEADs (table 6)";
    "cose",              (10, 2),    cose::verification,
        "verification of an attestation document (table 6b)";
    "request",           (5, 2),     request::cryptography,
        "all cryptography around one request (table 7)";
    "frame",             (2, 1),     frame::codec,
        "Binary HTTP and padding (frame codec)";
    "sockets",           (15, 3),    sockets::round_trips,
        "round trips over Unix and TCP sockets (table 1)";
    "aggregation-aes",   (240, 10),  aggregation::aes,
        "per-device AES and sums (aggregation report)";
    "aggregation-terse", (120, 10),  aggregation::terse,
        "sums and table look-ups (aggregation report)";
    "transport",         (60, 10),   transport::compare,
        "the attested channel: sessions, round trips, bursts, frames; in turns with TLS 1.3, Noise and the published one by --contenders (channel reports)";
    "whole-path",        (60, 15),   whole_path::measure,
        "sealed requests through both servers, turn by turn with the bare engine (tables 7b and 8b)";
    "documents",         (60, 15),   documents::measure,
        "attestation documents a second and how long clients wait, each its own and shared, turn by turn";
    "hostile",           (240, 110), hostile::measure,
        "an honest client during each of nine attacks: success, latency, memory of both servers";
};

const fn benchmark(
    name: &'static str,
    seconds: (u64, u64),
    run: fn(&mut Run) -> Result<()>,
    measures: &'static str,
) -> Benchmark {
    Benchmark {
        name,
        measures,
        seconds,
        run,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::record::Unit;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BENCHMARKS.len());
    }

    #[test]
    fn a_benchmark_that_fails_does_not_end_the_run() {
        static FAILING: Benchmark = benchmark(
            "failing",
            (1, 1),
            |run| {
                run.value("quality.cosine", &[], Unit::Ratio, 0.5);
                run.absent("quality.cosine", "a part");
                anyhow::bail!("deliberate")
            },
            "",
        );
        static WORKING: Benchmark = benchmark(
            "working",
            (1, 1),
            |run| {
                run.value("quality.cosine", &[], Unit::Ratio, 1.0);
                Ok(())
            },
            "",
        );
        let mut run = Run::new(Options {
            quick: true,
            model: PathBuf::new(),
            threads: 1,
            other: None,
            contenders: false,
        });
        let mut told = Vec::new();
        let mut ended = Vec::new();
        run.all(
            &[&FAILING, &WORKING],
            |name, _| told.push(name.to_owned()),
            |_, name| ended.push(name),
        );
        assert_eq!(ended, ["failing", "working"]);
        assert_eq!(told, ["failing", "working"]);
        assert_eq!(run.failed, ["failing"]);
        assert_eq!(run.absent[0].why, "failed: deliberate");
        assert_eq!((run.absent.len(), run.measurements.len()), (1, 1));
        assert_eq!(run.measurements[0].statistics.value, Some(1.0));
    }
}
