//! Writes a run as a document in Markdown, LaTeX or HTML, with the interpretation guide applied.

use std::fmt::Write;

use crate::catalogue::{SUBJECTS, environment_title, find};
use crate::comparison;
use crate::document::{Document, Style};
use crate::guide::{GUIDES, Threshold};
use crate::published::figures;
use crate::reading::Contents;
use crate::record::{Environment, Measurement, Parameter, Qualifier, Record, TableKind, Unit};
use crate::schema::name_of;
use crate::statistics::short;

/// A verdict of the interpretation guide, with the figures behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Subject that was judged.
    pub title: &'static str,
    /// In the guide's unit.
    pub value: f64,
    /// That unit.
    pub unit: Unit,
    /// The guide's step.
    pub step: Threshold,
}

/// Applies the guide to `inside` compared with `outside`.
pub fn verdicts(outside: Option<&Record>, inside: &Record) -> Vec<Verdict> {
    GUIDES
        .iter()
        .filter_map(|guide| {
            // A run of both in turns states the overhead itself, more precisely than two separate runs.
            let stated = stated_overhead(inside)
                .filter(|_| inside.environment == Environment::Simulated)
                .filter(|_| guide.subject == "inference.latency");
            let value = match (stated, guide.unit) {
                (Some(percent), _) => percent,
                // The guide judges a cold start by its duration, and the other figures by their overhead.
                (None, Unit::Seconds) => figure_of(inside, guide.subject)? / 1_000.0,
                (None, _) => {
                    let within = figure_of(inside, guide.subject)?;
                    (within / figure_of(outside?, guide.subject)? - 1.0) * 100.0
                }
            };
            Some(Verdict {
                title: guide.title,
                value,
                unit: guide.unit,
                step: *guide.judge(value)?,
            })
        })
        .collect()
}

/// The overhead of the mean time of an inference, and of nothing else that has an overhead.
fn stated_overhead(record: &Record) -> Option<f64> {
    let of_inference = [("of", "inference.latency"), ("statistic", "mean")];
    figure_with(record, "overhead", |figure| {
        of_inference.iter().all(|(name, word)| {
            matches!(figure.parameters.get(*name), Some(Parameter::Text(text)) if text == word)
        })
    })
}

/// First figure of a subject in base units; the one at 128 tokens if there are several lengths.
fn figure_of(record: &Record, subject: &str) -> Option<f64> {
    figure_with(record, subject, |_| true)
}

fn figure_with(record: &Record, subject: &str, fits: impl Fn(&Measurement) -> bool) -> Option<f64> {
    let at = |figure: &Measurement| match figure.parameters.get("tokens") {
        Some(Parameter::Number(tokens)) => (*tokens - 128.0).abs() < 0.5,
        _ => true,
    };
    let mut all = figures(record).into_iter();
    let figure = all.find(|figure| figure.subject == subject && at(figure) && fits(figure))?;
    Some(figure.statistics.headline()? * figure.unit?.scale().1)
}

/// Writes `records` as a report, compared with the published ones.
pub fn write(style: Style, records: &[Record], reports: &[Contents]) -> String {
    let published: Vec<Record> = reports.iter().flat_map(|one| one.records.clone()).collect();
    let mut out = Document {
        style,
        text: String::new(),
    };
    out.begin("Benchmark report");
    for record in records {
        let title = record
            .title
            .as_deref()
            .or(record.id.as_deref())
            .unwrap_or("Run");
        out.heading(title);
        out.table(&["What", "Value"], &describe_run(record), 1);
        let outside = published.iter().find(|one| same_commit(one, record));
        let judged = verdicts(outside, record).into_iter();
        let judged: Vec<_> = judged
            .map(|verdict| {
                let value = format!("{} {}", short(verdict.value), name_of(verdict.unit));
                let step = verdict.step;
                [verdict.title, &value, step.verdict, step.why]
                    .map(str::to_owned)
                    .to_vec()
            })
            .collect();
        if !judged.is_empty() {
            out.subheading("What the interpretation guide says");
            out.table(&["What", "Value", "Verdict", "Reason"], &judged, 1);
        }
        for (area, rows) in areas(record) {
            out.subheading(&area);
            out.table(&["What", "Mean", "p50", "p95", "p99", "Unit"], &rows, 1);
        }
        if !record.absent.is_empty() {
            out.subheading("Not measured");
            let rows = record.absent.iter();
            let rows: Vec<_> = rows
                .map(|absent| vec![absent.subject.clone(), absent.why.clone()])
                .collect();
            out.table(&["What", "Why"], &rows, 2);
        }
    }
    let mut compared = comparison::tables(reports, records).into_iter();
    for contents in reports {
        let Some(file) = &contents.file else { continue };
        let Some(report) = &file.report else { continue };
        let date = report
            .date
            .as_deref()
            .map_or_else(String::new, |date| format!(", {date}"));
        out.heading(&format!(
            "Published: {}{date} ({})",
            report.title, report.id
        ));
        for table in &file.tables {
            out.subheading(&table.heading);
            // Only tables of figures are compared; descriptions and guides are not.
            let ours = (table.kind == TableKind::Figures)
                .then(|| compared.next())
                .flatten();
            let (columns, rows) = ours.map_or_else(
                || (table.columns.clone(), table.rows.clone()),
                |ours| (ours.columns, ours.rows),
            );
            let head: Vec<&str> = columns.iter().map(String::as_str).collect();
            out.table(&head, &rows, 1);
        }
        let sentences = report.statements.iter();
        let sentences: Vec<_> = sentences
            .map(|one| vec![one.heading.clone(), one.quote.clone()])
            .collect();
        if !sentences.is_empty() {
            out.subheading("In sentences");
            out.table(&["Under", "It says"], &sentences, 2);
        }
        let example: Vec<_> = contents.records.iter().flat_map(example).collect();
        if !example.is_empty() {
            out.subheading("In an example");
            out.table(&["What", "Published", "Unit"], &example, 1);
        }
    }
    let missing = unmeasured(records, &published);
    if !missing.is_empty() {
        out.heading("Published in sentences, and not measured here");
        out.table(&["What", "Published", "Unit", "By"], &missing, 1);
    }
    out.end();
    out.text
}

fn same_commit(one: &Record, other: &Record) -> bool {
    one.commit.is_some() && one.commit == other.commit && one.environment != other.environment
}

fn describe_run(record: &Record) -> Vec<Vec<String>> {
    let machine = record.machine.clone().unwrap_or_default();
    let setup = record.setup.clone().unwrap_or_default();
    let place = environment_title(record.environment).to_owned();
    let features = Some(machine.cpu_features.join(" ")).filter(|all| !all.is_empty());
    let busy = machine.busy_processors.map(|busy| busy.to_string());
    let load = machine.load_average.map(|load| load.to_string());
    let rows = [
        ("Environment", Some(place)),
        ("Machine", record.hardware.clone()),
        ("Processor", machine.cpu),
        ("Features", features),
        ("Threads", setup.threads.map(|threads| threads.to_string())),
        ("Allocator", setup.allocator),
        ("Build", setup.build),
        ("Processors busy before the run", busy),
        ("Load before the run", load),
        ("When", record.timestamp.clone()),
        ("Commit", record.commit.clone()),
    ];
    let notes = record.notes.iter().map(|note| ("Note", Some(note.clone())));
    rows.into_iter()
        .chain(notes)
        .filter_map(|(name, value)| Some(vec![name.to_owned(), value?]))
        .collect()
}

/// Lists figures that are neither in a table nor in a sentence, with all digits: `mean 93.08, p50 92.85`.
fn example(record: &Record) -> Vec<Vec<String>> {
    let uncited = figures(record).into_iter();
    uncited
        .filter(|figure| figure.cite.is_none())
        .map(|figure| {
            let numbers = serde_json::to_string(&figure.statistics).unwrap_or_default();
            let numbers = numbers.replace(['{', '}', '"'], "");
            let numbers = numbers.replace(':', " ").replace(',', ", ");
            let unit = figure.unit.map(name_of).unwrap_or_default();
            vec![label(&figure), numbers, unit]
        })
        .collect()
}

/// Groups rows by the first word of their subject, in the catalogue's order.
fn areas(record: &Record) -> Vec<(String, Vec<Vec<String>>)> {
    let all = figures(record);
    let mut areas: Vec<(String, Vec<Vec<String>>)> = Vec::new();
    for subject in SUBJECTS {
        for figure in all.iter().filter(|figure| figure.subject == subject.name) {
            let (area, _) = subject.name.split_once('.').unwrap_or((subject.name, ""));
            match areas.last_mut() {
                Some((name, rows)) if *name == area => rows.push(row(figure)),
                _ => areas.push((area.to_owned(), vec![row(figure)])),
            }
        }
    }
    areas
}

fn row(figure: &Measurement) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, short);
    let statistics = &figure.statistics;
    vec![
        label(figure),
        statistics
            .value
            .or(statistics.mean)
            .map_or_else(|| figure.said.clone().unwrap_or_default(), short),
        number(statistics.p50),
        number(statistics.p95),
        number(statistics.p99),
        figure.unit.map(name_of).unwrap_or_default(),
    ]
}

/// `Inference, tokens 128, engine candle-f32`.
pub fn label(figure: &Measurement) -> String {
    let mut label = find(&figure.subject)
        .map_or(figure.subject.as_str(), |subject| subject.title)
        .to_owned();
    for (name, value) in &figure.parameters {
        let _ = write!(label, ", {} {}", name.replace('_', " "), value.short());
    }
    label
}

/// Lists published figures that are in no table and whose subjects no record here has.
fn unmeasured(records: &[Record], published: &[Record]) -> Vec<Vec<String>> {
    let ours: Vec<String> = records
        .iter()
        .flat_map(figures)
        .map(|figure| figure.subject)
        .collect();
    let skipped = ["overhead", "share", "difference", "claim", "slo.target"];
    published
        .iter()
        .flat_map(|record| record.measurements.iter().map(move |one| (record, one)))
        .filter(|(_, figure)| {
            figure.cite.as_ref().is_none_or(|cite| cite.table.is_none())
                && !ours.contains(&figure.subject)
                && !skipped.contains(&figure.subject.as_str())
        })
        .filter_map(|(record, figure)| {
            Some(vec![
                label(figure),
                as_published(figure)?,
                figure.unit.map(name_of).unwrap_or_default(),
                record.title.clone().unwrap_or_default(),
            ])
        })
        .collect()
}

/// Formats a figure as its source states it: `about 1 to 5`, `less than 0.001`.
fn as_published(figure: &Measurement) -> Option<String> {
    let one = &figure.statistics;
    let number = match (one.value.or(one.mean), one.min, one.max) {
        (Some(value), ..) => short(value),
        (None, Some(min), Some(max)) => format!("{} to {}", short(min), short(max)),
        (None, ..) => ["p50", "p95", "p99", "min", "max"]
            .into_iter()
            .filter_map(|name| Some(format!("{name} {}", short(one.get(name)?))))
            .collect::<Vec<_>>()
            .join(", "),
    };
    if number.is_empty() {
        return figure.said.clone();
    }
    Some(match figure.qualifier {
        Some(Qualifier::About) => format!("about {number}"),
        Some(Qualifier::UpTo) => format!("up to {number}"),
        Some(Qualifier::MoreThan) => format!("more than {number}"),
        Some(Qualifier::LessThan) => format!("less than {number}"),
        Some(Qualifier::Estimated) => format!("{number} (estimated)"),
        Some(Qualifier::Derived) | None => number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;

    fn records(text: &str) -> Vec<Record> {
        read("test.json", text.as_bytes()).unwrap().records
    }

    fn report(records: &[Record]) -> [Contents; 1] {
        [Contents {
            file: None,
            records: records.to_vec(),
            notices: Vec::new(),
        }]
    }

    #[test]
    fn the_guide_is_applied_with_its_reason() {
        let records = records(
            r#"[{"environment":"bare_metal","commit":"abc","inference":{"latency_ms":{"mean":78.55}},"memory":{"peak_rss_mb":266.1}},
                {"environment":"enclave","commit":"abc","inference":{"latency_ms":{"mean":88.45}},"memory":{"peak_rss_mb":1018.3},
                 "stages":{"cold_start_total_ms":7051.8}}]"#,
        );
        let found: Vec<_> = verdicts(Some(&records[0]), &records[1])
            .into_iter()
            .map(|verdict| verdict.step.verdict)
            .collect();
        assert_eq!(found, ["Acceptable", "Acceptable", "Investigate"]);
        let text = write(Style::Md, &records[1..], &report(&records[..1]));
        assert!(
            text.contains("| Inference overhead | 12.6 percent | Acceptable |"),
            "{text}"
        );
        assert!(text.contains("10 to 15 %"), "{text}");
    }

    #[test]
    fn only_the_overhead_of_a_mean_inference_is_an_inference_overhead() {
        let judged = |overheads: &str| {
            let text = format!(r#"[{{"environment":"simulated","measurements":[{overheads}]}}]"#);
            let found = verdicts(None, &records(&text)[0]);
            found.iter().map(|one| one.value).collect::<Vec<_>>()
        };
        let overhead = |of: &str, statistic: &str, tokens: u32, value: u32| {
            format!(
                r#"{{"subject":"overhead","unit":"percent","parameters":{{"of":"{of}","statistic":"{statistic}","tokens":{tokens}}},"statistics":{{"value":{value}}}}}"#
            )
        };
        let others = [
            overhead("sealed request over bare engine", "mean", 128, 90),
            overhead("memory.peak_rss", "value", 128, 80),
            overhead("inference.latency", "p99", 128, 70),
            overhead("inference.latency", "mean", 9, 60),
        ]
        .join(",");
        assert!(judged(&others).is_empty());
        let own = overhead("inference.latency", "mean", 128, 3);
        assert_eq!(judged(&format!("{others},{own}")), [3.0]);
    }

    #[test]
    fn records_without_a_commit_are_not_of_one_commit() {
        let of = |commit: Option<&str>, environment| Record {
            commit: commit.map(str::to_owned),
            environment,
            ..Record::default()
        };
        let (bare, inside) = (Environment::BareMetal, Environment::Enclave);
        assert!(same_commit(&of(Some("a"), bare), &of(Some("a"), inside)));
        assert!(!same_commit(&of(None, bare), &of(None, inside)));
    }

    #[test]
    fn nothing_in_a_record_is_markup() {
        let records = records(
            r#"[{"environment":"enclave","title":"<script>|_\\input{x}","absent":[{"subject":"a","why":"<b>|&"}]}]"#,
        );
        let html = write(Style::Html, &records, &[]);
        assert!(
            !html.contains("<script>") && !html.contains("<b>"),
            "{html}"
        );
        let latex = write(Style::Latex, &records, &[]);
        assert!(
            !latex.contains("\\input") && latex.contains("\\&"),
            "{latex}"
        );
        let markdown = write(Style::Md, &records, &[]);
        assert!(markdown.contains("\\<script\\>\\|"), "{markdown}");
    }

    #[test]
    fn an_unmeasured_subject_shows_the_published_figures() {
        let ours = records(
            r#"[{"environment":"simulated","absent":[{"subject":"key-release","why":"not measured yet"}]}]"#,
        );
        let published = records(
            r#"[{"environment":"enclave","title":"theirs","measurements":[{"subject":"stage.key_release","unit":"ms","statistics":{"value":75.95}}]}]"#,
        );
        let text = write(Style::Md, &ours, &report(&published));
        assert!(
            text.contains("not measured yet")
                && text.contains("| Key release | 75.95 | ms | theirs |"),
            "{text}"
        );
    }

    #[test]
    fn a_figure_is_quoted_as_its_source_states_it() {
        let published = records(
            r#"[{"environment":"enclave","title":"theirs","measurements":[
              {"subject":"stage.attestation","unit":"ms","qualifier":"about","statistics":{"min":1,"max":5},"cite":{"statement":0}},
              {"subject":"stage.key_release","unit":"ms","statistics":{"p95":0.28},"cite":{"statement":1}},
              {"subject":"stage.model_fetch","unit":"ms","statistics":{"value":7},"cite":{"table":"t","cells":{"value":[0,1]}}}]}]"#,
        );
        let text = write(Style::Md, &[], &report(&published));
        assert!(
            text.contains("| Attestation | about 1 to 5 | ms |"),
            "{text}"
        );
        assert!(text.contains("| Key release | p95 0.28 | ms |"), "{text}");
        assert!(!text.contains("Model fetch"), "a table has it: {text}");
    }

    #[test]
    fn every_published_table_is_in_every_style() {
        let published = read(
            "report.json",
            r#"{"format":"clearseal.benchmarks/1","report":{"id":"r-1","title":"R","date":"2026-02"},
                "tables":[{"id":"a","heading":"Guide","kind":"guide","columns":["> 15%","Verdict"],
                           "rows":[["[* 64 µs","S3→VSock"]]}],"records":[]}"#
                .as_bytes(),
        )
        .unwrap();
        let text = |style| write(style, &[], std::slice::from_ref(&published));
        assert!(text(Style::Md).contains("## Published: R, 2026-02 (r-1)\n\n\n### Guide"));
        assert!(text(Style::Html).contains("<th>&gt; 15%</th>"));
        let latex = text(Style::Latex);
        for part in [
            "$>$ 15\\% & Verdict \\\\",
            "{[}{*} 64 $\\mu$s & S3$\\to$VSock \\\\",
        ] {
            assert!(latex.contains(part), "{latex}");
        }
        assert_eq!(
            latex.matches("\\begin{").count(),
            latex.matches("\\end{").count()
        );
    }
}
