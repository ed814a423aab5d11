//! The published tables as they stand, with what we measured beside each row.

mod alike;
mod rules;

use alike::{Figure, nearest, same, unlike};
pub use rules::{Condition, RULES, Rule, Rules, Test};

use crate::published::figures;
use crate::reading::Contents;
use crate::record::{Measurement, Record, Table, TableKind, Unit};
use crate::schema::name_of;
use crate::statistics::short;

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
    let measured = ours.iter().flat_map(|record| {
        let all = figures(record).into_iter();
        all.map(|measurement| (record.environment, measurement))
    });
    let measured: Vec<_> = measured.collect();
    let measured: Vec<_> = measured
        .iter()
        .map(|(place, measurement)| Figure {
            place: *place,
            measurement,
        })
        .collect();
    let mut all = Vec::new();
    for report in reports {
        let Some(file) = &report.file else { continue };
        let title = file
            .report
            .as_ref()
            .map_or("", |report| report.title.as_str());
        let measures = |table: &&Table| table.kind == TableKind::Figures;
        for table in file.tables.iter().filter(measures) {
            let columns = table.columns.iter().cloned();
            let rows = table.rows.iter().enumerate().map(|(at, row)| {
                let cell = ours_of(&report.records, table, at, &measured, ours);
                row.iter().cloned().chain([cell]).collect()
            });
            all.push(Beside {
                title: format!("{title}: {}", table.heading),
                columns: columns.chain(["Ours".to_owned()]).collect(),
                rows: rows.collect(),
            });
        }
    }
    all
}

/// What we have for the figures that row `row` is cited by, in the order of its cells.
fn ours_of(
    records: &[Record],
    table: &Table,
    row: usize,
    measured: &[Figure<'_>],
    ours: &[Record],
) -> String {
    let mut cited: Vec<(u32, &str, Figure<'_>)> = records
        .iter()
        .flat_map(|record| {
            let place = record.environment;
            let all = record.measurements.iter();
            all.map(move |measurement| Figure { place, measurement })
        })
        .filter_map(|theirs| Some((theirs, theirs.measurement.cite.as_ref()?)))
        .filter(|(_, cite)| cite.table.as_deref() == Some(&table.id))
        .flat_map(|(theirs, cite)| {
            cite.cells
                .iter()
                .filter(|(_, [at, _])| *at as usize == row)
                .map(move |(statistic, [_, column])| (*column, statistic.as_str(), theirs))
        })
        .collect();
    cited.retain(|(.., theirs)| !theirs.measurement.statistics.is_empty());
    cited.sort_by_key(|(column, _, theirs)| {
        let subject = theirs.measurement.subject.as_str();
        (DERIVED.contains(&subject), *column)
    });
    let Some((.., first)) = cited.first().copied() else {
        return String::new();
    };
    // A figure may be cited from several cells: of two systems that ours is compared with, say.
    let mut seen: Vec<(&Measurement, &str)> = Vec::new();
    let (mut alike, mut others) = (Said::default(), Said::default());
    let mut reason = None;
    for (_, statistic, theirs) in cited {
        let Some(answer) = nearest(theirs, measured) else {
            continue;
        };
        let (one, figure) = (answer.measurement, theirs.measurement);
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
        let unlike = unlike(theirs, answer);
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
    let unstated = ours.parameters.iter().filter(|(name, value)| {
        let stated = theirs.parameters.get(*name);
        stated.is_none_or(|stated| !same(stated, value))
    });
    unstated
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), value.short()))
        .collect()
}

/// Why there is none of ours: as our own run says it, or by what the figure is.
fn why(theirs: Figure<'_>, ours: &[Record]) -> String {
    let subject = theirs.measurement.subject.as_str();
    let absent = match subject.split('.').next() {
        Some("transport") => "transport",
        Some("aggregation") => "aggregation.terse",
        _ => subject,
    };
    let mut said = ours.iter().flat_map(|record| &record.absent);
    match said.find(|one| one.subject == absent) {
        Some(said) => said.why.replace("not measured yet: ", ""),
        None => alike::absent(theirs).to_owned(),
    }
}

/// One of our statistics in the unit of theirs, where both measure the same kind of quantity.
fn said(ours: &Measurement, statistic: &str, theirs: Option<Unit>) -> Option<String> {
    let statistics = &ours.statistics;
    let number = match statistic {
        "mean" => statistics.mean.or(statistics.value),
        "p50" | "p95" | "p99" | "min" | "max" | "stddev" => statistics.get(statistic),
        _ => statistics.headline(),
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
    Some(format!("{} {}", short(number), name_of(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;
    use crate::record::{Environment, Parameter};

    fn report() -> Contents {
        read(
            "report.json",
            br#"{"format":"clearseal.benchmarks/1","report":{"id":"r","title":"R"},
            "tables":[{"id":"t","heading":"H","kind":"figures","columns":["Metric","Theirs"],"keys":[0],
                       "rows":[["Mean","78.5"],["Release","76"],["Words","-"]]}],
            "records":[{"environment":"bare_metal","measurements":[
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
        let none =
            "not measured: AWS's key service is simulated, and its time says nothing of a network";
        assert_eq!(last, ["14.5 ms (engine e)", none, ""]);
    }

    #[test]
    fn figures_are_chosen_and_judged_as_the_page_does() {
        #[derive(serde::Deserialize)]
        struct Theirs {
            environment: Environment,
            subject: String,
            parameters: std::collections::BTreeMap<String, Parameter>,
            answer: Option<usize>,
            reason: Option<String>,
        }
        #[derive(serde::Deserialize)]
        struct Cases {
            ours: Vec<Measurement>,
            theirs: Vec<Theirs>,
        }
        let cases: Cases = serde_json::from_str(include_str!("../tests/beside.json")).unwrap();
        let place = Environment::Simulated;
        let ours = cases.ours.iter();
        let ours: Vec<_> = ours
            .map(|measurement| Figure { place, measurement })
            .collect();
        for case in cases.theirs {
            let theirs = Measurement {
                subject: case.subject,
                parameters: case.parameters,
                ..Measurement::default()
            };
            let figure = Figure {
                place: case.environment,
                measurement: &theirs,
            };
            let answer = nearest(figure, &ours);
            let at = answer.and_then(|answer| {
                ours.iter()
                    .position(|one| std::ptr::eq(one.measurement, answer.measurement))
            });
            assert_eq!(at, case.answer, "{theirs:?}");
            let reason = match answer {
                Some(answer) => unlike(figure, answer),
                None => Some(alike::absent(figure)),
            };
            let wanted = case.reason.as_deref();
            let begins = reason
                .zip(wanted)
                .is_some_and(|(reason, wanted)| reason.starts_with(wanted));
            assert!(
                begins || reason.is_none() && wanted.is_none(),
                "{theirs:?}: {reason:?}"
            );
        }
    }
}
