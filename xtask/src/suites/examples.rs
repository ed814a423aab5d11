//! The examples of `examples/` and README, as they are printed, with the official clients of the registries.

use crate::process::{npm, run};
use crate::{model, needs, paths, python, skipped, statics, wasm};
use anyhow::Result;

pub(crate) fn test() -> Result<Option<String>> {
    needs::install_packages()?;
    for program in ["curl", "jq"] {
        needs::debian(program, program)?;
    }
    let folder = paths::model()?;
    model::fetch(None, &folder)?;
    wasm::build(&wasm::Options { policy: None })?;
    statics::build()?;
    let mut tests = npm(&["run", "test:examples", "--workspace=playwright"]);
    tests
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env("CLEARSEAL_MODEL", &folder)
        .env(skipped::VARIABLE, skipped::list()?);
    // Without one, the reason was printed at the start.
    if python::environment().is_ok() {
        tests.env("CLEARSEAL_PYTHON", python::package()?);
    }
    run(&mut tests)?;
    Ok(None)
}
