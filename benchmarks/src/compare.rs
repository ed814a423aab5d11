//! Two runs, figure by figure. Samples of a record are gone by then, so the noise comes from their stated intervals;
//! within one run, [`crate::statistics::paired`] works on the samples themselves.

use std::fmt::Write;

use anyhow::{Result, ensure};

use crate::catalogue::{Better, figures, find};
use crate::record::{Measurement, Record, Statistics};
use crate::report::{label, short};

/// One figure that both runs have.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What it is.
    pub label: String,
    /// In base units.
    pub from: f64,
    /// In base units.
    pub to: f64,
    /// How much more the second is, in per cent.
    pub percent: f64,
    /// Half the 95 % interval of `percent`, where both state their spread.
    pub noise: Option<f64>,
    /// In a word.
    pub verdict: &'static str,
}

/// Figures with the same subject and parameters.
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
            let percent = (to / from - 1.0) * 100.0;
            let noise = half_width(&figure.statistics)
                .zip(half_width(&other.statistics))
                .map(|(a, b)| a.hypot(b) * (to / from) * 100.0);
            let verdict = verdict(&figure.subject, percent, noise);
            (from != 0.0).then(|| Difference {
                label: label(&figure),
                from,
                to,
                percent,
                noise,
                verdict,
            })
        })
        .collect()
}

/// Half the interval of the mean, as a share of the mean.
fn half_width(statistics: &Statistics) -> Option<f64> {
    let [low, high] = statistics.ci95?;
    Some((high - low) / 2.0 / statistics.mean?)
}

fn verdict(subject: &str, percent: f64, noise: Option<f64>) -> &'static str {
    match (noise, find(subject).map(|subject| subject.better)) {
        (None, _) => "no spread stated",
        (Some(noise), _) if percent.abs() <= noise => "within noise",
        (_, Some(Better::Lower)) => {
            if percent < 0.0 {
                "better"
            } else {
                "worse"
            }
        }
        (_, Some(Better::Higher)) => {
            if percent > 0.0 {
                "better"
            } else {
                "worse"
            }
        }
        _ => "differs",
    }
}

/// The differences as a table for a terminal.
///
/// # Errors
/// Where the runs share no figure.
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
            "{:<70} {:>10} → {:<10} {:>+9.1} % {:>9}  {}",
            row.label,
            short(row.from),
            short(row.to),
            row.percent,
            noise,
            row.verdict
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
