//! The published reports about a channel: every row has a figure of ours, or a reason why not.
#![allow(
    clippy::unwrap_used,
    reason = "helper functions open only the project's own files"
)]

use std::path::Path;

use benchmarks::comparison;
use benchmarks::reading::{Contents, read_file};
use benchmarks::record::Record;
use benchmarks::suite::{BENCHMARKS, Options, Run};

fn report(id: &str) -> Contents {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("reference/{id}.json"));
    read_file(&path).unwrap()
}

/// A short run of only the channel's benchmark, without contenders.
fn run() -> Record {
    let mut run = Run::new(Options {
        quick: true,
        model: Default::default(),
        threads: 1,
        other: None,
        contenders: false,
    });
    let chosen: Vec<_> = BENCHMARKS
        .iter()
        .filter(|one| one.name == "transport")
        .collect();
    run.all(&chosen, |_, _| {}, |_, _| {});
    Record {
        measurements: run.measurements,
        absent: run.absent,
        ..Record::default()
    }
}

/// Report and heading, key of the row, beginning of its cell.
const CELLS: &[(&str, &str, &str)] = &[
    (
        "Phase 1: Connect",
        "p50",
        "not comparable: theirs crosses vsock",
    ),
    (
        "Phase 2: Transport RTT",
        "p50",
        "not comparable: theirs crosses vsock",
    ),
    (
        "Phase 3: Inference RTT",
        "p50",
        "not measured: not part of this run",
    ),
    (
        "Derived Metrics",
        "Transport overhead per message",
        "not comparable: theirs follows from a real enclave",
    ),
    (
        "Derived Metrics",
        "Transport overhead % of inference",
        "not measured: follows from a round trip over vsock",
    ),
    (
        "Derived Metrics",
        "Handshake amortized",
        "not comparable: theirs follows from a real enclave",
    ),
    ("Comparison: Local", "Handshake", "not comparable: theirs "),
    ("Comparison: Local", "Transport RTT", "µ"),
    (
        "Handshake (fresh",
        "AWS m6i.xlarge",
        "not comparable: theirs verifies no signature",
    ),
    (
        "Reconnect KPIs",
        "Teardown + reconnect",
        "not comparable: theirs verifies no signature",
    ),
    ("Steady-State AEAD", "4 KB (activation tensor)", "µ"),
    ("Sustained Throughput", "1 MB", "µ"),
    ("Frame Codec", "Encode 4 KB", "µ"),
    ("Frame Codec", "Tensor decode 384 KB", "µ"),
    ("Real-World Impact", "AEAD round-trip per request", "µ"),
    ("Session Establishment", "Duplex creation (baseline)", "µ"),
    (
        "Session Establishment",
        "TLS 1.3 (rustls, full handshake)",
        "not measured: only --contenders measures TLS 1.3",
    ),
    (
        "Session Establishment",
        "CMT (3-msg",
        "not comparable: theirs verifies no signature",
    ),
    ("Round-Trip Latency", "384 KB (hidden state)", "µ"),
    ("Round-Trip Throughput", "4 KB", "µ"),
    (
        "SLO Targets",
        "Handshake p50",
        "not comparable: theirs verifies no signature",
    ),
    ("SLO Targets", "Throughput (4 KB, secure)", "µ"),
];

#[test]
fn every_row_has_a_figure_or_a_reason() {
    let reports = [report("nitro-transport"), report("transport-brief")];
    let tables = comparison::tables(&reports, &[run()]);
    for table in &tables {
        for row in &table.rows {
            let ours = row.last().unwrap();
            assert!(!ours.is_empty(), "{}: {row:?}", table.title);
        }
    }
    for (heading, key, begins) in CELLS {
        let table = tables
            .iter()
            .find(|table| table.title.contains(&format!(": {heading}")));
        let rows = &table.unwrap_or_else(|| panic!("no table {heading}")).rows;
        let row = rows.iter().find(|row| row[0].contains(key));
        let ours = row
            .unwrap_or_else(|| panic!("no row {key}"))
            .last()
            .unwrap();
        let fits = match *begins {
            // A figure.
            "µ" => ours.starts_with(|first: char| first.is_ascii_digit() || first == '-'),
            words => ours.starts_with(words),
        };
        assert!(fits, "{heading}, {key}: {ours}");
    }
}
