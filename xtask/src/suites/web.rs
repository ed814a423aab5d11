//! Suites over the npm packages.

use crate::process::{npm, run};
use crate::{needs, paths, skipped, wasm};
use anyhow::{Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Bytes with gzip, which a visitor waits for.
const MAX_WASM_GZIP: usize = 337_000;

pub(crate) fn wasm() -> Result<Option<String>> {
    needs::install_packages()?;
    needs::rust_target("wasm32-unknown-unknown")?;
    let size = build()?;
    println!("verifier: {size}");
    ensure!(
        size.gzip <= MAX_WASM_GZIP,
        "the verifier is {} bytes with gzip, its budget is {MAX_WASM_GZIP}; find what grew with `twiggy top`",
        size.gzip
    );
    names_no_folder_of_this_machine()?;
    Ok(None)
}

/// Else two people who build the same sources would get two modules.
fn names_no_folder_of_this_machine() -> Result<()> {
    let module = fs::read(wasm::module())?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    for folder in [Some(paths::root().to_owned()), home].into_iter().flatten() {
        let name = folder.as_os_str().as_encoded_bytes();
        ensure!(
            name.len() < 2 || !module.windows(name.len()).any(|bytes| bytes == name),
            "the verifier names {}; `strings` shows where",
            folder.display()
        );
    }
    Ok(())
}

pub(crate) fn biome() -> Result<Option<String>> {
    needs::install_packages()?;
    run(&mut npm(&[
        "exec",
        "--",
        "biome",
        "ci",
        "--error-on-warnings",
    ]))?;
    Ok(None)
}

pub(crate) fn types() -> Result<Option<String>> {
    needs::install_packages()?;
    // The packages' types include those that the verifier's build generates.
    build()?;
    for script in ["typecheck", "check"] {
        run(&mut npm(&["run", script, "--workspaces", "--if-present"]))?;
    }
    Ok(None)
}

pub(crate) fn test() -> Result<Option<String>> {
    needs::install_packages()?;
    build()?;
    run(npm(&["test", "--workspaces", "--if-present"])
        .env(super::go::VECTORS, super::go::write_vectors()?)
        .env(skipped::VARIABLE, skipped::list()?))?;
    // Key policies, judged a second time by a simulator that only npm has; the table of clients; downloads of models.
    run(Command::new("node")
        .args([
            "--test",
            "crates/key-policy/tests/simulator/simulator.test.mjs",
            "testing/clients/table.test.mjs",
            "xtask/hub.test.mjs",
        ])
        .current_dir(paths::root())
        .env(skipped::VARIABLE, skipped::list()?))?;
    Ok(None)
}

fn build() -> Result<wasm::Size> {
    wasm::build(&wasm::Options { policy: None })
}
