//! One figure: its subject, its conditions and its numbers.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use ts_rs::TS;

#[cfg(doc)]
use super::{Reference, Statement, Table};
use crate::statistics::short;

/// One figure, or the statistics of one sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Measurement {
    /// Subject, by its name in [`crate::catalogue`]: `inference.latency`. Other names are allowed.
    #[schemars(
        length(min = 1, max = 80),
        regex(pattern = r"^[a-z0-9_]+(\.[a-z0-9_]+)*$")
    )]
    pub subject: String,
    /// Conditions: `tokens`, `payload_bytes`, `clients`, `engine`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(extend("maxProperties" = 16))]
    pub parameters: BTreeMap<String, Parameter>,
    /// Unit of every number in `statistics`; absent where they have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// The numbers.
    #[serde(default, skip_serializing_if = "Statistics::is_empty")]
    #[ts(as = "Option<_>")]
    pub statistics: Statistics,
    /// Qualifies a number that is not an exact figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qualifier: Option<Qualifier>,
    /// The source's words where it gives no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 400))]
    pub said: Option<String>,
    /// Place in the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cite: Option<Cite>,
    /// Notes that a reader needs to interpret this figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 400))]
    pub note: Option<String>,
    /// The repetitions themselves, where several implementations took turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
}

impl Measurement {
    /// Creates a figure with its conditions.
    pub(crate) fn new(
        subject: &str,
        parameters: &[(&str, Parameter)],
        unit: Unit,
        statistics: Statistics,
    ) -> Self {
        let parameters = parameters.iter();
        Self {
            subject: subject.to_owned(),
            parameters: parameters
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            unit: Some(unit),
            statistics,
            ..Self::default()
        }
    }
}

/// Repetitions in order. Figures with the same `id` and the same number of repetitions were taken turn by turn: disturbances of
/// the machine affected all of them alike, so their differences can be computed pair by pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// Unique per run, benchmark and set of conditions.
    #[schemars(length(min = 1, max = 200))]
    pub id: String,
    /// One figure per turn, in the measurement's unit. Rounded to six significant digits: no clock here is more precise, and a
    /// run has a hundred thousand figures.
    #[schemars(length(max = 1_000))]
    #[serde(serialize_with = "six_digits")]
    pub sample: Vec<f64>,
}

fn six_digits<S: Serializer>(sample: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let rounded = sample.iter().map(|value| -> f64 {
        // Formatting and parsing again is the shortest way to round.
        format!("{value:.5e}").parse().unwrap_or(*value)
    });
    serializer.collect_seq(rounded)
}

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(untagged)]
pub enum Parameter {
    /// A count or a size.
    Number(f64),
    /// A name.
    Text(#[schemars(length(max = 200))] String),
}

impl Parameter {
    /// Formats it for people, a number with its significant digits.
    pub(crate) fn short(&self) -> String {
        match self {
            Self::Number(number) => short(*number),
            Self::Text(text) => text.clone(),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => out.write_str(text),
        }
    }
}

/// Statistics of a sample. Percentiles are by nearest rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Statistics {
    /// The figure, where the source does not state which statistic it is, or where it was counted rather than sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Arithmetic mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// Smallest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Standard deviation of the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub stddev: Option<f64>,
    /// Bounds of the 95 % confidence interval of the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Size of the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
}

impl Statistics {
    /// A figure that is a single number.
    pub fn of_one(value: f64) -> Self {
        Self {
            value: Some(value),
            ..Self::default()
        }
    }

    /// A mean with half its 95 % confidence interval, from `samples` repetitions.
    pub fn of_mean(mean: f64, half: f64, samples: u64) -> Self {
        Self {
            mean: Some(mean),
            ci95: Some([mean - half, mean + half]),
            samples: Some(samples),
            ..Self::default()
        }
    }

    /// Whether it has no number.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether each of its numbers is finite.
    pub fn is_finite(&self) -> bool {
        let single = [
            self.value,
            self.mean,
            self.p50,
            self.p95,
            self.p99,
            self.min,
            self.max,
            self.stddev,
        ];
        let all = single.into_iter().flatten();
        all.chain(self.ci95.into_iter().flatten())
            .all(f64::is_finite)
    }

    /// Returns a statistic by its name in records.
    pub fn get(&self, name: &str) -> Option<f64> {
        match name {
            "value" => self.value,
            "mean" => self.mean,
            "p50" => self.p50,
            "p95" => self.p95,
            "p99" => self.p99,
            "min" => self.min,
            "max" => self.max,
            "stddev" => self.stddev,
            _ => None,
        }
    }

    /// Returns the number to show where there is room for one: value, mean, median, or the middle of a range.
    pub fn headline(&self) -> Option<f64> {
        let middle = self
            .min
            .zip(self.max)
            .map(|(min, max)| f64::midpoint(min, max));
        self.value
            .or(self.mean)
            .or(self.p50)
            .or(middle)
            .or(self.p95)
            .or(self.max)
            .or(self.min)
    }
}

/// Qualifies a number that is not an exact figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum Qualifier {
    /// The source says "about".
    About,
    /// The source says "up to".
    UpTo,
    /// The source says "more than".
    MoreThan,
    /// The source says "less than".
    LessThan,
    /// The source calls it an estimate.
    Estimated,
    /// It was computed from other figures.
    Derived,
}

/// Place of a figure in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Cite {
    /// Identifier of the [`Table`].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub table: Option<String>,
    /// Row and column in the table, from 0, for each statistic, and for `said`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(extend("maxProperties" = 16))]
    pub cells: BTreeMap<String, [u32; 2]>,
    /// Index of the [`Statement`], where the figure is in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<u32>,
    /// Number of the [`Reference`] that the report names as its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<u32>,
}

/// Units. The published reports mix decimal and binary prefixes; a record keeps what was published.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, TS,
)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Megabytes, 10⁶ bytes or, in the reports' memory figures, 2²⁰.
    #[serde(rename = "MB")]
    Megabytes,
    /// Mebibytes.
    #[serde(rename = "MiB")]
    Mebibytes,
    /// Megabytes per second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Gigabytes per second.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// Mebibytes per second.
    #[serde(rename = "MiB/s")]
    MebibytesPerSecond,
    /// Gibibytes per second.
    #[serde(rename = "GiB/s")]
    GibibytesPerSecond,
    /// Tebibytes per second.
    #[serde(rename = "TiB/s")]
    TebibytesPerSecond,
    /// Inferences per second.
    #[serde(rename = "inferences/s")]
    InferencesPerSecond,
    /// Hundredths.
    #[serde(rename = "percent")]
    Percent,
    /// A factor.
    #[serde(rename = "ratio")]
    Ratio,
    /// United States dollars.
    #[serde(rename = "USD")]
    Dollars,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
}
