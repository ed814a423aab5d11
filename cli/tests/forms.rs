//! Files as editors write them, input without a line, and output as a person reads it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use common::{AT, Fixture, Run, run};
use fixtures::host::{Host, vector};
use std::process::{Command, Output, Stdio};

const MARK: &str = "\u{feff}";

/// Standard output of `clearseal embed`, byte by byte.
fn embed(host: &Host, fixture: &Fixture, more: &[&str], input: &str) -> Vec<u8> {
    let output = try_embed(host, fixture, more, input);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    output.stdout
}

fn try_embed(host: &Host, fixture: &Fixture, more: &[&str], input: &str) -> Output {
    fixture.write("input.txt", input.as_bytes());
    fixture.write(
        "service.json",
        format!("{MARK}{}", String::from_utf8_lossy(host.policy_json())).as_bytes(),
    );
    let output = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args([
            "embed",
            "--accept-simulated",
            "--policy",
            "service.json",
            "--url",
            &host.url,
        ])
        .args(more)
        .current_dir(&fixture.folder)
        .stdin(Stdio::from(
            std::fs::File::open(fixture.folder.join("input.txt")).unwrap(),
        ))
        .output()
        .unwrap();
    common::assert_no_escaped_layout(&String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn a_refused_line_is_left_out_only_where_rows_are_numbered() {
    let host = Host::start(46);
    let fixture = Fixture::new("refused-line");
    let input = format!("a\n{}\nb\n", "x".repeat(600 << 10));
    for (options, status) in [
        (&["--fields", "index,tokens"][..], 3),
        (&["--format", "csv", "--fields", "tokens,index"], 3),
        (&["--fields", "tokens"], 2),
        (&["--format", "npy"], 2),
    ] {
        let output = try_embed(&host, &fixture, options, &input);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {told}");
        assert!(told.contains("TEXT_TOO_LONG"), "{told}");
        let has_later_row = String::from_utf8_lossy(&output.stdout).contains('2');
        assert!(status == 2 || has_later_row, "{options:?}");
    }
}

#[test]
fn an_empty_line_has_no_row_or_an_empty_row_or_is_refused() {
    let host = Host::start(47);
    let fixture = Fixture::new("empty-lines");
    let input = "\na\n \n\nb\n\n";
    let texts = ["", "a", "", "", "b", ""];
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let told = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    for mode in [&[][..], &["--bulk"], &["--batch", "1"]] {
        let with = |more: &[&str]| try_embed(&host, &fixture, &[mode, more].concat(), input);
        let both_texts = "{\"index\":1}\n{\"index\":4}\n";
        assert_eq!(text(&with(&["--fields", "index"])), both_texts);

        let skipped = with(&["--empty", "skip"]);
        let rows: Vec<serde_json::Value> = text(&skipped)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), texts.len());
        for (index, (row, text)) in rows.iter().zip(texts).enumerate() {
            assert_eq!((&row["index"], &row["text"]), (&index.into(), &text.into()));
            match text {
                "" => assert!(row["embedding"].is_null() && row["tokens"] == 0, "{row}"),
                text => assert_eq!(row["embedding"], serde_json::json!(vector(text))),
            }
        }
        assert!(told(&skipped).contains("4 lines are empty"));
        let csv = [
            "--empty",
            "skip",
            "--format",
            "csv",
            "--fields",
            "index,embedding",
        ];
        assert!(text(&with(&csv)).ends_with("\r\n5,,,,\r\n"));
        let npy = with(&["--empty", "skip", "--format", "npy"]).stdout;
        let (values, rest) = npy[npy.len() - 6 * 4 * 4..].as_chunks::<4>();
        assert!(rest.is_empty());
        let values: Vec<_> = values
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        for (row, text) in values.chunks_exact(4).zip(texts) {
            match text {
                "" => assert!(row.iter().all(|value| value.is_nan())),
                text => assert_eq!(row, vector(text)),
            }
        }

        let refused = with(&["--empty", "refuse", "--fields", "index"]);
        assert_eq!(
            (refused.status.code(), &*text(&refused)),
            (Some(3), both_texts)
        );
        for index in [0, 2, 3, 5] {
            let line = format!("index {index} is left out: the line is empty");
            assert!(told(&refused).contains(&line), "{}", told(&refused));
        }
        let ended = with(&["--empty", "refuse", "--fields", "text"]);
        assert_eq!(ended.status.code(), Some(2));
        assert!(told(&ended).contains("index 0 is refused"));
    }
    // Nothing is sent for empty lines alone.
    let sealed = host.sealed_requests();
    let npy = embed(
        &host,
        &fixture,
        &["--empty", "skip", "--format", "npy"],
        "\n\n",
    );
    assert!(String::from_utf8_lossy(&npy).contains("'shape': (2, 4)"));
    assert_eq!(host.sealed_requests(), sealed);
}

/// The toy model's vectors have four components, as its manifest says.
#[test]
fn without_a_row_the_output_still_has_its_shape() {
    let host = Host::start(45);
    let fixture = Fixture::new("no-rows");
    for input in ["", "\n \n", MARK] {
        let embed = |format: &str, more: &[&str]| {
            let more = [&["--format", format], more].concat();
            embed(&host, &fixture, &more, input)
        };
        let npy = embed("npy", &[]);
        let header = String::from_utf8_lossy(&npy);
        assert!(header.contains("'shape': (0, 4)"), "{header}");
        assert_eq!(npy.len() % 64, 0);
        let header =
            "index,text,tokens,truncated,embedding_0,embedding_1,embedding_2,embedding_3\r\n";
        assert_eq!(embed("csv", &[]), header.as_bytes());
        assert_eq!(embed("csv", &["--fields", "text,index"]), b"text,index\r\n");
        assert_eq!(embed("jsonl", &[]), b"");
        let parquet = embed("parquet", &[]);
        assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    }
    // With a row the header is there once.
    let csv =
        String::from_utf8(embed(&host, &fixture, &["--format", "csv"], "one\ntwo\n")).unwrap();
    assert_eq!(csv.matches("embedding_0").count(), 1);
    assert_eq!(csv.lines().count(), 3);
}

#[test]
fn a_byte_order_mark_changes_no_vector_and_no_judgement() {
    let host = Host::start(46);
    let fixture = Fixture::new("marks");
    let jsonl = |input: &str| embed(&host, &fixture, &["--proofs", "proofs.jsonl"], input);
    let rows = jsonl("one\ntwo\n");
    assert_eq!(jsonl(&format!("{MARK}one\ntwo\n")), rows);

    let marked = |name: &str, bytes: &[u8]| {
        fixture.write(name, &[MARK.as_bytes(), bytes].concat());
    };
    let proofs = std::fs::read(fixture.folder.join("proofs.jsonl")).unwrap();
    marked("proofs.jsonl", &proofs);
    marked("rows.jsonl", &rows);
    let vector = [
        "verify",
        "vector",
        "proofs.jsonl",
        "rows.jsonl",
        "--policy",
        "service.json",
        "--accept-simulated",
    ];
    let judged = fixture.run(&vector);
    assert_eq!(
        (judged.status, judged.out.lines().count()),
        (0, 2),
        "{}",
        judged.err
    );

    let document = std::fs::read(fixture.folder.join("document.cbor")).unwrap();
    marked(
        "document.hex",
        base16ct::lower::encode_string(&document).as_bytes(),
    );
    marked("policy.json", fixture.policy().to_string().as_bytes());
    let Run { status, out, err } = fixture.run(&[
        "verify",
        "attestation",
        "document.hex",
        "--policy",
        "policy.json",
        "--at",
        "document",
        "--accept-authentic",
    ]);
    assert!(
        out.starts_with("SIMULATED") || out.starts_with("AUTHENTIC"),
        "{status} {out}{err}"
    );
    assert_eq!(
        fixture
            .run(&["policy", "check", "policy.json", "--at", AT])
            .status,
        0
    );

    let mut trust = fixture.policy();
    trust["root"] = "aws-nitro-enclaves-g1".into();
    trust["model"] = serde_json::json!({ "id": "model", "sha256": "04".repeat(32) });
    marked("trust.json", trust.to_string().as_bytes());
    let trust = ["--policy", "trust.json", "--at", AT];
    let role = ["--role", "arn:aws:iam::111122223333:role/parent"];
    let written = fixture.run(&[&["policy", "kms"][..], &trust, &role].concat());
    assert_eq!(written.status, 0, "{}", written.err);
    fixture.write("key.json", written.out.as_bytes());
    marked("key-marked.json", written.out.as_bytes());
    let verify = |name: &str| fixture.run(&[&["verify", "kms-policy", name][..], &trust].concat());
    let (plain, marked) = (verify("key.json"), verify("key-marked.json"));
    assert_eq!((plain.status, marked.status), (0, 0), "{}", marked.err);
    assert_eq!(marked.out, plain.out);
}

#[test]
fn one_reader_of_dates_serves_policies_and_at() {
    let fixture = Fixture::new("dates");
    for end in [
        "2027-01-16T00:00:00.000000+00:00",
        "2027-01-16t00:00:00z",
        "2027-01-16 01:00:00+01:00",
    ] {
        let mut policy = fixture.policy();
        policy["not_after"] = end.into();
        policy["max_age_seconds"] = 300.0.into();
        fixture.write("policy.json", policy.to_string().as_bytes());
        for (at, status) in [
            ("2027-01-15T23:59:59.999Z", 0),
            ("2027-01-16T00:59:59.999999+01:00", 0),
            ("2027-01-16 00:00:00z", 0),
            ("2027-01-15t19:00:01-05:00", 1),
        ] {
            let check = fixture.run(&["policy", "check", "policy.json", "--at", at]);
            assert_eq!(
                check.status, status,
                "{end} {at}: {}{}",
                check.out, check.err
            );
        }
    }
    let unknown = fixture.run(&["policy", "check", "policy.json", "--at", "16.01.2027"]);
    assert_eq!(unknown.status, 2);
}

#[test]
fn reports_begin_their_parts_with_an_empty_line() {
    let fixture = Fixture::new("printed");
    let document = ["document.cbor", "--at", "document"];
    let inspect = [
        &["inspect", "attestation"][..],
        &document,
        &["--root", "root.der"],
    ]
    .concat();
    let verify = [
        &["verify", "attestation"][..],
        &document,
        &["--policy", "policy.json"],
    ]
    .concat();
    let check = ["policy", "check", "policy.json", "--at", AT];
    for (arguments, titles) in [
        (
            &inspect[..],
            &["Document", "Certificates", "What follows"][..],
        ),
        (&verify, &["Document", "Certificates", "What follows"]),
        (&check, &["Releases", "Demands", "Look at"]),
    ] {
        let printed = run(&fixture.folder, arguments, b"").out;
        for title in titles {
            assert!(
                printed.contains(&format!("\n\n{title}\n")),
                "{title}: {printed}"
            );
        }
        assert!(!printed.contains("\\u{"), "{printed}");
    }
}
