//! The published tables as they stand, with what we measured beside each row.

use crate::catalogue::figures;
use crate::reading::Contents;
use crate::record::{
    Environment, Measurement, Parameter, Record, Statistics, Table, TableKind, Unit,
};
use crate::report::short;
use crate::schema::unit_name;

/// Parameters that tell published runs apart and that ours do not have.
const THEIRS: [&str; 4] = ["padded", "attestation", "study", "platform"];

/// A published table with one column more.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Report and heading.
    pub title: String,
    /// The published columns, and ours.
    pub columns: Vec<String>,
    /// The published rows, each with ours, or with a word for why there is none.
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
                            let cell = ours_of(&report.records, table, row, measured);
                            table.rows[row].iter().cloned().chain([cell]).collect()
                        })
                        .collect(),
                })
        })
        .collect()
}

/// What we have for the figures that row `row` is cited by, in the order of its cells.
fn ours_of(records: &[Record], table: &Table, row: usize, measured: &[Measurement]) -> String {
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
    cited.sort_by_key(|(column, ..)| *column);
    if cited.is_empty() {
        return String::new();
    }
    // A figure may be cited from several cells: of two systems that ours is compared with, say.
    let mut found: Vec<(&Measurement, &str, String)> = Vec::new();
    for (_, statistic, figure, place) in cited {
        let Some(one) = like(figure, place, measured) else {
            continue;
        };
        let known = |(there, of, _): &(&Measurement, &str, String)| {
            std::ptr::eq(*there, one) && *of == statistic
        };
        if let Some(text) = said(one, statistic, figure.unit)
            && !found.iter().any(known)
        {
            found.push((one, statistic, text));
        }
    }
    let texts: Vec<String> = found.into_iter().map(|(.., text)| text).collect();
    match texts.is_empty() {
        true => "not measured".to_owned(),
        false => texts.join("; "),
    }
}

/// Our figure that is measured most like `theirs`: nothing that both state differs.
fn like<'a>(
    theirs: &Measurement,
    place: Environment,
    measured: &'a [Measurement],
) -> Option<&'a Measurement> {
    // One run of ours has the platforms that the aggregation report has runs for.
    let platform = match place {
        Environment::BareMetal => "native",
        Environment::Hybrid => "hybrid",
        _ => "enclave",
    };
    let score = |ours: &Measurement| -> Option<i32> {
        let mut score = 0;
        if let Some(Parameter::Text(own)) = ours.parameters.get("platform")
            && !own.starts_with(platform)
        {
            return None;
        }
        for (name, value) in &theirs.parameters {
            match ours.parameters.get(name) {
                Some(own) if same(own, value) => score += 2,
                // What stands in for vsock where there is none; the table says so.
                Some(own) if name == "transport" && is(own, "unix") && is(value, "vsock") => {}
                Some(_) => return None,
                None if THEIRS.contains(&name.as_str()) => {}
                None => score -= 1,
            }
        }
        // The reports' padded length, where theirs does not say.
        let padded = ours.parameters.get("tokens") == Some(&Parameter::Number(128.0));
        Some(score * 2 + i32::from(padded))
    };
    let mut best: Option<(i32, &Measurement)> = None;
    for one in measured.iter().filter(|one| one.subject == theirs.subject) {
        let Some(score) = score(one) else { continue };
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, one));
        }
    }
    best.map(|(_, one)| one)
}

fn same(a: &Parameter, b: &Parameter) -> bool {
    match (a, b) {
        (Parameter::Number(a), Parameter::Number(b)) => (a - b).abs() < 0.5,
        (Parameter::Text(a), Parameter::Text(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

fn is(parameter: &Parameter, word: &str) -> bool {
    matches!(parameter, Parameter::Text(text) if text == word)
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
        _ => None,
    }
    .or_else(|| ours.statistics.headline())?;
    let (number, unit) = match (ours.unit, theirs) {
        (Some(own), Some(theirs)) if own.scale().0 == theirs.scale().0 => {
            (number * own.scale().1 / theirs.scale().1, theirs)
        }
        (Some(own), _) => (number, own),
        (None, _) => return Some(short(number)),
    };
    let unit = unit_name(unit);
    let socket = match ours.parameters.get("transport") {
        Some(Parameter::Text(transport)) => format!(" ({transport})"),
        _ => String::new(),
    };
    Some(format!("{} {unit}{socket}", short(number)))
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
        assert_eq!(last, ["14.5 ms", "not measured", ""]);
    }
}
