//! Replicas behind HAProxy, every kind of client, and jobs over them, in real processes.

use crate::process::run;
use crate::{model, needs, paths, python, skipped, statics, wasm};
use anyhow::Result;
use std::process::Command;

pub(crate) fn test() -> Result<Option<String>> {
    if needs::debian("haproxy", "haproxy").is_err() {
        return Ok(Some("no haproxy".to_owned()));
    }
    needs::install_packages()?;
    let folder = paths::model()?;
    model::fetch(None, &folder)?;
    wasm::build(&wasm::Options { policy: None })?;
    statics::build()?;
    run(Command::new("node")
        .args(["--test", "fleet/ledger.test.mjs", "fleet/fleet.test.mjs"])
        .current_dir(paths::root())
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env("CLEARSEAL_MODEL", &folder))?;
    if python::environment().is_err() {
        skipped::note("fleet::jobs", "no Python with packages of its registry")?;
        return Ok(None);
    }
    run(Command::new(python::package()?.join("python"))
        .args(["-B", "examples/ray/check.py"])
        .args(["--rows=1500", "--block-rows=100"])
        .current_dir(paths::root())
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env("CLEARSEAL_MODEL", &folder))?;
    Ok(None)
}
