//! Completions and manual pages, both made from the command line's own description.

use crate::args::Cli;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    // Into memory first: the generator panics where standard output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "clearseal", &mut script);
    std::io::stdout()
        .lock()
        .write_all(&script)
        .context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn pages(folder: &Path) -> Result<ExitCode> {
    let what = || format!("cannot write to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(what)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(what)?;
    Ok(ExitCode::SUCCESS)
}
