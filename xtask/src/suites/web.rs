//! Suites over the npm packages.

use crate::process::{npm, run};
use crate::{needs, wasm};
use anyhow::{Result, ensure};

/// Bytes with gzip, which a visitor waits for.
const MAX_WASM_GZIP: usize = 250_000;

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
    Ok(None)
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
    run(&mut npm(&["test", "--workspaces", "--if-present"]))?;
    Ok(None)
}

fn build() -> Result<wasm::Size> {
    wasm::build(&wasm::Options { policy: None })
}
