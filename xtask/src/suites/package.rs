//! The Python package: its Rust is linted, the wheel is built, installed, type-checked and tested against real processes.

use crate::process::{cargo, run};
use crate::{model, paths, python, skipped, statics};
use anyhow::Result;
use std::process::Command;

pub(crate) fn test() -> Result<Option<String>> {
    let manifest = "--manifest-path=verifier-python/Cargo.toml";
    run(&mut cargo(&["fmt", manifest, "--check"]))?;
    let target = paths::target()?.join("python");
    // PyO3 needs no interpreter here: the package is built for the stable ABI. Macros and build scripts of this profile are used
    // again to build the package.
    run(cargo(&[
        "clippy",
        "--quiet",
        "--release",
        "--locked",
        manifest,
        "--",
        "-Dwarnings",
    ])
    .env("CARGO_TARGET_DIR", &target))?;
    let programs = match python::environment() {
        Ok(_) => python::package()?,
        Err(error) => return Ok(Some(format!("{error:#}"))),
    };
    let folder = paths::model()?;
    model::fetch(None, &folder)?;
    statics::build()?;
    let package = paths::root().join("verifier-python");
    let cache = target.join("mypy");
    run(Command::new(programs.join("mypy"))
        .args(["--strict", "python/clearseal", "tests", "--cache-dir"])
        .arg(cache)
        .current_dir(&package))?;
    run(Command::new(programs.join("python"))
        // Leave neither bytecode nor a cache in the repository.
        .args(["-B", "-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .current_dir(&package)
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env(super::go::VECTORS, super::go::write_vectors()?)
        .env("CLEARSEAL_MODEL", &folder)
        .env(skipped::VARIABLE, skipped::list()?))?;
    Ok(None)
}
