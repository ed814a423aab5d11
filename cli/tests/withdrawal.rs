//! A trust policy that is replaced while `clearseal embed` runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use fixtures::host::{Host, vector};
use serde_json::{Value, json};

/// Replaces the file as a whole, so that no reader sees a part of it.
fn replace(path: &Path, policy: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, policy).unwrap();
    std::fs::rename(next, path).unwrap();
}

#[test]
fn a_release_that_the_policy_withdraws_ends_the_command_and_gets_no_further_line() {
    let host = Host::start(46);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("withdrawal");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("policy.json");
    replace(&path, std::str::from_utf8(host.policy_json()).unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args(["embed", "--accept-simulated", "--batch", "1"])
        .args(["--url", &host.url, "--policy"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = command.stdin.take().unwrap();
    let mut rows = BufReader::new(command.stdout.take().unwrap()).lines();
    let mut messages = BufReader::new(command.stderr.take().unwrap()).lines();

    writeln!(lines, "a").unwrap();
    let row: Value = serde_json::from_str(&rows.next().unwrap().unwrap()).unwrap();
    assert_eq!(row["embedding"], json!(vector("a")));

    let mut policy: Value = serde_json::from_slice(host.policy_json()).unwrap();
    policy["name"] = json!("without");
    policy["releases"][0]["pcrs"]["0"] = json!("ab".repeat(48));
    replace(&path, &policy.to_string());
    // The command follows the file.
    let in_force = "trust policy without is in force: 0 sessions go on, 1 ended";
    while messages.next().unwrap().unwrap() != in_force {}
    let sent = host.sealed_requests();
    writeln!(lines, "a secret").unwrap();
    let messages: Vec<_> = messages.map(Result::unwrap).collect();
    assert_eq!(command.wait().unwrap().code(), Some(1), "{messages:?}");
    let withdrawn = messages
        .iter()
        .any(|message| message.contains("(POLICY_WITHDRAWN)"));
    assert!(withdrawn, "{messages:?}");
    // The row that was written before is kept, and nothing was sent for the other line.
    assert!(rows.next().is_none());
    assert_eq!(host.sealed_requests(), sent);
}
