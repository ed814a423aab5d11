//! Running other programs.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::net::TcpListener;
use std::process::Command;

/// A cargo command in the workspace's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::paths::cargo());
    command.args(arguments).current_dir(crate::paths::root());
    // Variables that `cargo run` sets for us must not reach the packages that we build: cargo would rebuild them.
    for variable in [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_PKG_NAME",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Returns the output of `cargo metadata` for the workspace.
pub(crate) fn metadata(arguments: &[&str]) -> Result<Value> {
    let mut command = cargo(&["metadata", "--format-version=1"]);
    let output = command
        .args(arguments)
        .output()
        .context("cannot run `cargo metadata`")?;
    ensure!(
        output.status.success(),
        "`{}` failed:\n{}",
        describe(&command),
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")
}

/// An npm command in the workspace's root.
pub(crate) fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(crate::paths::root());
    command
}

/// Runs to the end, output passed through; anything but success is an error that names the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// A loopback port that nothing listens on yet.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The command as one would type it.
pub(crate) fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| {
            let word = word.to_string_lossy();
            match word.rsplit_once('/') {
                Some((_, name)) if word.ends_with("/cargo") => name.to_owned(),
                _ => word.into_owned(),
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}
