//! Replicas behind HAProxy, and every kind of client, in real processes.

use crate::process::run;
use crate::{model, needs, paths, statics, wasm};
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
    Ok(None)
}
