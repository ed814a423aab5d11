//! Files that must be refused, and the path that the refusal must name. The page's reader is tested with the same list.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use benchmarks::reading::{MAX_BYTES, read};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    code: String,
    path: String,
}

#[test]
fn each_fault_is_named_by_code_and_path() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("malformed.json")).unwrap();
    for case in cases {
        let error = read("file.json", case.text.as_bytes()).expect_err(&case.name);
        let first = &error.problems[0];
        assert_eq!(
            (format!("{:?}", first.code), &first.path),
            (case.code, &case.path),
            "{}",
            case.name
        );
        assert!(error.to_string().starts_with("file.json: $"), "{error}");
    }
}

#[test]
fn deep_nesting_and_large_files_are_refused_before_parsing() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let error = read("deep.json", deep.as_bytes()).unwrap_err();
    assert_eq!(format!("{:?}", error.problems[0].code), "RECORD_TOO_DEEP");
    let large = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
    let error = read("large.json", &large).unwrap_err();
    assert_eq!(format!("{:?}", error.problems[0].code), "RECORD_TOO_LARGE");
}

#[test]
fn a_file_full_of_faults_names_some_of_them() {
    let faults = vec!["{}"; 5_000].join(",");
    let error = read("many.json", format!("[{faults}]").as_bytes()).unwrap_err();
    assert!(error.problems.len() <= 20);
}

#[test]
fn a_record_full_of_faults_names_the_first() {
    let faults = vec!["0"; 1_000_000].join(",");
    let text = format!(r#"{{"environment":"enclave","measurements":[{faults}]}}"#);
    let error = read("hostile.json", text.as_bytes()).unwrap_err();
    assert_eq!(error.problems.len(), 1, "{error}");
    // A name as long as the file is shortened, and terminal control characters are escaped.
    let name = "\\u001b[2J".repeat(10_000);
    let text = format!(r#"{{"environment":"enclave","setup":{{"{name}":1}}}}"#);
    let error = read("hostile.json", text.as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.len() < 500 && !error.contains('\u{1b}'),
        "{}",
        error.len()
    );
}

#[test]
fn the_published_format_is_read_under_both_names_of_its_throughput() {
    for name in ["upload_throughput_mbps", "upload_throughput_mb_per_sec"] {
        let text = format!(
            r#"{{"environment":"enclave","hardware":"m6i.xlarge","timestamp":"1769977102Z","vsock":{{"rtt_1kb_ms":0.14,"{name}":219.4}},"unheard_of":1}}"#
        );
        let contents = read("published.json", text.as_bytes()).unwrap();
        let figures = benchmarks::published::figures(&contents.records[0]);
        let throughput = figures
            .iter()
            .find(|figure| figure.subject == "transport.throughput")
            .unwrap();
        assert_eq!(throughput.statistics.value, Some(219.4));
        assert_eq!(contents.notices[0].path, "$.unheard_of");
    }
}
