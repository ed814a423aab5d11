//! Compares two runs, figure by figure.
//!
//! Where both took turns in one run, the difference is computed pair by pair, so that disturbances of both cancel out. Otherwise
//! the single repetitions are unknown, and the noise is estimated from the stated intervals of both means.

use std::fmt::Write;

use anyhow::{Result, ensure};

use crate::catalogue::{Better, find};
use crate::published::figures;
use crate::record::{Measurement, Record, Statistics};
use crate::report::label;
use crate::statistics;
use crate::statistics::short;

/// One figure that both runs have.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Subject and parameters.
    pub label: String,
    /// In base units.
    pub from: f64,
    /// In base units.
    pub to: f64,
    /// Relative difference of the second run, in per cent.
    pub percent: f64,
    /// Half the 95 % interval of `percent`, where both state their spread.
    pub noise: Option<f64>,
    /// Whether the difference was computed pair by pair.
    pub paired: bool,
    /// The conclusion in one or two words.
    pub verdict: &'static str,
}

/// Compares figures with the same subject and parameters.
pub fn differences(a: &[Record], b: &[Record]) -> Vec<Difference> {
    let theirs: Vec<Measurement> = b.iter().flat_map(figures).collect();
    a.iter()
        .flat_map(figures)
        .filter_map(|figure| {
            let other = theirs
                .iter()
                .find(|one| one.subject == figure.subject && one.parameters == figure.parameters)?;
            let from = figure.statistics.headline()? * figure.unit?.scale().1;
            let to = other.statistics.headline()? * other.unit?.scale().1;
            let pairs = paired_samples(&figure, other).and_then(|(a, b)| statistics::paired(a, b));
            let stated = half_width(&figure.statistics)
                .zip(half_width(&other.statistics))
                .map(|(a, b)| a.hypot(b) * (to / from) * 100.0);
            let (percent, noise) = match pairs {
                Some((percent, half)) => (percent, Some(half)),
                None => ((to / from - 1.0) * 100.0, stated),
            };
            let verdict = verdict(&figure.subject, percent, noise);
            (from != 0.0).then(|| Difference {
                label: label(&figure),
                from,
                to,
                percent,
                noise,
                paired: pairs.is_some(),
                verdict,
            })
        })
        .collect()
}

/// Returns the repetitions of both, where they were taken turn by turn.
fn paired_samples<'a>(a: &'a Measurement, b: &'a Measurement) -> Option<(&'a [f64], &'a [f64])> {
    let (a, b) = a.turns.as_ref().zip(b.turns.as_ref())?;
    let together = a.id == b.id && a.sample.len() == b.sample.len();
    together.then_some((&a.sample, &b.sample))
}

/// Half the confidence interval of the mean, relative to the mean.
fn half_width(statistics: &Statistics) -> Option<f64> {
    let [low, high] = statistics.ci95?;
    Some((high - low) / 2.0 / statistics.mean?)
}

fn verdict(subject: &str, percent: f64, noise: Option<f64>) -> &'static str {
    match (noise, find(subject).map(|subject| subject.better)) {
        (None, _) => "no spread stated",
        (Some(noise), _) if percent.abs() <= noise => "within noise",
        (_, Some(Better::Lower)) if percent < 0.0 => "better",
        (_, Some(Better::Higher)) if percent > 0.0 => "better",
        (_, Some(Better::Lower | Better::Higher)) => "worse",
        _ => "differs",
    }
}

/// Formats the differences as a table for a terminal.
///
/// # Errors
/// If the runs share no figure.
pub fn table(a: &[Record], b: &[Record]) -> Result<String> {
    let rows = differences(a, b);
    ensure!(
        !rows.is_empty(),
        "the two files share no figure that was measured under the same conditions"
    );
    let mut out = String::new();
    for row in rows {
        let noise = row.noise.map_or_else(
            || "      ".to_owned(),
            |noise| format!("± {}", short(noise)),
        );
        let _ = writeln!(
            out,
            "{:<70} {:>10} → {:<10} {:>+9.2} % {:>9}  {}{}",
            row.label,
            short(row.from),
            short(row.to),
            row.percent,
            noise,
            row.verdict,
            if row.paired { ", pair by pair" } else { "" }
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;

    fn run(mean: f64) -> Vec<Record> {
        let text = format!(
            r#"{{"environment":"simulated","inference":{{"latency_ms":{{"mean":{mean},"ci95":[{},{}]}}}}}}"#,
            mean - 0.5,
            mean + 0.5
        );
        read("run.json", text.as_bytes()).unwrap().records
    }

    /// A run that fluctuates by half, as one of two that took turns and share the fluctuation.
    fn turn(times: f64, id: &str) -> Vec<Record> {
        let sample: Vec<String> = [10.0, 15.0, 11.0, 14.0, 13.0]
            .iter()
            .zip([1.0, 1.001, 0.999, 1.0, 1.0])
            .map(|(value, jitter)| (value * times * jitter).to_string())
            .collect();
        let text = format!(
            r#"{{"environment":"simulated","measurements":[{{"subject":"peers.latency","unit":"ms",
                "statistics":{{"mean":{},"ci95":[{},{}]}},"turns":{{"id":"{id}","sample":[{}]}}}}]}}"#,
            12.6 * times,
            9.9 * times,
            15.3 * times,
            sample.join(",")
        );
        read("run.json", text.as_bytes()).unwrap().records
    }

    #[test]
    fn runs_that_took_turns_are_compared_pair_by_pair() {
        let [found] = &differences(&turn(1.0, "x"), &turn(1.05, "x"))[..] else {
            panic!("one figure")
        };
        assert!(
            found.paired && (found.percent - 5.0).abs() < 0.1,
            "{found:?}"
        );
        assert_eq!(found.verdict, "worse");
        // The same figures from two different runs: the fluctuation hides the difference.
        let [apart] = &differences(&turn(1.0, "x"), &turn(1.05, "y"))[..] else {
            panic!("one figure")
        };
        assert!(!apart.paired);
        assert_eq!(apart.verdict, "within noise");
    }

    #[test]
    fn a_difference_counts_when_it_is_larger_than_its_noise() {
        let table = [
            (80.0, 70.0, "better"),
            (80.0, 90.0, "worse"),
            (80.0, 80.2, "within noise"),
        ];
        for (from, to, verdict) in table {
            assert_eq!(
                differences(&run(from), &run(to))[0].verdict,
                verdict,
                "{from} {to}"
            );
        }
        assert!(super::table(&run(1.0), &[]).is_err());
    }
}
