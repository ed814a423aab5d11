//! `docs/CHECKS.md` describes the code: it is generated from the tables, and this test fails if it is stale.
//!
//! `CLEARSEAL_UPDATE=1 cargo test -p attestation --test reference` writes it again.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a table that cannot be written is a failed test"
)]

mod common;

use attestation::{Check, ErrorCode, checks};
use common::boundaries::{TWO_MOMENTS, boundaries};
use common::differences::DIFFERENCES;
use std::collections::BTreeMap;
use std::fmt::Write;

const HEAD: &str = "\
# Checks

What the verifier asks of an attestation document, in the order in which the checks run: the first that fails
ends the rest. A check keeps its number when its place changes. This page is written from the code
(`CLEARSEAL_UPDATE=1 cargo test -p attestation --test reference`), and a test fails where the two differ. How the checks are themselves
checked is described in [ASSURANCE.md](ASSURANCE.md).

Each check has one place in the code, and each way to fail it a stable code. A **bound** is written as what is still accepted; then what
is refused. Vectors are named as the tests name them: those of checks 1 to 21 are documents of `forge::vectors()`, those of check 27
lists of `forge::crl_vectors()`, the others the cases of `crates/attestation/tests/common/appraisal.rs`; each is signed properly around the one thing that it changes. A test judges every vector
and requires this code; and for each code, the same document without the fault must pass.

";

/// Names of all vectors, by the code that they give; the accepted ones under the empty code.
fn vectors() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut by_code: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for vector in forge::vectors() {
        by_code.entry(vector.code).or_default().push(vector.name);
    }
    for vector in forge::crl_vectors() {
        by_code.entry(vector.code).or_default().push(vector.name);
    }
    for case in common::appraisal_cases() {
        let code = case.code.map_or("", |code| code.code());
        by_code.entry(code).or_default().push(case.name);
    }
    let two_moments = ErrorCode::JudgedTimeMismatch.code();
    by_code.entry(two_moments).or_default().push(TWO_MOMENTS);
    by_code
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let vectors = vectors();
    page.push_str("| # | check | stage | codes | vectors it refuses |\n");
    page.push_str("| --- | --- | --- | --- | --- |\n");
    for Check { spec, codes } in checks() {
        let refusing: usize = codes.iter().map(|code| vectors[code.code()].len()).sum();
        let refusing = match spec.required {
            true => refusing.to_string(),
            false => "warns only".to_owned(),
        };
        let (id, name, stage) = (spec.id, spec.name, spec.stage);
        writeln!(
            page,
            "| {id} | [{name}](#{id}-{name}) | {stage} | {} | {refusing} |",
            codes.len()
        )
        .unwrap();
    }
    for check in checks() {
        section(&mut page, &check, &vectors);
    }
    page.push_str("\n## Accepted\n\nDocuments that must pass all of this:\n");
    page.push_str(&list(&vectors[""]));
    page.push_str(".\n");
    differences(&mut page);
    page
}

fn section(page: &mut String, Check { spec, codes }: &Check, vectors: &BTreeMap<&str, Vec<&str>>) {
    writeln!(page, "\n## {} {}\n", spec.id, spec.name).unwrap();
    writeln!(
        page,
        "{} {}. Clause: {}.",
        spec.title, spec.expected, spec.clause
    )
    .unwrap();
    if !spec.required {
        page.push_str("A failure is only a warning: it does not change the verdict.\n");
    }
    for code in codes {
        writeln!(
            page,
            "\n### `{code}`\n\n{}. {}",
            code.message(),
            code.remedy()
        )
        .unwrap();
        page.push_str("\n| bound | accepted | refused |\n| --- | --- | --- |\n");
        let bounds: Vec<_> = boundaries().filter(|row| row.code == *code).collect();
        for row in &bounds {
            let (within, beyond) = (list(row.within), list(row.beyond));
            writeln!(page, "| {} | {within} | {beyond} |", row.bound).unwrap();
        }
        let further: Vec<_> = vectors[code.code()]
            .iter()
            .copied()
            .filter(|name| !bounds.iter().any(|row| row.beyond.contains(name)))
            .collect();
        if !further.is_empty() {
            writeln!(page, "\nRefused as well: {}.", list(&further)).unwrap();
        }
    }
}

fn differences(page: &mut String) {
    page.push_str(
        "\n## Differences to webpki\n\n\
         Chain and signature of every vector, and of chains that are changed at random, are judged by `rustls-webpki` too. Where the two\n\
         differ, it is for one of these reasons; any other difference fails, and so does a reason that no longer occurs.\n\n\
         | difference | here | webpki | why | shown by |\n| --- | --- | --- | --- | --- |\n",
    );
    for it in DIFFERENCES {
        let ours = it
            .ours
            .map_or("accepts".to_owned(), |(code, _)| format!("`{code}`"));
        let theirs = it
            .theirs
            .map_or("accepts".to_owned(), |error| format!("`{error}`"));
        let (name, why, vectors) = (it.name, it.why, list(it.vectors));
        writeln!(page, "| {name} | {ours} | {theirs} | {why} | {vectors} |").unwrap();
    }
}

fn list(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[test]
fn the_page_of_checks_is_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CHECKS.md");
    let page = page();
    if std::env::var_os("CLEARSEAL_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/CHECKS.md is stale; regenerate it: CLEARSEAL_UPDATE=1 cargo test -p attestation --test reference"
    );
}
