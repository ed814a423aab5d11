//! Replicas behind HAProxy, every kind of client, and jobs over them, in real processes.

use crate::process::run;
use crate::{model, needs, paths, python, statics, wasm};
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
    // Why there is none was said at the start.
    if python::environment().is_ok() {
        run(Command::new(python::package()?.join("python"))
            .args(["-B", "examples/ray/check.py", "--rows=1500"])
            .args(["--block-rows=100"])
            .current_dir(paths::root())
            .env("CLEARSEAL_BIN_DIR", statics::folder()?)
            .env("CLEARSEAL_MODEL", &folder))?;
    }
    Ok(None)
}
