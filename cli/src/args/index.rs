//! Arguments of `clearseal index`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::shared::{Outcome, PolicyFlags};

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Verify every row of an index with its proof, and that all rows have one model, prompt and dimension.
    ///
    /// Stops at the first row that is refused, and names it.
    ///
    /// Exit status: 0 if all rows are of one index and verified; 1 if a row differs or is refused, or the verdict is a lesser one that
    /// no flag accepts; 2 if a file cannot be read.
    Check(IndexCheckArgs),
    /// Embed the texts of an index again, and write new rows with new proofs to a folder; the old files are only read.
    ///
    /// Continues an interrupted run where the folder has one: no row is lost or written twice. `index` of a new row is that of the
    /// old one, or else the number of its line, starting at 0.
    ///
    /// Exit status: that of `embed`.
    Migrate(IndexMigrateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct IndexCheckArgs {
    /// Rows and proofs as `clearseal embed --proofs` writes them, JSON lines, in any number of files: each file has rows alone or
    /// proofs alone, and the proofs are in the order of the rows.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct IndexMigrateArgs {
    /// Rows of the index with `text`, JSON lines as written by `clearseal embed`.
    #[arg(value_name = "FILE")]
    pub(crate) rows: PathBuf,
    /// Folder for the new `vectors.jsonl` and `proofs.jsonl`; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Address of the service.
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "CLEARSEAL_URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Also send to a simulated enclave, for development (see `embed`).
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Number of texts in one request.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) batch: u16,
}
