//! Suites over the Rust workspace. All of them share the dev profile, so that each crate is compiled once.

use crate::process::{cargo, metadata, run};
use crate::skipped;
use anyhow::{Context, Result};
use serde_json::Value;
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
    // The profile of the build, whose macros and build scripts are compiled once for both.
    let browser = [
        "clippy",
        "--package=verifier-wasm",
        "--target=wasm32-unknown-unknown",
        "--profile=wasm",
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
    let metadata = metadata(&["--no-deps"])?;
    let programs = documented_programs(&metadata);
    // With examples among the targets cargo selects the features that clippy and the tests have, and reads the metadata of
    // dependencies that clippy left.
    run(
        cargo(&["doc", "--quiet", "--workspace", "--no-deps", FEATURES])
            .args(["--lib", "--examples", "--bin=exchange-vectors"])
            .args(programs)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    Ok(None)
}

/// Options that name the programs that cargo documents where no target is named: neither those that share the folder of their pages
/// with a library, nor those that need a feature. (exchange-vectors needs one that the workspace's selection has.)
fn documented_programs(metadata: &Value) -> Vec<String> {
    let mut programs = Vec::new();
    for package in list(&metadata["packages"]) {
        let targets = list(&package["targets"]);
        let has_kind =
            |target: &Value, kind: &str| list(&target["kind"]).iter().any(|it| it == kind);
        let libraries: Vec<_> = targets
            .iter()
            .filter(|target| {
                ["lib", "cdylib", "proc-macro"]
                    .iter()
                    .any(|kind| has_kind(target, kind))
            })
            .map(|target| &target["name"])
            .collect();
        for target in targets {
            let name = target["name"].as_str().unwrap_or_default();
            let is_free = !libraries
                .iter()
                .any(|library| **library == name.replace('-', "_"));
            let needs_feature = !list(&target["required-features"]).is_empty();
            if has_kind(target, "bin") && is_free && !needs_feature {
                programs.push(format!("--bin={name}"));
            }
        }
    }
    programs
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::{documented_programs, list};
    use crate::process::metadata;
    use serde_json::json;
    use std::fs;
    use std::path::Path;

    #[test]
    fn programs_are_documented_unless_their_library_has_their_name() {
        let target = |kind: &str, name: &str| json!({"kind": [kind], "name": name});
        let packages = json!({"packages": [
            {"targets": [target("lib", "a_b"), target("bin", "a-b"), target("bin", "samples")]},
            {"targets": [target("bin", "alone"), target("test", "main")]},
            {"targets": [target("cdylib", "module"), target("bin", "module")]},
            {"targets": [{"kind": ["bin"], "name": "more", "required-features": ["samples"]}]},
        ]});
        assert_eq!(
            documented_programs(&packages),
            ["--bin=samples", "--bin=alone"]
        );
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
