//! The state of a run, and functions that add figures to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use engine::Encoder;

use super::Benchmark;
use crate::record::{Absent, Measurement, Parameter, Peer, Statistics, Turns, Unit};
use crate::statistics;

/// Start of the reason for which a benchmark that failed is absent.
pub const FAILED: &str = "failed: ";

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// A tenth of the repetitions, small sizes only.
    pub quick: bool,
    /// Folder of the model.
    pub model: PathBuf,
    /// Compute threads.
    pub threads: usize,
    /// Another build of this program to measure in turns.
    pub other: Option<PathBuf>,
    /// Whether to build and run the contenders of the channel.
    pub contenders: bool,
}

/// The options and results of a run in progress.
pub struct Run {
    /// Options of the run.
    pub options: Options,
    /// Figures.
    pub measurements: Vec<Measurement>,
    /// Benchmarks and subjects that could not be measured.
    pub absent: Vec<Absent>,
    /// Implementations that took turns with ours.
    pub peers: Vec<Peer>,
    /// Benchmarks that returned an error.
    pub failed: Vec<&'static str>,
    /// Notes that a reader needs to interpret the figures.
    pub notes: Vec<String>,
    /// Figures of [`Options::other`], and the commit that it was built from.
    pub other: Option<(String, Vec<Measurement>)>,
    pub(super) begun: String,
    pub(super) current: &'static str,
    pub(super) encoders: Vec<Arc<dyn Encoder>>,
}

impl Run {
    /// An empty run.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            measurements: Vec::new(),
            absent: Vec::new(),
            peers: Vec::new(),
            failed: Vec::new(),
            notes: Vec::new(),
            other: None,
            begun: unique(),
            current: "",
            encoders: Vec::new(),
        }
    }

    /// Measured repetitions: 100, or 10 in a quick run.
    pub fn repetitions(&self) -> u64 {
        if self.options.quick { 10 } else { 100 }
    }

    /// Warm-up repetitions, which are discarded.
    pub fn warmups(&self) -> u64 {
        3
    }

    /// Number of pairs of phases, with and without the measured condition, and the duration of a phase.
    pub(super) fn phases(&self) -> (usize, Duration) {
        match self.options.quick {
            true => (1, Duration::from_secs(2)),
            false => (3, Duration::from_secs(4)),
        }
    }

    /// Runs `benchmarks`. Calls `progress` before each with its name and the estimated remaining time, and `finished` after each,
    /// so that an interrupted run loses no results.
    ///
    /// A benchmark that fails is recorded as absent with the reason and without figures, so that another run can repeat it, and the
    /// run continues.
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
        // Machines differ, so the estimate is scaled by the durations so far.
        let (begun, mut expected) = (Instant::now(), 0u64);
        for (index, benchmark) in benchmarks.iter().enumerate() {
            let left: u64 = seconds[index..].iter().sum();
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
            let there = self.lengths();
            if let Err(error) = (benchmark.run)(self) {
                self.truncate(there);
                self.absent(benchmark.name, &format!("{FAILED}{error:#}"));
                self.failed.push(benchmark.name);
            }
            expected += seconds[index];
            finished(self, benchmark.name);
        }
    }

    fn lengths(&self) -> [usize; 3] {
        let other = self.other.as_ref().map_or(0, |(_, figures)| figures.len());
        [self.measurements.len(), self.absent.len(), other]
    }

    fn truncate(&mut self, [measurements, absent, other]: [usize; 3]) {
        self.measurements.truncate(measurements);
        self.absent.truncate(absent);
        if let Some((_, figures)) = &mut self.other {
            figures.truncate(other);
        }
    }

    pub(super) fn absent(&mut self, subject: &str, why: &str) {
        self.absent.push(Absent {
            subject: subject.to_owned(),
            why: why.chars().take(400).collect(),
        });
    }

    /// Returns the value, or records the error as the reason why `subject` is absent.
    pub(super) fn or_absent<T>(&mut self, subject: &str, found: Result<T>) -> Option<T> {
        found
            .map_err(|error| self.absent(subject, &format!("not measured: {error:#}")))
            .ok()
    }

    /// Adds the milliseconds of repetitions of `work` as a measurement.
    pub(super) fn time<T>(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        work: impl FnMut() -> Result<T>,
    ) -> Result<Vec<f64>> {
        let sample = statistics::timed(self.warmups(), self.repetitions(), work)?;
        self.times(subject, parameters, &sample);
        Ok(sample)
    }

    pub(super) fn add(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        unit: Unit,
        statistics: Statistics,
    ) {
        self.push(Measurement::new(subject, parameters, unit, statistics));
    }

    /// Adds a figure. One that is not finite becomes absent: a record cannot hold it, and would lose all other figures with it.
    fn push(&mut self, figure: Measurement) {
        if figure.statistics.is_finite() {
            self.measurements.push(figure);
        } else {
            self.absent(&figure.subject, "the figure is not a finite number");
        }
    }

    /// Adds the statistics of repetitions.
    pub(super) fn sample(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        unit: Unit,
        sample: &[f64],
    ) {
        self.add(subject, parameters, unit, statistics::of(sample));
    }

    /// Adds the milliseconds of repetitions.
    pub(super) fn times(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        sample: &[f64],
    ) {
        self.sample(subject, parameters, Unit::Milliseconds, sample);
    }

    /// Adds figures of implementations that took turns, each with its own parameter.
    pub(super) fn turns(
        &mut self,
        subject: &str,
        conditions: &[(&str, Parameter)],
        samples: &[ContenderSample<'_>],
    ) {
        let mut id = format!("{} {} {subject}", self.begun, self.current);
        for (name, value) in conditions {
            id = format!("{id} {name} {value}");
        }
        for ContenderSample {
            parameter,
            milliseconds,
        } in samples
        {
            let parameters: Vec<_> = conditions.iter().chain([parameter]).cloned().collect();
            let statistics = statistics::of(milliseconds);
            let figure = Measurement::new(subject, &parameters, Unit::Milliseconds, statistics);
            self.push(Measurement {
                turns: Some(Turns {
                    id: id.clone(),
                    sample: milliseconds.clone(),
                }),
                ..figure
            });
        }
    }

    /// Adds the throughput of repetitions over `bytes`, from their mean.
    pub(super) fn throughput(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        bytes: usize,
        milliseconds: &[f64],
    ) {
        if let Some(mean) = statistics::of(milliseconds).mean {
            let mebibytes = bytes as f64 / f64::from(1 << 20);
            let rate = mebibytes * 1_000.0 / mean;
            self.value(subject, parameters, Unit::MebibytesPerSecond, rate);
        }
    }

    pub(super) fn value(
        &mut self,
        subject: &str,
        parameters: &[(&str, Parameter)],
        unit: Unit,
        value: f64,
    ) {
        self.add(subject, parameters, unit, Statistics::of_one(value));
    }

    /// Adds several figures with the same conditions.
    pub(super) fn values(
        &mut self,
        parameters: &[(&str, Parameter)],
        figures: &[(&str, Unit, f64)],
    ) {
        for (subject, unit, value) in figures {
            self.value(subject, parameters, *unit, *value);
        }
    }
}

/// The repetitions of one implementation that took turns with others.
pub(super) struct ContenderSample<'a> {
    /// The parameter that distinguishes it from the others.
    pub(super) parameter: (&'a str, Parameter),
    /// One duration per repetition.
    pub(super) milliseconds: Vec<f64>,
}

/// An identifier of this run.
fn unique() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}", since.unwrap_or_default().as_nanos())
}

/// Calls every function `each` times, all concurrently; returns calls per second, and milliseconds of each call.
pub(super) fn at_once<F: FnMut() -> Result<()> + Send>(
    callers: Vec<F>,
    each: u64,
) -> Result<(f64, Vec<f64>)> {
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
    let rate = samples.len() as f64 / begun.elapsed().as_secs_f64();
    Ok((rate, samples))
}

pub(super) fn text(value: &str) -> Parameter {
    Parameter::Text(value.to_owned())
}

pub(super) fn number(value: usize) -> Parameter {
    Parameter::Number(value as f64)
}

/// A quick run without figures.
#[cfg(test)]
pub(super) fn empty() -> Run {
    Run::new(Options {
        quick: true,
        model: PathBuf::new(),
        threads: 1,
        other: None,
        contenders: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_not_finite_is_absent() {
        let mut run = empty();
        for value in [f64::NAN, f64::INFINITY, 1.0] {
            run.value("documents.speedup", &[], Unit::Ratio, value);
        }
        run.sample("load.over_bound", &[], Unit::Ratio, &[1.0, f64::INFINITY]);
        run.turns(
            "peers.latency",
            &[],
            &[ContenderSample {
                parameter: ("engine", text("x")),
                milliseconds: vec![f64::NAN],
            }],
        );
        assert_eq!(run.measurements.len(), 1);
        assert!(run.measurements[0].turns.is_none());
        let absent: Vec<_> = run.absent.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(
            absent,
            [
                "documents.speedup",
                "documents.speedup",
                "load.over_bound",
                "peers.latency"
            ]
        );
    }
}
