//! The published tables as they stand, with what we measured beside each row.

mod alike;

use alike::{like, same, unlike};

use crate::published::figures;
use crate::reading::Contents;
use crate::record::{
    Environment, Measurement, Parameter, Record, Statistics, Table, TableKind, Unit,
};
use crate::statistics::short;
use crate::schema::unit_name;

/// Subjects that follow from the other figures of their row.
const DERIVED: [&str; 4] = ["overhead", "share", "difference", "slo.target"];

/// A published table with one column more.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Report and heading.
    pub title: String,
    /// The published columns, and ours.
    pub columns: Vec<String>,
    /// The published rows, each with ours, or with why there is none. A row of words has nothing beside it.
    pub rows: Vec<Vec<String>>,
}

/// Every table of figures of `reports`, in their order, with every row.
pub fn tables(reports: &[Contents], ours: &[Record]) -> Vec<Beside> {
    let measured: Vec<Measurement> = ours.iter().flat_map(figures).collect();
    reports
        .iter()
        .filter_map(|report| Some((report, report.file.as_ref()?)))
        .flat_map(|(report, file)| {
            let measured = &measured;
            let title = file
                .report
                .as_ref()
                .map_or("", |report| report.title.as_str());
            file.tables
                .iter()
                .filter(|table| table.kind == TableKind::Figures)
                .map(move |table| Beside {
                    title: format!("{title}: {}", table.heading),
                    columns: table
                        .columns
                        .iter()
                        .cloned()
                        .chain(["Ours".to_owned()])
                        .collect(),
                    rows: (0..table.rows.len())
                        .map(|row| {
                            let cell = ours_of(&report.records, table, row, measured, ours);
                            table.rows[row].iter().cloned().chain([cell]).collect()
                        })
                        .collect(),
                })
        })
        .collect()
}

/// What we have for the figures that row `row` is cited by, in the order of its cells.
fn ours_of(
    records: &[Record],
    table: &Table,
    row: usize,
    measured: &[Measurement],
    ours: &[Record],
) -> String {
    let mut cited: Vec<(u32, &str, &Measurement, Environment)> = records
        .iter()
        .flat_map(|record| {
            record
                .measurements
                .iter()
                .map(|one| (record.environment, one))
        })
        .filter_map(|(place, figure)| Some((place, figure, figure.cite.as_ref()?)))
        .filter(|(.., cite)| cite.table.as_deref() == Some(&table.id))
        .flat_map(|(place, figure, cite)| {
            cite.cells
                .iter()
                .filter(|(_, [at, _])| *at as usize == row)
                .map(move |(statistic, [_, column])| (*column, statistic.as_str(), figure, place))
        })
        .collect();
    cited.retain(|(_, _, figure, _)| !figure.statistics.is_empty());
    cited.sort_by_key(|(column, _, figure, _)| {
        (DERIVED.contains(&figure.subject.as_str()), *column)
    });
    let Some((_, _, first, _)) = cited.first().copied() else {
        return String::new();
    };
    // A figure may be cited from several cells: of two systems that ours is compared with, say.
    let mut seen: Vec<(&Measurement, &str)> = Vec::new();
    let (mut alike, mut others) = (Said::default(), Said::default());
    let mut reason = None;
    for (_, statistic, figure, place) in cited {
        let Some(one) = like(figure, place, measured) else {
            continue;
        };
        let Some(text) = said(one, statistic, figure.unit) else {
            continue;
        };
        if seen
            .iter()
            .any(|(there, of)| std::ptr::eq(*there, one) && *of == statistic)
        {
            continue;
        }
        seen.push((one, statistic));
        let unlike = unlike(figure, one);
        reason = reason.or(unlike);
        let group = match unlike {
            None => &mut alike,
            Some(_) => &mut others,
        };
        group.texts.push(text);
        group.conditions.extend(unstated(one, figure));
    }
    if seen.is_empty() {
        return format!("not measured: {}", why(first, ours));
    }
    let others = reason.map(|reason| format!("not comparable: {reason}; ours: {}", others.words()));
    let alike = Some(alike.words()).filter(|words| !words.is_empty());
    let all: Vec<String> = alike.into_iter().chain(others).collect();
    all.join("; ")
}

/// Figures of ours for one cell, and what a reader must know of them.
#[derive(Default)]
struct Said {
    texts: Vec<String>,
    conditions: Vec<String>,
}

impl Said {
    fn words(mut self) -> String {
        self.conditions.sort_unstable();
        self.conditions.dedup();
        let texts = self.texts.join("; ");
        match self.conditions.is_empty() {
            true => texts,
            false => format!("{texts} ({})", self.conditions.join(", ")),
        }
    }
}

/// What ours depends on and theirs does not say, or says otherwise: a reader must know it to compare them.
fn unstated(ours: &Measurement, theirs: &Measurement) -> Vec<String> {
    let mut words = Vec::new();
    for (name, value) in &ours.parameters {
        let stated = theirs.parameters.get(name);
        if stated.is_none_or(|stated| !same(stated, value)) {
            let name = name.replace('_', " ");
            words.push(match value {
                Parameter::Number(number) => format!("{name} {}", short(*number)),
                Parameter::Text(text) => format!("{name} {text}"),
            });
        }
    }
    words
}

/// Why there is none of ours: as our own run says it, or by what the figure is.
fn why(figure: &Measurement, ours: &[Record]) -> String {
    let subject = figure.subject.as_str();
    let area = subject.split('.').next().unwrap_or_default();
    let absent = match (area, subject) {
        ("transport", _) => "transport",
        ("aggregation", _) => "aggregation.terse",
        _ => subject,
    };
    let mut said = ours.iter().flat_map(|record| &record.absent);
    if let Some(said) = said.find(|one| one.subject == absent) {
        return said.why.replace("not measured yet: ", "");
    }
    let states = |name: &str, word: &str| {
        let found = figure.parameters.get(name);
        matches!(found, Some(Parameter::Text(text)) if text.starts_with(word))
    };
    let why = match (area, subject) {
        (_, "stage.attestation") => "the security module is simulated",
        (_, "request.tcp_handshake") => "a request is sealed by itself, without a handshake",
        (_, "overhead") if states("of", "transport.per_message") => {
            "follows from a round trip over vsock, and from inference in a real enclave"
        }
        ("transport", _) if states("transport", "TLS") => {
            "this run was made without --contenders, which brings TLS 1.3"
        }
        ("transport", _) => "the benchmark `transport` is no part of this run",
        ("overhead", _) => "what it follows from is not measured",
        ("cost", _) => "this run was on a machine without a price",
        ("claim", _) => "a claim, whose figures stand in the tables below",
        ("platform", _) => "it takes hardware that is not here",
        _ => "not part of this run",
    };
    why.to_owned()
}

/// One of our statistics in the unit of theirs, where both measure the same kind of quantity.
fn said(ours: &Measurement, statistic: &str, theirs: Option<Unit>) -> Option<String> {
    let Statistics {
        value,
        mean,
        p50,
        p95,
        p99,
        min,
        max,
        stddev,
        ..
    } = ours.statistics;
    let number = match statistic {
        "mean" => mean.or(value),
        "p50" => p50,
        "p95" => p95,
        "p99" => p99,
        "min" => min,
        "max" => max,
        "stddev" => stddev,
        _ => ours.statistics.headline(),
    }?;
    // The reports' megabytes of memory and of uploads are 2²⁰ bytes.
    let theirs = match theirs {
        Some(Unit::Megabytes) if ours.subject.starts_with("memory.") => Some(Unit::Mebibytes),
        Some(Unit::MegabytesPerSecond) if ours.parameters.contains_key("direction") => {
            Some(Unit::MebibytesPerSecond)
        }
        theirs => theirs,
    };
    let (number, unit) = match (ours.unit, theirs) {
        (Some(own), Some(theirs)) if own.scale().0 == theirs.scale().0 => {
            (number * own.scale().1 / theirs.scale().1, theirs)
        }
        (Some(own), _) => (number, own),
        (None, _) => return Some(short(number)),
    };
    Some(format!("{} {}", short(number), unit_name(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;

    fn report() -> Contents {
        read(
            "report.json",
            br#"{"format":"clearseal.benchmarks/1","report":{"id":"r","title":"R"},
            "tables":[{"id":"t","heading":"H","kind":"figures","columns":["Metric","Theirs"],"keys":[0],
                       "rows":[["Mean","78.5"],["Release","76"],["Words","-"]]}],
            "records":[{"environment":"enclave","measurements":[
              {"subject":"inference.latency","parameters":{"tokens":128,"padded":"yes"},"unit":"ms","statistics":{"mean":78.5},
               "cite":{"table":"t","cells":{"mean":[0,1]}}},
              {"subject":"stage.key_release","unit":"ms","statistics":{"value":76},"cite":{"table":"t","cells":{"value":[1,1]}}}]}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn every_row_stands_with_ours_or_with_a_word() {
        let ours = read(
            "ours.json",
            br#"{"environment":"simulated","measurements":[
              {"subject":"inference.latency","parameters":{"tokens":9,"engine":"e"},"unit":"ms","statistics":{"mean":1.1}},
              {"subject":"inference.latency","parameters":{"tokens":128,"engine":"e"},"unit":"ns","statistics":{"mean":14500000}}]}"#,
        )
        .unwrap()
        .records;
        let [table] = &tables(&[report()], &ours)[..] else {
            panic!("one table")
        };
        assert_eq!(table.columns, ["Metric", "Theirs", "Ours"]);
        let last: Vec<_> = table.rows.iter().map(|row| row[2].as_str()).collect();
        let none = "not measured: not part of this run";
        assert_eq!(last, ["14.5 ms (engine e)", none, ""]);
    }
}
