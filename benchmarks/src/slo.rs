//! Service levels: those of the channel brief where we have the same thing, and our own.

use std::fmt;

use crate::published::figures;
use crate::record::{Measurement, Parameter, Record};
use crate::report::short;

/// A level, and how a run did.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// What it is about.
    pub title: &'static str,
    /// Most that is allowed, in base units (milliseconds, bytes), or least, for qualities.
    pub limit: f64,
    /// What was measured.
    pub measured: f64,
    /// Whether it is kept.
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

enum Bound {
    Most(f64),
    Least(f64),
}

type Fits = fn(&Measurement) -> bool;

const LEVELS: &[(&str, &str, Bound, Fits)] = &[
    (
        "Cryptography of a request, X25519, mean, ms",
        "request.crypto",
        Bound::Most(0.25),
        |figure| kind(figure, "X25519"),
    ),
    (
        "Cryptography of a request, X-Wing, mean, ms",
        "request.crypto",
        Bound::Most(0.5),
        |figure| kind(figure, "X-Wing"),
    ),
    (
        "Attestation document verified, mean, ms",
        "cose.full",
        Bound::Most(15.0),
        any,
    ),
    (
        "Round trip of 1 KiB over a Unix socket, mean, ms",
        "transport.rtt",
        Bound::Most(0.2),
        unix_1k,
    ),
    (
        "Cosine to the reference, least",
        "quality.cosine",
        Bound::Least(0.99999),
        any,
    ),
    (
        "Runs that agree to the bit, %",
        "quality.identical_runs",
        Bound::Least(100.0),
        any,
    ),
];

fn any(_: &Measurement) -> bool {
    true
}

fn kind(figure: &Measurement, name: &str) -> bool {
    figure.parameters.get("kind") == Some(&Parameter::Text(name.to_owned()))
}

fn unix_1k(figure: &Measurement) -> bool {
    figure.parameters.get("transport") == Some(&Parameter::Text("unix".to_owned()))
        && figure.parameters.get("payload_bytes") == Some(&Parameter::Number(1024.0))
}

/// Levels that `records` have a figure for.
pub fn judge(records: &[Record]) -> Vec<Level> {
    let all: Vec<Measurement> = records.iter().flat_map(figures).collect();
    LEVELS
        .iter()
        .flat_map(|(title, subject, bound, fits)| {
            all.iter()
                .filter(move |figure| figure.subject == *subject && fits(figure))
                .filter_map(move |figure| {
                    let measured = figure.statistics.headline()? * figure.unit?.scale().1;
                    let (limit, met) = match bound {
                        Bound::Most(limit) => (*limit, measured <= *limit),
                        Bound::Least(limit) => (*limit, measured >= *limit),
                    };
                    Some(Level {
                        title,
                        limit,
                        measured,
                        met,
                    })
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;

    #[test]
    fn a_level_is_met_or_missed() {
        let text = |value: f64| {
            format!(
                r#"{{"environment":"simulated","measurements":[{{"subject":"quality.cosine","unit":"ratio","statistics":{{"value":{value}}}}}]}}"#
            )
        };
        for (value, met) in [(1.0, true), (0.98, false)] {
            let records = read("run.json", text(value).as_bytes()).unwrap().records;
            assert_eq!(judge(&records)[0].met, met);
        }
        assert!(judge(&[]).is_empty());
    }
}
