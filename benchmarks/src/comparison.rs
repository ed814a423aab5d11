//! The published tables, each row compared with our figures.

mod likeness;
mod rules;

use likeness::{Figure, difference, nearest, same};
pub use rules::{Condition, RULES, Rule, Rules, Test};

use crate::published::figures;
use crate::reading::Contents;
use crate::record::{Absent, Measurement, Record, Table, TableKind, Unit};
use crate::schema::name_of;
use crate::statistics::short;

/// Subjects that are derived from the other figures of their row.
const DERIVED: [&str; 4] = ["overhead", "share", "difference", "slo.target"];

/// A published table with one more column.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedTable {
    /// Report and heading.
    pub title: String,
    /// The published columns, and ours.
    pub columns: Vec<String>,
    /// The published rows, each with our figures or with the reason why there is none. A row without figures gets an empty cell.
    pub rows: Vec<Vec<String>>,
}

/// Compares every table of figures in `reports`, in order and with every row.
pub fn tables(reports: &[Contents], ours: &[Record]) -> Vec<ComparedTable> {
    let measured = ours.iter().flat_map(|record| {
        let all = figures(record).into_iter();
        all.map(|measurement| (record.environment, measurement))
    });
    let measured: Vec<_> = measured.collect();
    let measured: Vec<_> = measured
        .iter()
        .map(|(environment, measurement)| Figure {
            environment: *environment,
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
                let cell = answer_row(&report.records, table, at, &measured, ours);
                row.iter().cloned().chain([cell]).collect()
            });
            all.push(ComparedTable {
                title: format!("{title}: {}", table.heading),
                columns: columns.chain(["Ours".to_owned()]).collect(),
                rows: rows.collect(),
            });
        }
    }
    all
}

/// Describes our figures for the published ones that cite row `row`, in the order of its cells.
fn answer_row(
    records: &[Record],
    table: &Table,
    row: usize,
    measured: &[Figure<'_>],
    ours: &[Record],
) -> String {
    let mut cited: Vec<(u32, &str, Figure<'_>)> = records
        .iter()
        .flat_map(|record| {
            let environment = record.environment;
            let all = record.measurements.iter();
            all.map(move |measurement| Figure {
                environment,
                measurement,
            })
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
    // Several cells may cite one figure, for example those of two systems that ours is compared with.
    let mut seen: Vec<(&Measurement, &str)> = Vec::new();
    let (mut alike, mut others) = (Answers::default(), Answers::default());
    let mut reason = None;
    for (_, statistic, theirs) in cited {
        let Some(answer) = nearest(theirs, measured) else {
            continue;
        };
        let (one, figure) = (answer.measurement, theirs.measurement);
        let Some(text) = format_statistic(one, statistic, figure.unit) else {
            continue;
        };
        if seen
            .iter()
            .any(|(there, of)| std::ptr::eq(*there, one) && *of == statistic)
        {
            continue;
        }
        seen.push((one, statistic));
        let difference = difference(theirs, answer);
        reason = reason.or(difference);
        let group = match difference {
            None => &mut alike,
            Some(_) => &mut others,
        };
        group.texts.push(text);
        group.conditions.extend(unstated(one, figure));
    }
    if seen.is_empty() {
        return format!("not measured: {}", explain_absence(first, ours));
    }
    let others = reason.map(|reason| format!("not comparable: {reason}; ours: {}", others.join()));
    let alike = Some(alike.join()).filter(|text| !text.is_empty());
    let all: Vec<String> = alike.into_iter().chain(others).collect();
    all.join("; ")
}

/// Our figures for one cell, and the conditions under which they hold.
#[derive(Default)]
struct Answers {
    texts: Vec<String>,
    conditions: Vec<String>,
}

impl Answers {
    fn join(mut self) -> String {
        self.conditions.sort_unstable();
        self.conditions.dedup();
        let texts = self.texts.join("; ");
        match self.conditions.is_empty() {
            true => texts,
            false => format!("{texts} ({})", self.conditions.join(", ")),
        }
    }
}

/// Lists the parameters of ours that theirs does not state or states differently. A reader needs them to compare both.
fn unstated(ours: &Measurement, theirs: &Measurement) -> Vec<String> {
    let unstated = ours.parameters.iter().filter(|(name, value)| {
        let stated = theirs.parameters.get(*name);
        stated.is_none_or(|stated| !same(stated, value))
    });
    unstated
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), value.short()))
        .collect()
}

/// Explains why there is no figure of ours: as our own run states it, or else by the rules.
fn explain_absence(theirs: Figure<'_>, ours: &[Record]) -> String {
    let absent: Vec<&Absent> = ours.iter().flat_map(|record| &record.absent).collect();
    match likeness::stated_absence(theirs, &absent) {
        Some(why) => why.replace("not measured yet: ", ""),
        None => likeness::absence_reason(theirs).to_owned(),
    }
}

/// Formats one of our statistics in the unit of theirs, where both measure the same kind of quantity.
fn format_statistic(ours: &Measurement, statistic: &str, theirs: Option<Unit>) -> Option<String> {
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
    fn every_row_has_our_figure_or_a_reason() {
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
    fn figures_are_chosen_and_compared_as_on_the_page() {
        #[derive(serde::Deserialize)]
        struct Theirs {
            environment: Environment,
            subject: String,
            parameters: std::collections::BTreeMap<String, Parameter>,
            answer: Option<usize>,
            reason: Option<String>,
        }
        #[derive(serde::Deserialize)]
        struct Missing {
            environment: Environment,
            subject: String,
            parameters: std::collections::BTreeMap<String, Parameter>,
            stated: Vec<Absent>,
            why: String,
        }
        #[derive(serde::Deserialize)]
        struct Cases {
            ours: Vec<Measurement>,
            theirs: Vec<Theirs>,
            absences: Vec<Missing>,
        }
        let cases: Cases = serde_json::from_str(include_str!("../tests/comparison.json")).unwrap();
        let environment = Environment::Simulated;
        let ours = cases.ours.iter();
        let ours: Vec<_> = ours
            .map(|measurement| Figure {
                environment,
                measurement,
            })
            .collect();
        for case in cases.theirs {
            let theirs = Measurement {
                subject: case.subject,
                parameters: case.parameters,
                ..Measurement::default()
            };
            let figure = Figure {
                environment: case.environment,
                measurement: &theirs,
            };
            let answer = nearest(figure, &ours);
            let at = answer.and_then(|answer| {
                ours.iter()
                    .position(|one| std::ptr::eq(one.measurement, answer.measurement))
            });
            assert_eq!(at, case.answer, "{theirs:?}");
            let reason = match answer {
                Some(answer) => difference(figure, answer),
                None => Some(likeness::absence_reason(figure)),
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
        for case in cases.absences {
            let theirs = Measurement {
                subject: case.subject,
                parameters: case.parameters,
                ..Measurement::default()
            };
            let figure = Figure {
                environment: case.environment,
                measurement: &theirs,
            };
            let mut ours = read("ours.json", br#"{"environment":"simulated"}"#).unwrap();
            ours.records[0].absent = case.stated;
            let why = explain_absence(figure, &ours.records);
            assert!(why.starts_with(&case.why), "{theirs:?}: {why}");
        }
    }
}
