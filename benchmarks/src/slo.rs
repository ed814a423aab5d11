//! Service levels that the channel's published brief promises, checked for the channel as clients open it by default.

use std::fmt;

use crate::published::figures;
use crate::record::{Measurement, Parameter, Record, Statistics};
use crate::statistics::short;

/// A service level and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Name of the level.
    pub title: &'static str,
    /// Upper or lower limit, in the unit that the title names.
    pub limit: f64,
    /// The measured figure.
    pub measured: f64,
    /// Whether the level is met.
    pub met: bool,
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.met { "met   " } else { "MISSED" };
        write!(
            out,
            "{word}  {:<52} {:>10}, limit {}",
            self.title,
            short(self.measured),
            short(self.limit)
        )
    }
}

/// A level, and the figure that it applies to.
struct Promise {
    title: &'static str,
    subject: &'static str,
    /// Parameters that the figure must have.
    words: &'static [(&'static str, &'static str)],
    numbers: &'static [(&'static str, f64)],
    statistic: fn(&Statistics) -> Option<f64>,
    /// The title's unit in base units.
    scale: f64,
    bound: Bound,
}

enum Bound {
    Below(f64),
    Above(f64),
}

const IN_PROCESS: (&str, &str) = ("transport", "secure channel in process");
/// A channel as our clients open it: post-quantum, to an enclave that was verified before.
const OPENED: &[(&str, &str)] = &[
    IN_PROCESS,
    ("attestation", "endorsed key"),
    ("kind", "X-Wing"),
];

const PROMISES: &[Promise] = &[
    Promise {
        title: "Handshake of the channel, median, µs",
        subject: "transport.handshake",
        words: OPENED,
        numbers: &[],
        statistic: |all| all.p50,
        scale: 1e3,
        bound: Bound::Below(500.0),
    },
    Promise {
        title: "Round trip of 1,536 bytes, median, µs",
        subject: "transport.rtt",
        words: &[IN_PROCESS],
        // Two threads, as published: the peer's thread may have to be woken up.
        numbers: &[("payload_bytes", 1_536.0), ("threads", 2.0)],
        statistic: |all| all.p50,
        scale: 1e3,
        bound: Bound::Below(200.0),
    },
    Promise {
        title: "Open, close and open again, 95th percentile, ms",
        subject: "transport.reconnect",
        words: OPENED,
        numbers: &[],
        statistic: |all| all.p95,
        scale: 1.0,
        bound: Bound::Below(1.0),
    },
    Promise {
        title: "Burst of 4 KB messages, median, MB/s",
        subject: "transport.throughput",
        words: &[IN_PROCESS, ("pattern", "sustained")],
        numbers: &[("payload_bytes", 4_096.0)],
        statistic: |all| all.p50,
        scale: 1e-6,
        bound: Bound::Above(200.0),
    },
];

impl Promise {
    fn judge(&self, figure: &Measurement) -> Option<Level> {
        let has = |name: &str, value: &Parameter| figure.parameters.get(name) == Some(value);
        let fits = figure.subject == self.subject
            && self
                .words
                .iter()
                .all(|(name, word)| has(name, &Parameter::Text((*word).to_owned())))
            && self
                .numbers
                .iter()
                .all(|(name, number)| has(name, &Parameter::Number(*number)));
        let statistic = fits.then(|| (self.statistic)(&figure.statistics))??;
        let measured = statistic * figure.unit?.scale().1 * self.scale;
        let (limit, met) = match self.bound {
            Bound::Below(limit) => (limit, measured < limit),
            Bound::Above(limit) => (limit, measured > limit),
        };
        Some(Level {
            title: self.title,
            limit,
            measured,
            met,
        })
    }
}

/// Checks every figure in `records` that a level applies to.
pub fn judge(records: &[Record]) -> Vec<Level> {
    let all: Vec<Measurement> = records.iter().flat_map(figures).collect();
    PROMISES
        .iter()
        .flat_map(|promise| all.iter().filter_map(|figure| promise.judge(figure)))
        .collect()
}

/// Names the levels that no figure in `records` is about.
pub fn unjudged(records: &[Record]) -> Vec<&'static str> {
    let judged = judge(records);
    PROMISES
        .iter()
        .map(|promise| promise.title)
        .filter(|title| judged.iter().all(|level| level.title != *title))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;

    fn levels_of(subject: &str, parameters: &str, unit: &str, statistics: &str) -> Vec<Level> {
        let text = format!(
            r#"{{"environment":"simulated","measurements":[{{"subject":"transport.{subject}","parameters":{{"transport":"secure channel in process",{parameters}}},"unit":"{unit}","statistics":{{{statistics}}}}}]}}"#
        );
        judge(&read("run.json", text.as_bytes()).unwrap().records)
    }

    #[test]
    fn a_level_is_met_or_missed_by_the_statistic_that_it_names() {
        let opened = r#""attestation":"endorsed key","kind":"X-Wing""#;
        let rtt = r#""payload_bytes":1536,"threads":2"#;
        let burst = r#""payload_bytes":4096,"pattern":"sustained""#;
        let table = [
            ("handshake", opened, "ms", r#""p50":0.499,"p95":0.9"#, true),
            ("handshake", opened, "us", r#""p50":500"#, false),
            ("rtt", rtt, "us", r#""p50":199,"mean":300"#, true),
            ("rtt", rtt, "ms", r#""p50":0.2"#, false),
            ("reconnect", opened, "ms", r#""p50":0.8,"p95":0.99"#, true),
            ("reconnect", opened, "ms", r#""p50":0.8,"p95":1.01"#, false),
            ("throughput", burst, "MB/s", r#""p50":201"#, true),
            ("throughput", burst, "GB/s", r#""p50":0.1"#, false),
        ];
        for (subject, parameters, unit, statistics, met) in table {
            let levels = levels_of(subject, parameters, unit, statistics);
            assert_eq!(levels.len(), 1, "{subject} {statistics}");
            assert_eq!(levels[0].met, met, "{subject} {statistics}");
        }
    }

    #[test]
    fn nothing_else_is_judged() {
        let classic = r#""attestation":"endorsed key","kind":"X25519""#;
        assert!(levels_of("handshake", classic, "ms", r#""p50":9"#).is_empty());
        let long = r#""payload_bytes":4096,"threads":2"#;
        assert!(levels_of("rtt", long, "ms", r#""p50":9"#).is_empty());
        let mean = r#""payload_bytes":1536,"threads":2"#;
        assert!(levels_of("rtt", mean, "ms", r#""mean":9"#).is_empty());
        assert!(judge(&[]).is_empty());
    }

    #[test]
    fn a_level_without_a_figure_is_named() {
        assert_eq!(unjudged(&[]).len(), PROMISES.len());
        let text = r#"{"environment":"simulated","measurements":[{"subject":"transport.rtt","parameters":{"transport":"secure channel in process","payload_bytes":1536,"threads":2},"unit":"ms","statistics":{"p50":9}}]}"#;
        let missing = unjudged(&read("run.json", text.as_bytes()).unwrap().records);
        assert_eq!(missing.len(), PROMISES.len() - 1);
        assert!(!missing.contains(&PROMISES[1].title), "{missing:?}");
    }
}
