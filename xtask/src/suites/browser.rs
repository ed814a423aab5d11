//! Playwright's tests: a real Chromium, the built page, and both servers as they ship.

use super::statically;
use crate::process::{npm, run};
use crate::{model, needs, page, paths, wasm};
use anyhow::Result;

pub(crate) fn test() -> Result<Option<String>> {
    if !paths::root().join("playwright/package.json").is_file() {
        return Ok(Some("there is no playwright/package.json".to_owned()));
    }
    needs::install_packages()?;
    needs::debian("chromium", "chromium")?;
    let folder = paths::model()?;
    model::fetch(None, &folder)?;
    wasm::build(&wasm::Options { policy: None })?;
    page::build_now()?;
    // The static binaries are built for their own suite anyway: a second build of the same would cost minutes.
    statically::build()?;
    run(npm(&["run", "test:browser", "--workspace=playwright"])
        .env("CLEARSEAL_BIN_DIR", statically::folder()?)
        .env("CLEARSEAL_MODEL", &folder))?;
    Ok(None)
}
