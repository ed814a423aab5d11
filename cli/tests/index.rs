//! `clearseal index check` and `clearseal index migrate`, against an enclave with a toy model.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fixtures::host::Host;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::embed_with_proofs;

/// An enclave, a policy for it, and a folder.
struct Setup {
    host: Host,
    folder: TempDir,
    policy: PathBuf,
}

impl Setup {
    fn new(seed: u64) -> Self {
        let (host, folder) = (Host::start(seed), TempDir::new().unwrap());
        let policy = folder.path().join("policy.json");
        std::fs::write(&policy, host.policy_json()).unwrap();
        Self {
            host,
            folder,
            policy,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Embeds lines; returns the files of rows and proofs.
    fn embed(&self, name: &str, input: &str) -> [PathBuf; 2] {
        let proofs = self.path(&format!("{name}-proofs.jsonl"));
        let rows = embed_with_proofs(&self.host, &self.policy, &proofs, input);
        [self.write(&format!("{name}.jsonl"), rows), proofs]
    }

    fn clearseal<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearseal"));
        command.args(args).arg("--policy").arg(&self.policy);
        command
    }

    fn check(&self, files: &[&Path], more: &[&str]) -> Output {
        let mut command = self.clearseal(["index", "check"]);
        command.args(files).args(more).output().unwrap()
    }

    /// Code, file and line of the first row that is refused.
    fn refusal(&self, files: &[&Path]) -> (String, String, u64) {
        let output = self.check(files, &["--accept-simulated", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["verdict"], "refused");
        let refused = &report["refused"];
        let text = |name: &str| refused[name].as_str().unwrap().to_owned();
        (
            text("code"),
            text("file"),
            refused["line"].as_u64().unwrap(),
        )
    }

    fn migrate(&self, rows: &Path, to: &Path) -> Command {
        let mut command =
            self.clearseal(["index", "migrate", "--accept-simulated", "--batch", "3"]);
        command.args(["--url", &self.host.url, "--to"]);
        command.args([to, rows]);
        command
    }
}

/// Rows of a file with this row changed.
fn change(rows: &Path, row: usize, change: impl Fn(&mut Value)) -> String {
    let text = std::fs::read_to_string(rows).unwrap();
    let lines = text.lines().enumerate().map(|(at, line)| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if at == row {
            change(&mut value);
        }
        value.to_string() + "\n"
    });
    lines.collect()
}

#[test]
fn the_first_row_of_another_index_is_named() {
    let setup = Setup::new(51);
    let [a, a_proofs] = setup.embed("a", "one\ntwo\nthree\nfour\n");
    let [b, b_proofs] = setup.embed("b", "five\nsix\n");
    let files: &[&Path] = &[&a, &b, &a_proofs, &b_proofs];
    let output = setup.check(files, &["--accept-simulated"]);
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.starts_with("6 rows: simulated; all-MiniLM-L6-v2 ("),
        "{told}"
    );
    assert!(told.ends_with("), 4 dimensions\n"), "{told}");
    // Simulated is less than verified.
    assert_eq!(setup.check(files, &[]).status.code(), Some(1));

    let prompted = setup.write(
        "prompted.jsonl",
        change(&b_proofs, 0, |evidence| {
            evidence["prompt"] = "query: ".into();
        }),
    );
    let other = setup.refusal(&[&a, &b, &a_proofs, &prompted]);
    let expected =
        |code: &str, file: &Path, line| (code.to_owned(), file.display().to_string(), line);
    assert_eq!(other, expected("INDEX_PROMPT_DIFFERS", &b, 1));

    let shorter = change(&b, 1, |row| row["embedding"] = json!([0.5, 0.5, 0.5]));
    let shorter = setup.write("shorter.jsonl", shorter);
    let other = setup.refusal(&[&a, &shorter, &a_proofs, &b_proofs]);
    assert_eq!(other, expected("INDEX_DIMENSIONS_DIFFER", &shorter, 2));

    let rounded = change(&a, 2, |row| row["embedding"][0] = json!(0.123));
    let rounded = setup.write("rounded.jsonl", rounded);
    let other = setup.refusal(&[&rounded, &a_proofs]);
    assert_eq!(other, expected("RESPONSE_HASH_MISMATCH", &rounded, 3));

    for (files, says) in [
        (&[&*a, &b, &a_proofs][..], "there is no proof for line 1 of"),
        (&[&*a, &a_proofs, &b_proofs], "more proofs than vectors"),
        (&[&*a_proofs], "no vectors"),
    ] {
        let output = setup.check(files, &["--accept-simulated"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && told.contains(says),
            "{told}"
        );
    }
}

/// An index of this many rows, with further members. The service refuses the empty text.
fn old_index(rows: usize) -> String {
    let text = |number| match number {
        7 => String::new(),
        _ => format!("text {number}"),
    };
    let rows = (0..rows).map(|number| {
        json!({ "id": format!("a{number}"), "index": 2 * number, "text": text(number), "embedding": [1] })
    });
    rows.map(|row| row.to_string() + "\n").collect()
}

/// Number and text of each row.
fn summarise(folder: &Path) -> Vec<(u64, String)> {
    let rows = std::fs::read_to_string(folder.join("vectors.jsonl")).unwrap();
    let rows = rows.lines().map(|row| {
        let row: Value = serde_json::from_str(row).unwrap();
        let text = row["text"].as_str().unwrap().to_owned();
        (row["index"].as_u64().unwrap(), text)
    });
    rows.collect()
}

#[test]
fn an_interrupted_migration_loses_and_repeats_no_row() {
    let setup = Setup::new(52);
    let old = setup.write("old.jsonl", old_index(20));
    let whole = setup.path("whole");
    let output = setup.migrate(&old, &whole).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let expected: Vec<_> = (0..20)
        .filter(|number| *number != 7)
        .map(|number| (2 * number, format!("text {number}")))
        .collect();
    assert_eq!(summarise(&whole), expected);
    assert_eq!(std::fs::read_to_string(&old).unwrap(), old_index(20));

    let contents =
        ["vectors.jsonl", "proofs.jsonl"].map(|name| std::fs::read(whole.join(name)).unwrap());
    let [vectors, proofs] = &contents;
    let line_ends = |file: &[u8]| -> Vec<usize> {
        let bytes = (1..).zip(file);
        bytes
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(end, _)| end)
            .collect()
    };
    let (rows, lines) = (line_ends(vectors), line_ends(proofs));
    // A run writes the proofs of an answer first: four lines for three rows.
    for (number, (rows_end, proofs_end)) in [
        (0, 0),
        (0, lines[0] - 9),
        (0, lines[2]),
        (0, lines[3]),
        (rows[0] - 5, lines[3]),
        (rows[1], lines[3]),
        (rows[2], lines[3]),
        (rows[2], lines[3] + 40),
        (rows[4], lines[7]),
        (vectors.len() - 9, proofs.len()),
        (vectors.len() - 1, proofs.len()),
        (vectors.len(), proofs.len()),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = setup.path(&format!("cut-{number}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(whole.join("migration.json"), folder.join("migration.json")).unwrap();
        std::fs::write(folder.join("vectors.jsonl"), &vectors[..rows_end]).unwrap();
        std::fs::write(folder.join("proofs.jsonl"), &proofs[..proofs_end]).unwrap();
        std::fs::copy(whole.join("sent.sha256"), folder.join("sent.sha256")).unwrap();
        let output = setup.migrate(&old, &folder).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "cut {number}: {output:?}");
        assert_eq!(summarise(&folder), expected, "cut {number}");
        let [rows, proofs] = ["vectors.jsonl", "proofs.jsonl"].map(|name| folder.join(name));
        let checked = setup.check(&[&rows, &proofs], &["--accept-simulated"]);
        assert!(checked.status.success(), "cut {number}: {checked:?}");
    }

    // A whole index is not embedded again, and the line that was refused is reported again.
    let before = setup.host.sealed_requests();
    let output = setup.migrate(&old, &whole).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("1 line was refused by an earlier run"),
        "{told}"
    );
    assert_eq!(setup.host.sealed_requests(), before);
    assert_eq!(
        std::fs::read(whole.join("vectors.jsonl")).unwrap(),
        *vectors
    );
}

#[test]
fn a_killed_migration_continues() {
    let setup = Setup::new(53);
    let old = setup.write("old.jsonl", old_index(300));
    let folder = setup.path("new");
    let mut run = setup.migrate(&old, &folder);
    let mut child = run.stderr(Stdio::null()).spawn().unwrap();
    // The second run is the same wherever the first one ends.
    while std::fs::metadata(folder.join("vectors.jsonl")).map_or(0, |file| file.len()) == 0
        && child.try_wait().unwrap().is_none()
    {
        std::thread::yield_now();
    }
    child.kill().ok();
    child.wait().unwrap();
    let output = setup.migrate(&old, &folder).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let numbers = summarise(&folder).into_iter().map(|(number, _)| number);
    let expected = (0..300)
        .filter(|number| *number != 7)
        .map(|number| 2 * number);
    assert!(numbers.eq(expected));
}

#[test]
fn only_a_folder_of_the_same_migration_is_continued() {
    let setup = Setup::new(54);
    let old = setup.write("old.jsonl", old_index(5));
    let folder = setup.path("new");
    assert!(
        setup
            .migrate(&old, &folder)
            .output()
            .unwrap()
            .status
            .success()
    );

    let changed = change(&old, 3, |row| row["text"] = "another".into());
    let changed = setup.write("changed.jsonl", changed);
    let bare = setup.write("bare.jsonl", "{\"tokens\":[7],\"embedding\":[1]}\n");
    let mine = setup.path("mine");
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("vectors.jsonl"), old_index(2)).unwrap();
    for (rows, to, code) in [
        (&changed, &folder, "INDEX_SOURCE_CHANGED"),
        (&old, &mine, "INDEX_FOLDER_OCCUPIED"),
        (&bare, &setup.path("other"), "INDEX_TEXT_MISSING"),
    ] {
        let output = setup.migrate(rows, to).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(code), "{told}");
    }
    let kept = std::fs::read_to_string(mine.join("vectors.jsonl")).unwrap();
    assert_eq!(kept, old_index(2));
}

/// Error code of a migration that does not begin.
fn fail(setup: &Setup, rows: &Path, to: &Path) -> String {
    let output = setup.migrate(rows, to).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    told
}

#[test]
fn a_row_that_was_added_between_kept_ones_is_not_taken_for_a_refused_one() {
    let setup = Setup::new(55);
    let whole = old_index(12);
    let lines: Vec<_> = whole.split_inclusive('\n').collect();
    let without: String = lines
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 4)
        .map(|(_, line)| *line)
        .collect();
    let old = setup.write("without.jsonl", without);
    let folder = setup.path("new");
    let first = setup.migrate(&old, &folder).output().unwrap();
    assert_eq!(first.status.code(), Some(3), "{first:?}");
    let before = std::fs::read(folder.join("vectors.jsonl")).unwrap();
    let added = setup.write("added.jsonl", &whole);
    let told = fail(&setup, &added, &folder);
    assert!(told.contains("INDEX_SOURCE_CHANGED"), "{told}");
    // The text that was refused has another one now.
    let filled = change(&old, 6, |row| row["text"] = "filled".into());
    let filled = setup.write("filled.jsonl", filled);
    let told = fail(&setup, &filled, &folder);
    assert!(told.contains("INDEX_SOURCE_CHANGED"), "{told}");
    assert_eq!(std::fs::read(folder.join("vectors.jsonl")).unwrap(), before);
    // Without the record, a line that has no row is not known to be refused.
    std::fs::remove_file(folder.join("sent.sha256")).unwrap();
    let told = fail(&setup, &old, &folder);
    assert!(told.contains("INDEX_SOURCE_CHANGED"), "{told}");
}

#[test]
fn rows_with_one_number_are_told_apart_by_their_lines() {
    let setup = Setup::new(56);
    let rows = (0..9).map(|at| {
        let text = if at == 4 {
            String::new()
        } else {
            format!("text {at}")
        };
        json!({ "index": at % 2, "text": text }).to_string() + "\n"
    });
    let old = setup.write("old.jsonl", rows.collect::<String>());
    let folder = setup.path("new");
    let first = setup.migrate(&old, &folder).output().unwrap();
    assert_eq!(first.status.code(), Some(3), "{first:?}");
    let expected = summarise(&folder);
    assert_eq!(expected.len(), 8);
    let before = setup.host.sealed_requests();
    let again = setup.migrate(&old, &folder).output().unwrap();
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    assert_eq!(setup.host.sealed_requests(), before);
    // Interrupted in the last answer.
    let vectors = std::fs::read(folder.join("vectors.jsonl")).unwrap();
    std::fs::write(folder.join("vectors.jsonl"), &vectors[..vectors.len() - 3]).unwrap();
    let again = setup.migrate(&old, &folder).output().unwrap();
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    assert_eq!(summarise(&folder), expected);
}

#[test]
fn a_migration_that_does_not_begin_removes_no_row() {
    let setup = Setup::new(57);
    let old = setup.write("old.jsonl", old_index(5));
    let folder = setup.path("new");
    let first = setup.migrate(&old, &folder).output().unwrap();
    assert!(first.status.success(), "{first:?}");
    let (vectors, proofs) = (folder.join("vectors.jsonl"), folder.join("proofs.jsonl"));
    let before = std::fs::read(&vectors).unwrap();

    let linked = setup.path("linked.jsonl");
    std::fs::hard_link(&vectors, &linked).unwrap();
    for own in [&vectors, &linked, &folder.join("../new/vectors.jsonl")] {
        let told = fail(&setup, own, &folder);
        assert!(told.contains("INDEX_SOURCE_IS_TARGET"), "{told}");
    }
    std::fs::rename(&proofs, setup.path("away")).unwrap();
    for _ in 0..2 {
        let told = fail(&setup, &old, &folder);
        assert!(told.contains("INDEX_PROOFS_MISSING"), "{told}");
    }
    std::fs::rename(setup.path("away"), &proofs).unwrap();
    // The last answer is not whole, and its rows are removed only for the same source.
    let cut = &before[..before.len() - 3];
    std::fs::write(&vectors, cut).unwrap();
    let other = change(&old, 1, |row| row["text"] = "another".into());
    let other = setup.write("other.jsonl", other);
    let told = fail(&setup, &other, &folder);
    assert!(told.contains("INDEX_SOURCE_CHANGED"), "{told}");
    assert_eq!(std::fs::read(&vectors).unwrap(), cut);
    let again = setup.migrate(&old, &folder).output().unwrap();
    assert!(again.status.success(), "{again:?}");
    assert_eq!(summarise(&folder).len(), 5);
}
