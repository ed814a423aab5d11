//! Playwright's tests: a real Chromium, the built page, and both servers as they ship.

use crate::process::{npm, run};
use crate::{model, needs, page, paths, skipped, statics, wasm};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn test() -> Result<Option<String>> {
    needs::debian("chromium", "chromium")?;
    needs::debian("haproxy", "haproxy")?;
    let mut tests = prepared("test:browser")?;
    let (production, distant) = (production_page()?, distant_page()?);
    run(tests
        .env("CLEARSEAL_PRODUCTION_WEB", production)
        .env("CLEARSEAL_DISTANT_WEB", distant)
        .env("CLEARSEAL_DISTANT_SERVICE", DISTANT_SERVICE))?;
    Ok(None)
}

/// How fast the page is there, in processor time scaled to one machine, over a network that is slowed down.
pub(crate) fn speed() -> Result<Option<String>> {
    needs::debian("chromium", "chromium")?;
    run(&mut prepared("test:speed")?)?;
    Ok(None)
}

/// The few tests that show that the page works in Firefox too.
pub(crate) fn firefox() -> Result<Option<String>> {
    run(&mut prepared("test:firefox")?)?;
    Ok(None)
}

/// The same few in WebKitGTK, whose engine is Safari's.
pub(crate) fn webkit() -> Result<Option<String>> {
    run(&mut prepared("test:webkit")?)?;
    Ok(None)
}

/// Page and servers are built; the command runs the tests of one script.
fn prepared(script: &str) -> Result<Command> {
    needs::install_packages()?;
    let folder = paths::model()?;
    model::fetch(None, &folder)?;
    wasm::build(&wasm::Options { policy: None })?;
    // The static binaries are built for their own suite anyway: a second build of the same would cost minutes.
    statics::build()?;
    page::build_now(page::Programs::Static)?;
    let mut tests = npm(&["run", script, "--workspace=playwright"]);
    tests
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env("CLEARSEAL_MODEL", &folder)
        .env(skipped::VARIABLE, skipped::list()?);
    Ok(tests)
}

/// A second page, whose verifier carries a production policy: it has to refuse what the usual one calls simulated.
fn production_page() -> Result<PathBuf> {
    let policy = paths::root().join("playwright/fixtures/production-policy.json");
    another_page("production-web", None, Some(policy))
}

/// A third page, whose service is of another origin than its own.
fn distant_page() -> Result<PathBuf> {
    another_page("distant-web", Some(DISTANT_SERVICE), None)
}

/// Origin that the distant page is built for; the test's browser resolves its host to the test's port.
const DISTANT_SERVICE: &str = "http://service.clearseal.test";

/// Builds a page of other options than the usual one, and only when that one has changed: a policy takes linking the
/// verifier twice.
fn another_page(name: &str, service: Option<&str>, policy: Option<PathBuf>) -> Result<PathBuf> {
    let folder = paths::target()?.join("clearseal");
    let out = folder.join(name);
    let stamp = folder.join(format!("{name}.sha256"));
    let state = page::state()?;
    if page::is_current(&out, &stamp, &state)? {
        return Ok(out);
    }
    page::build_into(&page::Options {
        out: out.clone(),
        service: service.map(str::to_owned),
        policy,
        release: None,
    })?;
    fs::write(&stamp, state).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(out)
}
