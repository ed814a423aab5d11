//! `cargo xtask conformance`, which `npm run conformance` runs: the kit written, and verifiers judged by it.

use crate::{paths, process, suites};
use anyhow::Result;
use std::path::PathBuf;

/// Write the conformance kit and judge a verifier by it
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder for the kit [default: target/conformance]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Judge this adapter, as one would type it [default: this project's own verifier]
    #[arg(long, value_name = "COMMAND", conflicts_with = "peers")]
    command: Option<String>,
    /// Install the public verifiers, judge them too, and write docs/CONFORMANCE.md
    #[arg(long)]
    peers: bool,
    /// Of the public verifiers judge only this one; may be given more than once
    #[arg(long, value_name = "NAME", requires = "peers")]
    only: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    let out = match &options.out {
        Some(folder) => folder.clone(),
        None => paths::target()?.join("conformance"),
    };
    let program = || suites::vector_program("conformance");
    process::run(program()?.arg("write").arg(&out))?;
    if options.peers {
        let page = paths::root().join("docs/CONFORMANCE.md");
        let mut judge = program()?;
        judge.arg("peers").arg(page);
        for name in &options.only {
            judge.arg("--only").arg(name);
        }
        return process::run(&mut judge);
    }
    let mut judge = program()?;
    judge.args(["judge", "--verbose", "--kit"]).arg(&out);
    if let Some(command) = &options.command {
        judge.arg("--command").arg(command);
    }
    process::run(&mut judge)
}
