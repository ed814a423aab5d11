//! `cargo xtask tidy`: what a machine can put right.

use crate::process::{cargo, npm, run};
use anyhow::Result;

/// Format everything and apply the linters' safe corrections
#[derive(clap::Args)]
pub(crate) struct Options {}

/// Runs the verb.
pub(crate) fn run_all(_: &Options) -> Result<()> {
    crate::needs::install_packages()?;
    run(&mut cargo(&["fmt", "--all"]))?;
    run(&mut npm(&["exec", "--", "biome", "check", "--write"]))
}
