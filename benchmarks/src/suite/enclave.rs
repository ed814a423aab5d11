//! The same inference in a bare process and in the simulated enclave's: the same program, allocator and number of threads.
//!
//! The published overhead compared two programs with two allocators and different numbers of threads. Here the enclave's process
//! is a second instance of this program. Without Nitro hardware it is an ordinary process, so the result is the error of a
//! comparison in which nothing else differs.

use anyhow::{Context, Result, anyhow, ensure};
use engine::Precision;

use super::contender::{Contender, in_turns_at_rest};
use super::engine::sequence;
use super::run::ContenderSample;
use super::{Run, number, text};
use crate::peer::Peer;
use crate::record::{Statistics, Unit};
use crate::statistics::{self, paired};

const TOKENS: [u32; 2] = [9, 128];
const BARE: &str = "native";
const ENCLAVE: &str = "enclave (simulated)";

pub(super) fn latency(run: &mut Run) -> Result<()> {
    let threads = run.options.threads;
    let bare = Contender::ours(run, Precision::F32, threads)?;
    let name = bare.name().to_owned();
    let program = std::env::current_exe()?;
    let log = program.with_file_name("benchmarks-enclave.log");
    let command = Peer::of_ours(&program, "fused", &run.options.model, threads);
    let enclave = Peer::start(command, &log)?;
    ensure!(
        enclave.hello.name == name,
        "the enclave's process runs {}, this one {name}",
        enclave.hello.name,
    );
    let mut contenders = [bare, Contender::Peer(enclave)];
    for tokens in TOKENS {
        let batch = [sequence(tokens)];
        let samples = in_turns_at_rest(run, &mut contenders, &batch, run.repetitions())?;
        let [outside, inside] = samples.try_into().map_err(|_| anyhow!("two took turns"))?;
        report(run, tokens, &name, outside, inside)?;
    }
    Ok(())
}

fn report(
    run: &mut Run,
    tokens: u32,
    engine: &str,
    outside: Vec<f64>,
    inside: Vec<f64>,
) -> Result<()> {
    let conditions = [
        ("tokens", number(tokens as usize)),
        ("engine", text(engine)),
        ("threads", number(run.options.threads)),
    ];
    let overhead = |run: &mut Run, of: &str, statistic: &str, percent: Statistics| {
        let own = [
            ("platform", text(ENCLAVE)),
            ("of", text(of)),
            ("statistic", text(statistic)),
        ];
        let parameters = [conditions.as_slice(), &own].concat();
        run.add("overhead", &parameters, Unit::Percent, percent);
    };
    let (percent, half) = paired(&outside, &inside).context("too few repetitions")?;
    let percent = Statistics {
        value: Some(percent),
        ci95: Some([percent - half, percent + half]),
        samples: Some(run.repetitions()),
        ..Statistics::default()
    };
    overhead(run, "inference.latency", "mean", percent);
    let [one, other] = [&outside, &inside].map(|sample| statistics::of(sample));
    for statistic in ["p50", "p95", "p99", "min", "max"] {
        if let (Some(one), Some(other)) = (one.get(statistic), other.get(statistic)) {
            let percent = Statistics::of_one(100.0 * (other / one - 1.0));
            overhead(run, "inference.latency", statistic, percent);
        }
    }
    if let (Some(one), Some(other)) = (one.mean, other.mean) {
        for (platform, mean) in [(BARE, one), (ENCLAVE, other)] {
            let parameters = [conditions.as_slice(), &[("platform", text(platform))]].concat();
            let rate = 1_000.0 / mean;
            let subject = "inference.throughput";
            run.value(subject, &parameters, Unit::InferencesPerSecond, rate);
        }
        let percent = Statistics::of_one(100.0 * (one / other - 1.0));
        overhead(run, "inference.throughput", "value", percent);
    }
    let rows =
        [(BARE, outside), (ENCLAVE, inside)].map(|(platform, milliseconds)| ContenderSample {
            parameter: ("platform", text(platform)),
            milliseconds,
        });
    run.turns("inference.latency", &conditions, &rows);
    Ok(())
}
