//! Programs as they ship: static, and without a trace of the folder that they were built in.
//!
//! The packages that are built together decide which features their dependencies have. Tests of processes, containers and
//! benchmarks use one selection, so that each crate is compiled once for all of them. Images have a separate selection:
//! their measurements must not depend on other packages of the same build. The suite `emulator` boots them.

use crate::process::{cargo, run};
use crate::{needs, paths};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-musl";

/// Program header type of a dynamic loader's path (System V ABI, PT_INTERP).
const INTERPRETER: u32 = 3;

/// Programs of an image.
pub(crate) const ENCLAVE: &[&str] = &["enclave-server", "enclave-init"];
/// Programs under test: both servers, the command line, the KMS simulator, the writer of the page's samples, the benchmarks.
const TESTED: &[&str] = &[
    "enclave-server",
    "host-proxy",
    "clearseal",
    "kms-simulator",
    "forge",
    "benchmarks",
];

/// Builds what is tested.
pub(crate) fn build() -> Result<()> {
    run(cargo_build(TESTED)?.args(["--quiet", "--features=forge/samples"]))
}

/// Builds packages together, in silence.
pub(crate) fn build_packages(names: &[&str]) -> Result<()> {
    run(cargo_build(names)?.arg("--quiet"))
}

/// Where they are left.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(target_folder()?.join(TARGET).join("release"))
}

fn target_folder() -> Result<PathBuf> {
    Ok(paths::target()?.join("static"))
}

/// Builds packages together; the result does not tell in which folder.
pub(crate) fn cargo_build(packages: &[&str]) -> Result<Command> {
    needs::rust_target(TARGET)?;
    // For the allocator, which is written in C.
    needs::debian("musl-gcc", "musl-tools")?;
    let mut command = cargo(&["build", "--locked", "--release", "--target", TARGET]);
    command.arg("--target-dir").arg(target_folder()?);
    command.args(
        packages
            .iter()
            .map(|package| format!("--package={package}")),
    );
    let (cargo_home, root) = (cargo_home()?, paths::root());
    let flags = [remap(&cargo_home, "/cargo"), remap(root, "/clearseal")];
    // 0x1f: cargo's own separator, since a folder's name may hold spaces.
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    command.env_remove("RUSTFLAGS");
    // The allocator's C holds the time of its compilation, unless the compiler is told another.
    command.env("SOURCE_DATE_EPOCH", "1");
    let c_flags = c_flags(&cargo_home, root);
    if c_flags.contains('\'') {
        command.env("CC_SHELL_ESCAPED_FLAGS", "1");
    }
    command.env("CFLAGS", c_flags);
    Ok(command)
}

fn remap(folder: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", folder.display())
}

/// Flags for the compiler of C, which names files too. Folders with spaces are quoted as a shell quotes them.
fn c_flags(cargo_home: &Path, root: &Path) -> String {
    let flag = |(folder, to): (&Path, &str)| {
        let flag = format!("-ffile-prefix-map={}={to}", folder.display());
        match flag.contains([' ', '\t', '\'', '"', '\\']) {
            true => format!("'{}'", flag.replace('\'', r"'\''")),
            false => flag,
        }
    };
    [(cargo_home, "/cargo"), (root, "/clearseal")]
        .map(flag)
        .join(" ")
}

fn cargo_home() -> Result<PathBuf> {
    match std::env::var_os("CARGO_HOME") {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(std::env::home_dir()
            .context("neither HOME nor CARGO_HOME is set")?
            .join(".cargo")),
    }
}

/// Refuses a program that asks for a dynamic loader; returns its size.
pub(crate) fn check(program: &Path) -> Result<usize> {
    let bytes =
        std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let dynamic = has_interpreter(&bytes)
        .with_context(|| format!("{} is not a program", program.display()))?;
    ensure!(
        !dynamic,
        "{} asks for a dynamic loader; some dependency links a shared library",
        program.display()
    );
    Ok(bytes.len())
}

/// Whether a 64-bit little-endian ELF file names a dynamic loader.
fn has_interpreter(elf: &[u8]) -> Result<bool> {
    ensure!(
        elf.starts_with(b"\x7fELF\x02\x01"),
        "not a 64-bit little-endian ELF file"
    );
    let number = |at: usize, size: usize| -> Result<usize> {
        let bytes = at
            .checked_add(size)
            .and_then(|end| elf.get(at..end))
            .context("the ELF file is cut short")?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | usize::from(*byte)))
    };
    let (table, entry_size, entries) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    if entries == 0 {
        bail!("the ELF file has no program headers");
    }
    for index in 0..entries {
        let at = index
            .checked_mul(entry_size)
            .and_then(|offset| offset.checked_add(table));
        if number(at.context("the ELF file is malformed")?, 4)? == INTERPRETER as usize {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::{c_flags, has_interpreter};
    use std::path::Path;

    #[test]
    fn folders_with_spaces_stay_one_flag() {
        let flags = |root| c_flags(Path::new("/home/.cargo"), Path::new(root));
        let home = "-ffile-prefix-map=/home/.cargo=/cargo";
        assert_eq!(
            flags("/clone"),
            format!("{home} -ffile-prefix-map=/clone=/clearseal")
        );
        assert_eq!(
            flags("/my clone's"),
            format!(r"{home} '-ffile-prefix-map=/my clone'\''s=/clearseal'")
        );
    }

    #[test]
    fn a_dynamic_program_is_recognised() {
        // This test is one, wherever it runs with glibc.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(has_interpreter(&own).unwrap(), cfg!(target_env = "gnu"));
        assert!(has_interpreter(&own[..40]).is_err());
        assert!(has_interpreter(b"#!/bin/sh").is_err());
    }
}
