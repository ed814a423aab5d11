//! Rules about dependencies.

use crate::process::{cargo, metadata, run};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// With one of these the relay could open, or judge, what it relays.
const FORBIDDEN: [&str; 6] = [
    "attestation",
    "forge",
    "hpke",
    "ohttp",
    "protocol",
    "verifier-wasm",
];

pub(crate) fn relay() -> Result<Option<String>> {
    let all = dependencies(&metadata(&["--locked"])?, "host-proxy")?;
    let found: Vec<_> = FORBIDDEN
        .into_iter()
        .filter(|name| all.contains(*name))
        .collect();
    ensure!(
        found.is_empty(),
        "host-proxy depends on {}; `cargo tree -p host-proxy -i {}` says through which crate",
        found.join(", "),
        found.first().copied().unwrap_or_default()
    );
    println!(
        "host-proxy: {} dependencies, none of {}",
        all.len(),
        FORBIDDEN.join(", ")
    );
    Ok(None)
}

/// Cryptography whose code the compiler did not check.
const IN_C: [&str; 4] = ["aws-lc-sys", "boring-sys", "openssl-sys", "ring"];

pub(crate) fn enclave() -> Result<Option<String>> {
    // Features of this package alone: built with others, it would share theirs.
    let arguments = [
        "--package=enclave-server",
        "--edges=normal,build",
        "--prefix=none",
    ];
    let output = cargo(&["tree", "--locked"])
        .args(arguments)
        .output()
        .context("cannot run `cargo tree`")?;
    ensure!(
        output.status.success(),
        "`cargo tree` failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8(output.stdout)?;
    let all: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    ensure!(
        all.contains("hpke"),
        "`cargo tree` does not list what it should"
    );
    ensure!(
        !all.contains("fixtures"),
        "enclave-server is built with the fixtures of its tests; make them a development dependency"
    );
    let found: Vec<_> = IN_C.into_iter().filter(|name| all.contains(name)).collect();
    ensure!(
        found.is_empty(),
        "enclave-server depends on {}; `cargo tree -p enclave-server -i {}` says through which crate",
        found.join(", "),
        found.first().copied().unwrap_or_default()
    );
    println!(
        "enclave-server: {} dependencies, none of {}",
        all.len(),
        IN_C.join(", ")
    );
    Ok(None)
}

pub(crate) fn licences() -> Result<Option<String>> {
    run(&mut cargo(&[
        "deny",
        "--log-level=error",
        "check",
        // An exception that nothing needs any more.
        "--deny=unmatched-skip",
        "--deny=unnecessary-skip",
        "bans",
        "licenses",
        "sources",
    ]))?;
    // By the same rules; exceptions of the large workspace are unnecessary in this one.
    run(cargo(&PYTHON).args(["bans", "licenses", "sources"]))?;
    Ok(None)
}

pub(crate) fn advisories() -> Result<Option<String>> {
    run(&mut cargo(&[
        "deny",
        "--log-level=error",
        "check",
        "advisories",
    ]))?;
    run(cargo(&PYTHON).arg("advisories"))?;
    Ok(None)
}

/// Checks the Python package's workspace.
const PYTHON: [&str; 6] = [
    "deny",
    "--config=deny.toml",
    "--manifest-path=verifier-python/Cargo.toml",
    "--log-level=error",
    "check",
    "--hide-inclusion-graph",
];

/// Names of everything that a workspace member is built from, build and development dependencies included.
fn dependencies(metadata: &Value, member: &str) -> Result<BTreeSet<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: HashMap<String, String> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let edges: HashMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            (
                text(&node["id"]),
                list(&node["dependencies"]).iter().map(text).collect(),
            )
        })
        .collect();
    let members: BTreeSet<String> = list(&metadata["workspace_members"])
        .iter()
        .map(text)
        .collect();
    let start = members
        .iter()
        .find(|id| names.get(*id).is_some_and(|name| name == member))
        .with_context(|| format!("the workspace has no member {member}"))?;
    let mut seen = BTreeSet::new();
    let mut open = vec![start.clone()];
    while let Some(id) = open.pop() {
        for next in edges.get(&id).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    Ok(seen
        .iter()
        .filter_map(|id| names.get(id).cloned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_of_a_dependency_is_found() {
        let metadata = serde_json::json!({
            "packages": [{"id": "1", "name": "host-proxy"}, {"id": "2", "name": "middle"}, {"id": "3", "name": "hpke"}, {"id": "4", "name": "other"}],
            "workspace_members": ["1", "4"],
            "resolve": {"nodes": [{"id": "1", "dependencies": ["2"]}, {"id": "2", "dependencies": ["3"]}, {"id": "4", "dependencies": []}]},
        });
        let found = dependencies(&metadata, "host-proxy").unwrap();
        assert_eq!(found, ["hpke", "middle"].map(str::to_owned).into());
        assert!(dependencies(&metadata, "other").unwrap().is_empty());
        assert!(dependencies(&metadata, "absent").is_err());
    }
}
