//! `clearseal embed --proofs` and `clearseal verify vector`, against an enclave with a toy model.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::embed_with_proofs;
use fixtures::host::Host;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("clearseal-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn embed(host: &Host, policy: &Path, proofs: &Path, input: &str) -> String {
    String::from_utf8(embed_with_proofs(host, policy, proofs, input)).unwrap()
}

fn verify(policy: &Path, proofs: &Path, vectors: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args(["verify", "vector"])
        .args([proofs, vectors])
        .arg("--policy")
        .arg(policy)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn rows_are_shown_together_and_alone_and_no_other_passes_for_one() {
    let host = Host::start(41);
    let folder = Folder::new("vector");
    let policy = folder.write("policy.json", host.policy_json());
    let proofs = folder.0.join("proofs.jsonl");
    // Two batches: the second line of evidence is for the last two rows.
    let rows = embed(
        &host,
        &policy,
        &proofs,
        "one\ntwo\n\nthree\na b c d e f g h i\nfive\n",
    );
    let vectors = folder.write("vectors.jsonl", &rows);
    let accept = ["--accept-simulated"];
    let all = verify(&policy, &proofs, &vectors, &accept);
    assert!(
        all.status.success(),
        "{}",
        String::from_utf8_lossy(&all.stderr)
    );
    let told = String::from_utf8(all.stdout).unwrap();
    assert_eq!(told.lines().count(), 5);
    assert!(
        told.lines()
            .all(|line| line.contains("simulated; all-MiniLM-L6-v2"))
    );
    assert!(told.lines().nth(3).unwrap().contains("the text was longer"));
    // Simulated is less than verified.
    assert_eq!(
        verify(&policy, &proofs, &vectors, &[]).status.code(),
        Some(1)
    );

    // One row alone: its vector, the evidence before its proof, its proof.
    let lines = std::fs::read_to_string(&proofs).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 7);
    let one = folder.write("one.jsonl", format!("{}\n{}\n", lines[4], lines[6]));
    let row = folder.write("row.jsonl", rows.lines().nth(4).unwrap());
    assert!(verify(&policy, &one, &row, &accept).status.success());

    // Another row, another text, another number.
    let row = rows.lines().nth(4).unwrap();
    for other in [
        rows.lines().nth(3).unwrap().to_owned(),
        row.replace("five", "six"),
        row.replacen("\"embedding\":[", "\"embedding\":[1.5,", 1),
    ] {
        let other = folder.write("other.jsonl", other);
        let refused = verify(&policy, &one, &other, &["--accept-simulated", "--json"]);
        assert_eq!(refused.status.code(), Some(1));
        let report: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(report[0]["code"], "RESPONSE_HASH_MISMATCH");
    }

    // Statements of the row about its text.
    let read: serde_json::Value = serde_json::from_str(row).unwrap();
    for (name, other) in [
        ("tokens", serde_json::json!(999)),
        ("truncated", true.into()),
    ] {
        let mut changed = read.clone();
        changed[name] = other;
        let changed = folder.write("changed.jsonl", changed.to_string());
        let refused = verify(&policy, &one, &changed, &["--accept-simulated", "--json"]);
        assert_eq!(refused.status.code(), Some(1), "{name}");
        let report: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(report[0]["code"], "ROW_DIFFERS");
    }

    // Too few, too many, no evidence, no proofs at all.
    let none = folder.write("none.jsonl", "\n");
    let bare = folder.write("bare.jsonl", lines[6]);
    let first = folder.write("first.jsonl", rows.lines().next().unwrap());
    for (proofs, vectors, says) in [
        (&one, &vectors, "there is no proof for line 2"),
        (&proofs, &first, "more proofs than vectors"),
        (&bare, &first, "without a line of evidence"),
        (&one, &none, "no vectors"),
        (&vectors, &first, "line 1 of the proofs"),
    ] {
        let output = verify(&policy, proofs, vectors, &accept);
        let told = String::from_utf8_lossy(&output.stderr);
        // A wrong row in front is refused before the count is known.
        assert!(
            output.status.code() == Some(2) && told.contains(says),
            "{says}: {told}"
        );
    }
}

/// Stores that halve, normalise or print the numbers with few digits change a vector, so its proof is refused.
#[test]
fn a_row_that_its_store_rounded_is_named_as_such() {
    let host = Host::start(42);
    let folder = Folder::new("rounded");
    let policy = folder.write("policy.json", host.policy_json());
    let proofs = folder.0.join("proofs.jsonl");
    let row = embed(&host, &policy, &proofs, "one\n");
    let mut row: serde_json::Value = serde_json::from_str(&row).unwrap();
    let first = row["embedding"][0].as_f64().unwrap();
    row["embedding"][0] = (first + 1e-6).into();
    let vectors = folder.write("vectors.jsonl", row.to_string());
    for more in [
        &["--accept-simulated"][..],
        &["--accept-simulated", "--json"],
    ] {
        let refused = verify(&policy, &proofs, &vectors, more);
        assert_eq!(refused.status.code(), Some(1));
        let told = String::from_utf8(refused.stdout).unwrap();
        assert!(told.contains("RESPONSE_HASH_MISMATCH"), "{told}");
        assert!(
            told.contains("stores must return float32 bit for bit"),
            "{told}"
        );
    }
}

/// `json_build_object('text', text, 'embedding', embedding)` of PostgreSQL with pgvector.
#[test]
fn a_vector_may_be_a_string_of_numbers() {
    let host = Host::start(43);
    let folder = Folder::new("quoted");
    let policy = folder.write("policy.json", host.policy_json());
    let proofs = folder.0.join("proofs.jsonl");
    let row = embed(&host, &policy, &proofs, "one\n");
    let mut row: serde_json::Value = serde_json::from_str(&row).unwrap();
    row["embedding"] = row["embedding"].to_string().into();
    let accept = ["--accept-simulated"];
    let quoted = folder.write("quoted.jsonl", row.to_string());
    let told = verify(&policy, &proofs, &quoted, &accept);
    assert!(told.status.success(), "{told:?}");
    for (name, value) in [("text", "two"), ("embedding", "[0.5,0.5,0.5,0.5]")] {
        let mut other = row.clone();
        other[name] = value.into();
        let other = folder.write("other.jsonl", other.to_string());
        let refused = verify(&policy, &proofs, &other, &accept);
        assert_eq!(refused.status.code(), Some(1), "{name}");
    }
    for value in ["", "0.5", "[0.5", "[0.5,\"a\"]", "[[0.5]]"] {
        let mut other = row.clone();
        other["embedding"] = value.into();
        let other = folder.write("other.jsonl", other.to_string());
        let refused = verify(&policy, &proofs, &other, &accept);
        assert_eq!(refused.status.code(), Some(2), "{value}");
    }
}

/// A host behind a proxy that drops `upgrade`, as nginx does unless it is told otherwise.
#[test]
fn a_bulk_run_goes_on_without_a_channel_and_says_so_once() {
    let host = Host::start(44);
    let mut child = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args([
            "embed",
            "--bulk",
            "--accept-simulated",
            "--batch",
            "3",
            "--url",
        ])
        .arg(&host.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for number in 0..30 {
        writeln!(stdin, "text {number}").unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert_eq!(told.matches("UPGRADE_REQUIRED").count(), 1, "{told}");
    assert!(told.contains("sealed requests"), "{told}");
    assert!(told.contains("proxy_set_header upgrade"), "{told}");
    let rows = String::from_utf8(output.stdout).unwrap();
    for (number, row) in rows.lines().enumerate() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!(row["text"], format!("text {number}"));
    }
    assert_eq!(rows.lines().count(), 30);
}
