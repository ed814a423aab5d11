//! The published figures: every table is present, and every figure agrees with its cell.
#![allow(
    clippy::unwrap_used,
    reason = "helper functions open only the project's own files"
)]

use std::collections::BTreeSet;
use std::path::Path;

use benchmarks::reading::{Contents, read_file};
use benchmarks::record::{Table, TableKind};

/// Report, heading, rows: the contents of the five reports, in order.
const TABLES: &[(&str, &[(&str, usize)])] = &[
    (
        "ephemeralml-3e7b676",
        &[
            ("Six Must-Have Metrics", 6),
            ("The \"Hardware Native\" Advantage", 7),
            ("1. Communication Latency (VSock)", 5),
            ("2. Inference Latency (MiniLM-L6-v2, N=100)", 7),
            ("3. Stage Timing (Cold Start Breakdown)", 7),
            ("4. Memory Usage", 2),
            ("5. Output Quality Verification", 7),
            ("6. Security Primitives (Tier 4)", 9),
            ("6b. COSE Attestation Verification (Client-Side, Tier 4)", 4),
            ("7. E2E Encrypted Request Overhead", 3),
            ("7b. True End-to-End Latency (Crypto + Inference)", 4),
            ("8. Concurrency Scaling", 4),
            ("8b. Enclave Concurrency (E2E Crypto + Inference)", 3),
            ("9. Input Size Scaling", 4),
            ("10. Cost Analysis", 5),
            ("AWS Nitro Enclaves: What Exists", 6),
            ("Cross-Platform TEE Inference Overhead", 15),
            ("Interpretation Guide", 4),
            ("Interpretation Guide", 3),
            ("Interpretation Guide", 2),
        ],
    ),
    (
        "ephemeralml-b00bab1",
        &[
            ("Six Must-Have Metrics", 6),
            ("The \"Hardware Native\" Advantage", 7),
            ("1. Communication Latency (VSock)", 5),
            ("2. Inference Latency (MiniLM-L6-v2, N=100)", 3),
            ("2. Inference Latency (MiniLM-L6-v2, N=100)", 3),
            ("3. Stage Timing (Cold Start Breakdown)", 7),
            ("4. Memory Usage", 2),
            ("5. Output Quality Verification", 7),
            ("6. Security Primitives (Tier 4)", 9),
            ("6b. COSE Attestation Verification (Client-Side, Tier 4)", 4),
            ("7. E2E Encrypted Request Overhead", 3),
            ("7b. True End-to-End Latency (Crypto + Inference)", 4),
            ("8. Concurrency Scaling", 4),
            ("8b. Enclave Concurrency (E2E Crypto + Inference)", 3),
            ("9. Input Size Scaling", 4),
            ("10. Cost Analysis", 5),
            ("AWS Nitro Enclaves: What Exists", 6),
            ("Cross-Platform TEE Inference Overhead", 15),
            ("Interpretation Guide", 4),
            ("Interpretation Guide", 3),
            ("Interpretation Guide", 2),
        ],
    ),
    (
        "aggregation",
        &[("AES Benchmark", 10), ("Terse Benchmark", 18)],
    ),
    (
        "nitro-transport",
        &[
            ("Instance", 5),
            ("Phase 1: Connect + Handshake (n=50)", 6),
            ("Phase 2: Transport RTT (n=200)", 6),
            ("Phase 3: Inference RTT (n=50)", 6),
            ("Derived Metrics", 4),
            ("Comparison: Local tcp-mock vs Real Nitro", 3),
        ],
    ),
    (
        "transport-brief",
        &[
            ("Environments Tested", 3),
            ("Handshake (fresh session, 3-message, mock attestation)", 3),
            ("Reconnect KPIs (local dev)", 3),
            (
                "Steady-State AEAD Latency (send/recv round-trip, established session)",
                3,
            ),
            ("Sustained Throughput (unidirectional, burst send)", 4),
            ("Frame Codec (pure encode/decode, no I/O, no crypto)", 4),
            ("Crypto Primitives", 1),
            ("Real-World Impact", 3),
            ("Raw Data", 7),
            ("Session Establishment", 3),
            (
                "Round-Trip Latency (established session, framed echo server)",
                3,
            ),
            ("Round-Trip Throughput", 3),
            ("SLO Targets", 4),
        ],
    ),
];

fn report(id: &str) -> Contents {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("reference/{id}.json"));
    read_file(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn tables(contents: &Contents) -> &[Table] {
    &contents.file.as_ref().unwrap().tables
}

#[test]
fn every_table_of_every_report_is_present() {
    for (id, expected) in TABLES {
        let contents = report(id);
        assert!(contents.notices.is_empty(), "{:?}", contents.notices);
        let found: Vec<_> = tables(&contents)
            .iter()
            .map(|table| (table.heading.as_str(), table.rows.len()))
            .collect();
        assert_eq!(found, *expected, "{id}");
        for table in tables(&contents) {
            for row in &table.rows {
                assert_eq!(
                    row.len(),
                    table.columns.len(),
                    "{id}: {}: {row:?}",
                    table.id
                );
            }
        }
    }
}

#[test]
fn every_cell_with_a_figure_is_cited_and_says_the_same() {
    for (id, _) in TABLES {
        let contents = report(id);
        let mut cited = BTreeSet::new();
        for record in &contents.records {
            for measurement in &record.measurements {
                let Some(cite) = &measurement.cite else {
                    panic!("{id}: a figure without a place")
                };
                let Some(table) = &cite.table else {
                    assert!(
                        cite.statement.is_some(),
                        "{id}: {}: neither table nor sentence",
                        measurement.subject
                    );
                    continue;
                };
                let table = tables(&contents)
                    .iter()
                    .find(|one| one.id == *table)
                    .expect("the cited table");
                for (statistic, [row, column]) in &cite.cells {
                    let cell = &table.rows[*row as usize][*column as usize];
                    cited.insert((table.id.clone(), *row, *column));
                    if statistic == "said" {
                        assert_eq!(Some(cell), measurement.said.as_ref(), "{id}: {}", table.id);
                        continue;
                    }
                    let statistics = serde_json::to_value(&measurement.statistics).unwrap();
                    let value = statistics[statistic].as_f64().expect("the cited statistic");
                    assert!(
                        numbers(cell).contains(&value),
                        "{id}: {}: {cell} does not say {value}",
                        table.id
                    );
                }
            }
        }
        for table in tables(&contents)
            .iter()
            .filter(|table| table.kind == TableKind::Figures)
        {
            for (row, cells) in (0u32..).zip(&table.rows) {
                for (column, cell) in (0u32..).zip(cells) {
                    let figure = !table.keys.contains(&column) && cell != "—" && !cell.is_empty();
                    let known = cited.contains(&(table.id.clone(), row, column));
                    assert!(
                        !figure || known,
                        "{id}: {}: no figure cites {cell}",
                        table.id
                    );
                }
            }
        }
    }
}

#[test]
fn sentences_with_figures_are_cited_from_records() {
    for (id, _) in TABLES {
        let contents = report(id);
        let statements = contents
            .file
            .as_ref()
            .unwrap()
            .report
            .as_ref()
            .unwrap()
            .statements
            .len();
        for record in &contents.records {
            for measurement in &record.measurements {
                let statement = measurement.cite.as_ref().and_then(|cite| cite.statement);
                assert!(
                    statement.is_none_or(|index| (index as usize) < statements),
                    "{id}"
                );
            }
        }
    }
}

#[test]
fn published_overheads_follow_from_the_published_means() {
    for (id, commit) in [
        ("ephemeralml-3e7b676", "3e7b676"),
        ("ephemeralml-b00bab1", "b00bab1"),
    ] {
        let contents = report(id);
        let mean = |environment: &str| {
            let name = format!("{commit}-{environment}");
            let record = contents
                .records
                .iter()
                .find(|record| record.id.as_deref() == Some(&name))
                .unwrap();
            let latency = record
                .measurements
                .iter()
                .find(|one| one.subject == "inference.latency")
                .unwrap();
            (latency.statistics.mean.unwrap(), record.clone())
        };
        let ((bare, _), (enclave, record)) = (mean("bare-metal"), mean("enclave"));
        let published = record
            .measurements
            .iter()
            .find(|one| one.subject == "overhead")
            .unwrap();
        let computed = (enclave / bare - 1.0) * 100.0;
        assert!(
            (computed - published.statistics.value.unwrap()).abs() < 0.06,
            "{id}: {computed}"
        );
    }
}

#[test]
fn conflicting_reports_are_both_kept() {
    let means: Vec<f64> = ["3e7b676", "b00bab1"]
        .into_iter()
        .map(|commit| {
            let contents = report(&format!("ephemeralml-{commit}"));
            let name = format!("{commit}-enclave");
            let record = contents
                .records
                .into_iter()
                .find(|record| record.id.as_deref() == Some(&name))
                .unwrap();
            let latency = record
                .measurements
                .into_iter()
                .find(|one| one.subject == "inference.latency")
                .unwrap();
            latency.statistics.mean.unwrap()
        })
        .collect();
    assert_eq!(means, [89.49, 88.45]);
}

/// Numbers in a cell: `+16,633% (S3→VSock)` has 16633, `4.8–6.15%` has both.
fn numbers(cell: &str) -> Vec<f64> {
    let letters: Vec<char> = cell.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let before = at.checked_sub(1).map(|index| letters[index]);
        let starts = letters[at].is_ascii_digit()
            && !before.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '.');
        if !starts {
            at += 1;
            continue;
        }
        let negative = before == Some('-')
            && !at
                .checked_sub(2)
                .is_some_and(|index| letters[index].is_ascii_digit());
        let mut text = String::from(if negative { "-" } else { "" });
        while at < letters.len() {
            let letter = letters[at];
            let exponent = letter == 'e' && letters.get(at + 1).is_some_and(|next| *next == '-');
            if letter.is_ascii_digit() || letter == '.' {
                text.push(letter);
            } else if exponent {
                text.push_str("e-");
                at += 1;
            } else if letter != ',' {
                break;
            }
            at += 1;
        }
        found.extend(text.trim_end_matches('.').parse::<f64>());
    }
    found
}
