//! Counts the instructions of the hot paths: where times vary by a tenth, a count shows that work was added.
//!
//! `--counts` runs this program again under `valgrind --tool=callgrind`, each path twice, with few and with more repetitions. The
//! difference is the cost of the repetitions, without start-up, keys and weights. The counts are compared with
//! `benchmarks/counts.json`, per build target, because another C library or instruction set counts differently.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use engine::fused::{Isa, Weights, Worker};
use engine::{Activation, Architecture, Attention, Biases, Pooling, Precision, Rotary, Shape};

use crate::suite::Enclave;

/// Growth in per cent above which a path fails. The same build reproduces its count to a few hundredths; a GELU computed twice,
/// for instance, is 2 to 4 % of a forward pass.
pub const TOLERANCE: f64 = 1.0;
/// Repetitions of the two runs.
const FEW: u64 = 1;
const MORE: u64 = 4;

/// The paths, each with a description of the counted work.
const PATHS: &[(&str, &str)] = &[
    (
        "engine-avx2",
        "a forward pass of a small random model, AVX2 kernels",
    ),
    ("engine-portable", "the same with the portable kernels"),
    (
        "document",
        "an attestation document verified against policy and manifest",
    ),
    (
        "request",
        "a request sealed, opened, answered with a receipt, opened",
    ),
    ("receipt", "a receipt signed and verified"),
];

/// Counts of one build target, by path.
pub type Counts = BTreeMap<String, u64>;

/// File with the baseline.
fn baseline_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.json")
}

/// Name of this build in the baseline; counts of other builds are not comparable.
fn target() -> String {
    let library = if cfg!(target_env = "musl") {
        "musl"
    } else {
        "gnu"
    };
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    format!("{}-{library}-{profile}", std::env::consts::ARCH)
}

/// Runs path `name` `times` times, for valgrind to count.
///
/// # Errors
/// If there is no such path, or it fails.
pub fn repeat(name: &str, times: u64) -> Result<()> {
    match name {
        "engine-avx2" => engine("avx2", times),
        "engine-portable" => engine("portable", times),
        "document" => {
            let enclave = Enclave::start()?;
            (0..times).try_for_each(|_| enclave.verify().map(drop))
        }
        "request" => {
            let mut enclave = Enclave::start()?;
            let attested = enclave.verify()?;
            (0..times).try_for_each(|turn| enclave.exchange(&attested, turn))
        }
        "receipt" => {
            let enclave = Enclave::start()?;
            let attested = enclave.verify()?;
            (0..times).try_for_each(|_| enclave.receipt(&attested))
        }
        other => bail!("there is no path `{other}`"),
    }
}

const SHAPE: Shape = Shape {
    architecture: Architecture::Bert,
    hidden: 128,
    heads: 4,
    key_value_heads: 4,
    head: 32,
    layers: 2,
    feed_forward: 512,
    vocabulary: 64,
    positions: 64,
    first_position: 0,
    token_types: 2,
    norm_epsilon: 1e-12,
    activation: Activation::Gelu,
    biases: Biases::ALL,
    attention: Attention::FULL,
    rotary: Rotary::UNUSED,
    // One over the root of 32.
    query_scale: 0.176_776_7,
    max_tokens: 64,
    pooling: Pooling::Mean,
};

fn engine(isa: &str, times: u64) -> Result<()> {
    let isa = Isa::available()
        .find(|one| one.name() == isa)
        .with_context(|| format!("this processor has no {isa}"))?;
    let weights = Weights::load_for(random_weights()?, SHAPE, Precision::F32, isa)?;
    // One thread: with several, the distribution of work varies from run to run.
    let mut worker = Worker::new(Arc::new(weights), NonZeroUsize::MIN)?;
    let ids: Vec<u32> = (0..48).map(|at| at * 7 % 64).collect();
    let mut row = vec![0.0; SHAPE.hidden];
    for _ in 0..times {
        worker.encode(&[&ids], &mut row)?;
    }
    ensure!(row.iter().all(|value| value.is_finite()), "not finite");
    Ok(())
}

/// Deterministic values, small enough that nothing overflows.
fn random_weights() -> Result<engine::Weights> {
    let mut state = 1u32;
    let mut tensors = BTreeMap::new();
    for (name, shape) in SHAPE.tensors() {
        let values = (0..shape.iter().product())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / 83_886_080.0 - 0.1
            })
            .collect();
        tensors.insert(name, engine::Weight { shape, values });
    }
    Ok(engine::Weights::new(tensors)?)
}

/// The count of one path and its baseline.
pub struct CountedPath {
    path: &'static str,
    what: &'static str,
    count: u64,
    /// The baseline, if there is one for this build.
    before: Option<u64>,
}

impl CountedPath {
    fn percent(&self) -> Option<f64> {
        self.before
            .map(|before| (self.count as f64 / before as f64 - 1.0) * 100.0)
    }

    /// Whether the path grew by more than the tolerance.
    pub fn grew(&self) -> bool {
        self.percent().is_some_and(|percent| percent > TOLERANCE)
    }

    /// Whether the path grew, or cannot be judged because it has no baseline.
    pub fn failed(&self) -> bool {
        self.before.is_none() || self.grew()
    }
}

impl fmt::Display for CountedPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.percent() {
            None => "NO BASELINE for this build; --renew writes one".to_owned(),
            Some(percent) => {
                let word = match percent {
                    percent if percent > TOLERANCE => "GREW",
                    percent if percent < -TOLERANCE => "shrank: write a new baseline with --renew",
                    _ => "as before",
                };
                format!("{percent:>+7.2} %  {word}")
            }
        };
        write!(
            out,
            "{:<16} {:>13}  {change}  ({})",
            self.path, self.count, self.what
        )
    }
}

/// Counts every path and compares it with the baseline; `renew` writes the counts as the new baseline.
///
/// `None` without valgrind.
///
/// # Errors
/// If a path fails under valgrind, or the baseline cannot be read or written.
pub fn judge(renew: bool) -> Result<Option<Vec<CountedPath>>> {
    let there = Command::new("valgrind").arg("--version").output();
    if there.is_err() {
        return Ok(None);
    }
    let file = baseline_file();
    let mut all: BTreeMap<String, Counts> = match std::fs::read_to_string(&file) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is not a baseline", file.display()))?,
        Err(_) => BTreeMap::new(),
    };
    let before = all.get(&target()).cloned().unwrap_or_default();
    let judged = PATHS
        .iter()
        .map(|(path, what)| {
            let few = instructions(path, FEW)?;
            let more = instructions(path, MORE)?;
            ensure!(
                more > few,
                "{path}: more repetitions took fewer instructions"
            );
            Ok(CountedPath {
                path,
                what,
                count: (more - few) / (MORE - FEW),
                before: before.get(*path).copied(),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    if renew {
        let counts = judged.iter().map(|one| (one.path.to_owned(), one.count));
        all.insert(target(), counts.collect());
        std::fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(Some(judged))
}

fn instructions(path: &str, times: u64) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["--count", path, "--times", &times.to_string()])
        .output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{path} failed under valgrind: {}",
        log.lines()
            .rfind(|line| !line.starts_with("=="))
            .unwrap_or(&log)
    );
    parse_collected(&log).with_context(|| format!("{path}: valgrind did not say how many"))
}

/// `==7== Collected : 123`
fn parse_collected(log: &str) -> Option<u64> {
    log.lines()
        .find_map(|line| line.split_once("Collected : "))?
        .1
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_runs() {
        for (path, _) in PATHS {
            // Not every processor has AVX2.
            if *path == "engine-avx2" && !Isa::available().any(|isa| isa.name() == "avx2") {
                continue;
            }
            repeat(path, 2).unwrap();
        }
        assert!(repeat("nothing", 1).is_err());
    }

    #[test]
    fn a_path_that_grew_is_told_from_one_that_did_not() {
        let judged = |count, before| CountedPath {
            path: "x",
            what: "",
            count,
            before,
        };
        assert!(judged(102, Some(100)).grew());
        assert!(!judged(1_005, Some(1_000)).grew());
        assert!(!judged(50, Some(100)).grew());
        assert!(!judged(50, None).grew());
        assert!(judged(50, None).failed() && judged(102, Some(100)).failed());
        assert!(!judged(100, Some(100)).failed());
    }

    #[test]
    fn valgrinds_line_is_read() {
        assert_eq!(
            parse_collected("==7== x\n==7== Collected : 123\n"),
            Some(123)
        );
        assert_eq!(parse_collected("nothing"), None);
    }
}
