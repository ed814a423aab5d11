//! The Go client: vetted and formatted, judged by the conformance kit and by vectors of others, and run against real processes.

use crate::process::run;
use crate::{model, needs, paths, skipped, statics};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variable that names the folder of [`write_vectors`] to the tests.
pub(super) const VECTORS: &str = "CLEARSEAL_KIT";

/// First version with `crypto/hpke`.
const OLDEST: (u32, u32) = (1, 26);

pub(crate) fn test() -> Result<Option<String>> {
    let folder = paths::root().join("clients/go");
    let root = needs::output(program()?, &["env", "GOROOT"])?;
    let unformatted = Command::new(Path::new(&root).join("bin/gofmt"))
        .args(["-l", "."])
        .current_dir(&folder)
        .output()
        .context("cannot run gofmt")?;
    ensure!(
        unformatted.status.success() && unformatted.stdout.is_empty(),
        "gofmt would change:\n{}",
        String::from_utf8_lossy(&unformatted.stdout)
    );
    run(go()?.args(["vet", "./..."]).current_dir(&folder))?;
    let kit = write_vectors()?;
    let model = paths::model()?;
    model::fetch(None, &model)?;
    statics::build()?;
    let mut tests = go()?;
    tests
        .args(["test", "-count=1", "./..."])
        .current_dir(&folder)
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env(VECTORS, kit)
        .env("CLEARSEAL_MODEL", &model)
        .env(skipped::VARIABLE, skipped::list()?);
    let vectors = super::need::vectors_folder();
    if vectors.is_dir() {
        tests.env("CLEARSEAL_VECTORS", vectors);
    }
    run(&mut tests)?;
    Ok(None)
}

/// Writes the vectors that all implementations are judged by, and returns their folder.
pub(super) fn write_vectors() -> Result<PathBuf> {
    let folder = paths::target()?.join("conformance");
    run(super::rust::vector_program("conformance")?
        .arg("write")
        .arg(&folder))?;
    run(super::rust::vector_program("exchange-vectors")?.arg(&folder))?;
    Ok(folder)
}

/// Whether Go is there, in a version that has what the client needs.
pub(crate) fn is_provided() -> Result<()> {
    let program = program()?;
    let version = needs::output(program, &["env", "GOVERSION"])?;
    ensure!(
        parse(&version).is_some_and(|found| found >= OLDEST),
        "{version} is too old for clients/go; install Go {}.{} or newer",
        OLDEST.0,
        OLDEST.1
    );
    Ok(())
}

/// Go without C, and of the version that is installed.
fn go() -> Result<Command> {
    let mut command = Command::new(program()?);
    command.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
    Ok(command)
}

/// From the path, or where Go's archive is unpacked.
fn program() -> Result<&'static str> {
    const UNPACKED: &str = "/usr/local/go/bin/go";
    if needs::find("go").is_some() {
        return Ok("go");
    }
    if Path::new(UNPACKED).is_file() {
        return Ok(UNPACKED);
    }
    bail!("Go is missing; install Go 1.26 or newer (https://go.dev/dl)")
}

/// `go1.26.8`, `go1.27rc1`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version
        .strip_prefix("go")?
        .split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{OLDEST, parse};

    #[test]
    fn versions_of_go_are_compared() {
        for (version, new) in [
            ("go1.26.8", true),
            ("go1.27rc1", true),
            ("go2.0", true),
            ("go1.25.9", false),
            ("devel", false),
        ] {
            assert_eq!(
                parse(version).is_some_and(|it| it >= OLDEST),
                new,
                "{version}"
            );
        }
    }
}
