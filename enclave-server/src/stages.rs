//! Durations of the stages of a start, by a monotonic clock.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::model::LoadTimes;
use crate::release::ReleaseTimes;

/// The stages of one start. Some overlap (`recipient_key`, and those of the load, `fetch` to `tokenizer`), so they do not add up
/// to `total`. A stage of several models is the sum over them.
///
/// | stage | time |
/// | --- | --- |
/// | `launch` | from the process's creation to its first instruction here, in the kernel's steps of 10 ms; absent where a container hides it |
/// | `recipient_key` | making the RSA key, on a separate thread |
/// | `attestation` | making the document for the key's release |
/// | `key_release` | from the request for the data key to the opened answer |
/// | `fetch`, `decrypt`, `hash`, `layout`, `tokenizer` | parts of the load, see [`LoadTimes`] |
/// | `load` | the whole load |
/// | `pack` | packing the weights for the engine, and starting its threads |
/// | `self_test` | embedding the texts of the lock's self-test |
/// | `keys` | making sealing and receipt keys, and a document with the module's time |
/// | `total` | from the process's creation to readiness |
#[derive(Clone, Debug)]
pub struct Stages {
    started: Instant,
    launch: Option<Duration>,
    stages: Vec<(&'static str, Duration)>,
}

impl Stages {
    /// Begins now; `launch` is the time before.
    pub fn begin() -> Self {
        let launch = since_creation();
        Self {
            started: Instant::now(),
            launch,
            stages: launch.map(|took| ("launch", took)).into_iter().collect(),
        }
    }

    /// Runs and times the work of a stage.
    pub fn time<T>(&mut self, stage: &'static str, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.add(stage, begun.elapsed());
        result
    }

    /// Adds a stage that was timed elsewhere.
    pub fn add(&mut self, stage: &'static str, took: Duration) {
        match self.stages.iter_mut().find(|(name, _)| *name == stage) {
            // Of another model.
            Some((_, sum)) => *sum += took,
            None => self.stages.push((stage, took)),
        }
    }

    /// Adds the times of the key's release.
    pub fn add_release(&mut self, times: ReleaseTimes) {
        let ReleaseTimes {
            recipient_key,
            attestation,
            key_release,
        } = times;
        self.add("recipient_key", recipient_key);
        self.add("attestation", attestation);
        self.add("key_release", key_release);
    }

    /// Adds the times of loading the model.
    pub fn add_load(&mut self, times: LoadTimes) {
        let LoadTimes {
            fetch,
            decrypt,
            hash,
            layout,
            tokenizer,
            total,
        } = times;
        self.add("fetch", fetch);
        self.add("decrypt", decrypt);
        self.add("hash", hash);
        self.add("layout", layout);
        self.add("tokenizer", tokenizer);
        self.add("load", total);
    }

    /// Ends with the stage `total`.
    #[must_use]
    pub fn end(mut self) -> Self {
        let total = self.launch.unwrap_or_default() + self.started.elapsed();
        self.stages.push(("total", total));
        self
    }

    /// Name and time of each stage.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        self.stages.iter().copied()
    }

    /// A JSON object of milliseconds, rounded to a microsecond.
    pub fn to_json(&self) -> Value {
        let milliseconds = |took: Duration| (took.as_secs_f64() * 1e6).round() / 1e3;
        self.iter()
            .map(|(stage, took)| (stage.to_owned(), milliseconds(took).into()))
            .collect::<Map<_, _>>()
            .into()
    }
}

/// Age of this process by the kernel's boot clock, which continues while a machine sleeps.
fn since_creation() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    age(&stat, &uptime)
}

/// Compares field 22 of proc_pid_stat(5), in ticks since boot, with the first field of proc_uptime(5), in seconds. Field 2 of the
/// former, the name, may contain spaces and parentheses.
fn age(stat: &str, uptime: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let created: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
    let (seconds, hundredths): (u64, u64) = (seconds.parse().ok()?, hundredths.parse().ok()?);
    let now = seconds.checked_mul(USER_HZ)?.checked_add(hundredths)?;
    now.checked_sub(created)
        .map(|ticks| Duration::from_millis(ticks.saturating_mul(1_000 / USER_HZ)))
}

/// Ticks per second in Linux's process statistics, on every architecture of Nitro enclaves.
const USER_HZ: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_named_in_order_and_end_with_the_total() {
        let mut stages = Stages::begin();
        stages.add_release(ReleaseTimes::default());
        stages.add_load(LoadTimes {
            fetch: Duration::from_micros(1_500),
            ..LoadTimes::default()
        });
        assert_eq!(stages.time("keys", || 7), 7);
        // A second model adds to the same stages.
        stages.add_load(LoadTimes {
            fetch: Duration::from_micros(500),
            ..LoadTimes::default()
        });
        let stages = stages.end();
        // A container may hide when its processes were created.
        let stage_names = stages.iter().map(|(stage, _)| stage);
        let names: Vec<_> = stage_names.filter(|stage| *stage != "launch").collect();
        assert_eq!(
            names,
            [
                "recipient_key",
                "attestation",
                "key_release",
                "fetch",
                "decrypt",
                "hash",
                "layout",
                "tokenizer",
                "load",
                "keys",
                "total"
            ]
        );
        assert_eq!(stages.to_json()["fetch"], 2.0);
    }

    #[test]
    fn the_age_of_a_process_is_read_past_any_name() {
        let fields = (3..=21).map(|field| field.to_string()).collect::<Vec<_>>();
        let stat = format!("7 (a ) b) {} 250 0\n", fields.join(" "));
        assert_eq!(
            age(&stat, "3.75 1.00\n"),
            Some(Duration::from_millis(1_250))
        );
        assert_eq!(age(&stat, "2.49 1.00\n"), None);
        assert_eq!(age("7 (a", "3.75 1.00"), None);
        assert_eq!(age("7 (a) S 1", "3.75 1.00"), None);
    }
}
