//! Suites over the Rust workspace. All of them share the dev profile, so that each crate is compiled once.

use crate::process::{cargo, run};
use crate::skipped;
use anyhow::{Context, Result};
use std::process::Command;

pub(crate) fn format() -> Result<Option<String>> {
    run(&mut cargo(&[
        "fmt",
        "--all",
        "--check",
        "--",
        "--files-with-diff",
    ]))
    .context("these files are not formatted; put them right with: npm run tidy")?;
    Ok(None)
}

/// Every feature that ships. One selection for all suites: another one has dependencies with other features, and compiles them
/// again.
pub(super) const FEATURES: &str = "--features=host-proxy/cloud";

/// Every crate but this one, which has a separate profile.
const CRATES: [&str; 4] = ["--quiet", "--workspace", "--exclude=xtask", FEATURES];

/// `cargo test` for these crates.
pub(super) fn tests() -> Command {
    let mut tests = cargo(&["test"]);
    tests.args(CRATES);
    tests
}

/// Builds the programs that write and judge vectors, and returns the command of one of them.
///
/// Cargo gives dependencies the features that development dependencies ask for only where a test is among the targets. Without one, and
/// with one package alone, it would compile all dependencies once more.
pub(crate) fn vector_program(name: &str) -> Result<Command> {
    run(cargo(&["build"]).args(CRATES).args([
        "--bin=conformance",
        "--bin=exchange-vectors",
        "--test=kit",
    ]))?;
    let mut program = Command::new(crate::paths::target()?.join("debug").join(name));
    program.current_dir(crate::paths::root());
    Ok(program)
}

pub(crate) fn clippy() -> Result<Option<String>> {
    let deny = ["--quiet", "--", "-D", "warnings"];
    let workspace = ["clippy", "--workspace", "--all-targets", FEATURES];
    run(cargo(&workspace).args(deny))?;
    crate::needs::rust_target("wasm32-unknown-unknown")?;
    let browser = [
        "clippy",
        "--package=verifier-wasm",
        "--target=wasm32-unknown-unknown",
    ];
    run(cargo(&browser).args(deny))?;
    Ok(None)
}

pub(crate) fn test() -> Result<Option<String>> {
    // The engine's tests need the weights.
    let model = crate::paths::model()?;
    println!("{}", crate::model::fetch(None, &model)?);
    run(tests()
        .arg("--no-fail-fast")
        .env("CLEARSEAL_MODEL", &model)
        .env(skipped::VARIABLE, skipped::list()?))?;
    // This program has a separate profile, in which its dependencies are already built.
    run(&mut cargo(&[
        "test",
        "--quiet",
        "--package=xtask",
        "--profile=xtask",
    ]))?;
    Ok(None)
}

pub(crate) fn docs() -> Result<Option<String>> {
    run(cargo(&["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use crate::process::metadata;
    use serde_json::Value;
    use std::fs;
    use std::path::Path;

    fn list(value: &Value) -> &[Value] {
        value.as_array().map_or(&[], Vec::as_slice)
    }

    /// Cargo compiles only the targets that a manifest names where it states `autotests = false`.
    #[test]
    fn every_file_of_tests_is_a_module_or_a_target() {
        let metadata = metadata(&["--no-deps"]).unwrap();
        let mut joined = 0;
        for package in list(&metadata["packages"]) {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let folder = manifest.with_file_name("tests");
            let Ok(main) = fs::read_to_string(folder.join("main.rs")) else {
                continue;
            };
            joined += 1;
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                let Some(name) = name.strip_suffix(".rs") else {
                    continue;
                };
                let is_module = main.lines().any(|line| line == format!("mod {name};"));
                let is_target = list(&package["targets"])
                    .iter()
                    .any(|target| target["src_path"] == path.to_str().unwrap());
                assert!(
                    is_module || is_target,
                    "{} is not compiled; list it in main.rs next to it",
                    path.display()
                );
            }
        }
        assert!(joined > 0);
    }
}
