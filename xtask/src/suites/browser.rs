//! Playwright's tests: a real Chromium, the built page, and both servers as they ship.

use super::statically;
use crate::process::{npm, run};
use crate::{model, needs, page, paths, skipped, wasm};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

pub(crate) fn test() -> Result<Option<String>> {
    if !paths::root().join("playwright/package.json").is_file() {
        return Ok(Some("there is no playwright/package.json".to_owned()));
    }
    needs::install_packages()?;
    needs::debian("chromium", "chromium")?;
    let folder = paths::model()?;
    model::fetch(None, &folder)?;
    wasm::build(&wasm::Options { policy: None })?;
    // The static binaries are built for their own suite anyway: a second build of the same would cost minutes.
    statically::build()?;
    page::build_now(Some(statically::TARGET))?;
    let production = production_page()?;
    run(npm(&["run", "test:browser", "--workspace=playwright"])
        .env("CLEARSEAL_BIN_DIR", statically::folder()?)
        .env("CLEARSEAL_PRODUCTION_WEB", production)
        .env("CLEARSEAL_MODEL", &folder)
        .env(skipped::VARIABLE, skipped::list()?))?;
    Ok(None)
}

/// A second page, whose verifier carries a production policy: it has to refuse what the usual one calls simulated. Built
/// only when the usual page has changed, because it takes linking the verifier twice.
fn production_page() -> Result<PathBuf> {
    let out = paths::target()?.join("clearseal/production-web");
    let stamp = paths::target()?.join("clearseal/production-web.sha256");
    let state = page::state()?;
    if out.join("index.html").is_file() && fs::read_to_string(&stamp).is_ok_and(|it| it == state) {
        return Ok(out);
    }
    let policy = paths::root().join("playwright/fixtures/production-policy.json");
    wasm::build(&wasm::Options {
        policy: Some(policy),
    })?;
    let built = run(
        npm(&["run", "build", "--workspace=web", "--", "--emptyOutDir"])
            .arg("--outDir")
            .arg(&out),
    );
    // The package that everything else uses carries no policy, whatever came of the page.
    wasm::build(&wasm::Options { policy: None })?;
    built?;
    fs::write(&stamp, state).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(out)
}
