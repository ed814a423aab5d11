//! Replicas behind HAProxy, every kind of client, and jobs over them, in real processes.

use crate::process::run;
use crate::{model, needs, paths, python, skipped, statics, wasm};
use anyhow::Result;
use std::path::Path;
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
    let python = match python::environment() {
        Ok(_) => Some(python::package()?.join("python")),
        Err(_) => {
            skipped::note(
                "fleet::python, fleet::jobs",
                "no Python with packages of its registry",
            )?;
            None
        }
    };
    let programs = |program: &Path| -> Result<Command> {
        let mut command = Command::new(program);
        command
            .current_dir(paths::root())
            .env("CLEARSEAL_BIN_DIR", statics::folder()?)
            .env("CLEARSEAL_MODEL", &folder);
        Ok(command)
    };
    run(programs(Path::new("node"))?
        .args([
            "--test",
            "testing/fleet/ledger.test.mjs",
            "testing/fleet/fleet.test.mjs",
        ])
        .envs(python.iter().map(|path| ("CLEARSEAL_PYTHON", path))))?;
    if let Some(python) = python {
        run(programs(&python)?
            .args(["-B", "examples/ray/check.py"])
            .args(["--rows=1500", "--block-rows=100"]))?;
    }
    Ok(None)
}
