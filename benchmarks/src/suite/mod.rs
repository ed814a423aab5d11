//! The benchmarks, and how they are run one after the other.

mod aggregation;
mod client;
mod cold_start;
mod contender;
mod cose;
mod crypto;
mod enclave;
mod engine;
mod frame;
mod hostile;
mod loading;
mod nearness;
mod peers;
mod precision;
mod reference;
mod request;
mod sockets;
mod system;
mod texts;
mod tokenizer;
mod whole_path;

pub(crate) use request::Enclave;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::record::{Absent, Measurement, Parameter, Peer, Statistics, Turns, Unit};
use crate::statistics;

/// One kind of measurement.
pub struct Benchmark {
    /// Name for `--only`.
    pub name: &'static str,
    /// What it measures, and the table of the reports that it answers.
    pub measures: &'static str,
    /// About how long it takes whole and quick, in seconds; for the estimate of what is left.
    pub seconds: (u64, u64),
    run: fn(&mut Run) -> Result<()>,
}

/// Every benchmark, in order.
pub const BENCHMARKS: &[Benchmark] = &[
    benchmark(
        "engine",
        "inference at 9 to 256 tokens, the fit, throughput (tables 2 and 9)",
        (60, 10),
        engine::latency,
    ),
    benchmark(
        "peers",
        "other implementations, turn by turn with ours (tables 2, 8 and 9)",
        (200, 40),
        peers::turns,
    ),
    benchmark(
        "quality",
        "cosine to the reference, and whether runs agree to the bit (table 5)",
        (5, 3),
        engine::quality,
    ),
    benchmark(
        "reference",
        "word pieces and embeddings beside those of sentence-transformers, over a thousand texts (table 5)",
        (60, 10),
        reference::measure,
    ),
    benchmark(
        "tokenizer",
        "text to word pieces, turn by turn with the library alone",
        (60, 10),
        tokenizer::turns,
    ),
    benchmark(
        "precision",
        "f16, bf16 and int8 weights beside f32: time, cosine over a thousand texts, memory",
        (120, 15),
        precision::measure,
    ),
    benchmark(
        "enclave-process",
        "inference in a bare process and in the simulated enclave's, turn by turn (table 2)",
        (20, 4),
        enclave::latency,
    ),
    benchmark(
        "concurrency",
        "1, 2, 4 and 8 clients in a closed loop (table 8)",
        (60, 10),
        engine::concurrency,
    ),
    benchmark(
        "cold-start",
        "a start with a sealed model and a released key (table 3)",
        (60, 15),
        cold_start::measure,
    ),
    benchmark(
        "load",
        "a sealed model, streamed or whole",
        (60, 15),
        loading::measure,
    ),
    benchmark(
        "memory",
        "peak resident memory (table 4)",
        (1, 1),
        engine::memory,
    ),
    benchmark(
        "crypto",
        "HPKE, Ed25519, AEADs (table 6)",
        (10, 2),
        crypto::primitives,
    ),
    benchmark(
        "cose",
        "verification of an attestation document (table 6b)",
        (10, 2),
        cose::verification,
    ),
    benchmark(
        "request",
        "all cryptography around one request (table 7)",
        (5, 2),
        request::cryptography,
    ),
    benchmark(
        "frame",
        "Binary HTTP and padding (frame codec)",
        (2, 1),
        frame::codec,
    ),
    benchmark(
        "sockets",
        "round trips over Unix and TCP sockets (table 1)",
        (15, 3),
        sockets::round_trips,
    ),
    benchmark(
        "aggregation-aes",
        "per-device AES and sums (aggregation report)",
        (240, 10),
        aggregation::aes,
    ),
    benchmark(
        "aggregation-terse",
        "sums and table look-ups (aggregation report)",
        (120, 10),
        aggregation::terse,
    ),
    benchmark(
        "key-release",
        "key release by a KMS (table 3)",
        (0, 0),
        not_yet,
    ),
    benchmark(
        "sealed-model",
        "fetching and decrypting a sealed model (table 3)",
        (0, 0),
        not_yet,
    ),
    benchmark(
        "attested-channel",
        "handshake and round trips of a channel (channel reports)",
        (0, 0),
        not_yet,
    ),
    benchmark(
        "whole-path",
        "sealed requests through both servers, turn by turn with the bare engine (tables 7b and 8b)",
        (60, 15),
        whole_path::measure,
    ),
    benchmark(
        "hostile",
        "an honest client beside each of nine attacks: success, latency, memory of both servers",
        (240, 110),
        hostile::measure,
    ),
];

const fn benchmark(
    name: &'static str,
    measures: &'static str,
    seconds: (u64, u64),
    run: fn(&mut Run) -> Result<()>,
) -> Benchmark {
    Benchmark {
        name,
        measures,
        seconds,
        run,
    }
}

/// Subjects that do not exist yet, and why.
const NOT_YET: [(&str, &str); 3] = [
    (
        "key-release",
        "not measured yet: this version releases no key by a KMS",
    ),
    (
        "sealed-model",
        "not measured yet: this version reads its model in the clear from its own image",
    ),
    (
        "attested-channel",
        "not measured yet: this version seals each request, and keeps no channel",
    ),
];

fn not_yet(run: &mut Run) -> Result<()> {
    let name = run.current;
    let why = NOT_YET
        .iter()
        .find(|(subject, _)| *subject == name)
        .map_or("not measured yet", |(_, why)| why);
    run.absent(name, why);
    Ok(())
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// A tenth of the repetitions and the small sizes alone.
    pub quick: bool,
    /// Folder of the model.
    pub model: PathBuf,
    /// Threads that compute.
    pub threads: usize,
    /// Another build of this program, to take turns with.
    pub other: Option<PathBuf>,
}

/// A run under way: what was asked for, and what came out so far.
pub struct Run {
    /// What was asked for.
    pub options: Options,
    /// Figures.
    pub measurements: Vec<Measurement>,
    /// What could not be measured.
    pub absent: Vec<Absent>,
    /// Implementations that took turns with ours.
    pub peers: Vec<Peer>,
    /// Figures of [`Options::other`], and the commit that it was built from.
    pub other: Option<(String, Vec<Measurement>)>,
    begun: String,
    current: &'static str,
    model: Option<engine::Loaded>,
}

impl Run {
    /// Nothing measured yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            measurements: Vec::new(),
            absent: Vec::new(),
            peers: Vec::new(),
            other: None,
            begun: unique(),
            current: "",
            model: None,
        }
    }

    /// Repetitions that are measured: 100, or 10 of a quick run.
    pub fn repetitions(&self) -> u64 {
        if self.options.quick { 10 } else { 100 }
    }

    /// Repetitions before them that are thrown away.
    pub fn warmups(&self) -> u64 {
        3
    }

    /// Runs `benchmarks`, telling `progress` before each: its name and the estimate of what is left; and `finished`
    /// after each, so that nothing measured is lost when the run is broken off.
    ///
    /// A benchmark that fails is absent with the reason, and the others go on.
    pub fn all(
        &mut self,
        benchmarks: &[&'static Benchmark],
        mut progress: impl FnMut(&str, Duration),
        mut finished: impl FnMut(&Self, &'static str),
    ) {
        let estimate = |benchmark: &Benchmark| match self.options.quick {
            true => benchmark.seconds.1,
            false => benchmark.seconds.0,
        };
        let seconds: Vec<u64> = benchmarks
            .iter()
            .map(|benchmark| estimate(benchmark))
            .collect();
        // Machines differ: the estimate is corrected by how long the benchmarks so far took.
        let (begun, mut expected) = (Instant::now(), 0u64);
        for (index, benchmark) in benchmarks.iter().enumerate() {
            let left: u64 = seconds[index..].iter().sum();
            #[allow(clippy::cast_precision_loss, reason = "an estimate")]
            let pace = if expected > 0 {
                begun.elapsed().as_secs_f64() / expected as f64
            } else {
                1.0
            };
            progress(
                benchmark.name,
                Duration::from_secs(left).mul_f64(pace.clamp(0.1, 20.0)),
            );
            self.current = benchmark.name;
            if let Err(error) = (benchmark.run)(self) {
                self.absent(benchmark.name, &format!("failed: {error:#}"));
            }
            expected += seconds[index];
            finished(self, benchmark.name);
        }
    }

    fn absent(&mut self, subject: &str, why: &str) {
        self.absent.push(Absent {
            subject: subject.to_owned(),
            why: why.chars().take(400).collect(),
        });
    }

    /// Milliseconds of repetitions of `work`, as a measurement.
    fn time<T>(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        work: impl FnMut() -> Result<T>,
    ) -> Result<Vec<f64>> {
        let sample = statistics::timed(self.warmups(), self.repetitions(), work)?;
        self.add(
            subject,
            parameters,
            Unit::Milliseconds,
            statistics::of(&sample),
        );
        Ok(sample)
    }

    fn add(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        unit: Unit,
        statistics: Statistics,
    ) {
        self.measurements.push(Measurement {
            subject: subject.to_owned(),
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            unit: Some(unit),
            statistics,
            ..Measurement::default()
        });
    }

    /// Figures of implementations that took turns, each with its own parameters.
    fn turns(&mut self, subject: &str, conditions: &[(&str, Parameter)], samples: &[Sample<'_>]) {
        let mut id = format!("{} {} {subject}", self.begun, self.current);
        for (name, value) in conditions {
            id = match value {
                Parameter::Number(number) => format!("{id} {name} {number}"),
                Parameter::Text(text) => format!("{id} {name} {text}"),
            };
        }
        for (own, sample) in samples {
            let parameters: Vec<_> = conditions.iter().chain(own).cloned().collect();
            self.add(
                subject,
                &parameters,
                Unit::Milliseconds,
                statistics::of(sample),
            );
            if let Some(added) = self.measurements.last_mut() {
                added.turns = Some(Turns {
                    id: id.clone(),
                    sample: sample.clone(),
                });
            }
        }
    }

    /// What repetitions over `bytes` come to, by their mean.
    fn throughput(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        bytes: usize,
        milliseconds: &[f64],
    ) {
        if let Some(mean) = statistics::of(milliseconds).mean {
            #[allow(clippy::cast_precision_loss, reason = "a few mebibytes at most")]
            let mebibytes = bytes as f64 / f64::from(1 << 20);
            let rate = mebibytes * 1_000.0 / mean;
            self.value(subject, parameters, Unit::MebibytesPerSecond, rate);
        }
    }

    fn value(&mut self, subject: &str, parameters: &[(&str, Parameter)], unit: Unit, value: f64) {
        self.add(
            subject,
            parameters,
            unit,
            Statistics {
                value: Some(value),
                ..Statistics::default()
            },
        );
    }
}

/// One implementation's repetitions, and the parameters that are its own.
type Sample<'a> = (Vec<(&'a str, Parameter)>, Vec<f64>);

/// Tells this run from every other one.
fn unique() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}", since.unwrap_or_default().as_nanos())
}

/// Every caller `each` times, all at once: calls a second, and milliseconds of each.
fn at_once<F: FnMut() -> Result<()> + Send>(callers: Vec<F>, each: u64) -> Result<(f64, Vec<f64>)> {
    let begun = Instant::now();
    let samples = std::thread::scope(|scope| {
        let threads: Vec<_> = callers
            .into_iter()
            .map(|caller| scope.spawn(move || statistics::timed(0, each, caller)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a client panicked"))?
            })
            .collect::<Result<Vec<_>>>()
    })?
    .concat();
    #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
    let rate = samples.len() as f64 / begun.elapsed().as_secs_f64();
    Ok((rate, samples))
}

fn text(value: &str) -> Parameter {
    Parameter::Text(value.to_owned())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "sizes and counts, far below 2^52"
)]
fn number(value: usize) -> Parameter {
    Parameter::Number(value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_what_is_not_there_yet_says_why() {
        let mut names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BENCHMARKS.len());
        for (name, _) in NOT_YET {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_benchmark_that_fails_does_not_end_the_run() {
        static FAILING: Benchmark =
            benchmark("failing", "", (1, 1), |_| anyhow::bail!("on purpose"));
        static WORKING: Benchmark = benchmark("working", "", (1, 1), |run| {
            run.value("quality.cosine", &[], Unit::Ratio, 1.0);
            Ok(())
        });
        let mut run = Run::new(Options {
            quick: true,
            model: PathBuf::new(),
            threads: 1,
            other: None,
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
        assert_eq!(run.absent[0].why, "failed: on purpose");
        assert_eq!(run.measurements.len(), 1);
    }
}
