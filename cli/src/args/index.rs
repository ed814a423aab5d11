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
    /// Create a private index in an enclave, and a key for it that only this file holds (see docs/INDEX.md).
    Create(IndexCreateArgs),
    /// Put rows into a private index: JSON lines with `text` or `vector`, and optional `id` and `metadata`.
    ///
    /// `id` is the number of the line, starting at 0, where a line has none. A row replaces the one of the same id, so a run may be repeated.
    Add(IndexAddArgs),
    /// Find the most similar rows of a private index, and write a JSON line for each, the best first.
    Query(IndexQueryArgs),
    /// Describe a private index.
    Info(IndexServiceArgs),
    /// Remove what is left of replaced and deleted rows from the stored form of a private index.
    Compact(IndexServiceArgs),
    /// Delete rows of a private index.
    DeleteRows(IndexDeleteRowsArgs),
    /// Delete a private index, and then the file of its key.
    Purge(IndexServiceArgs),
}

/// A private index and the service that opens it.
#[derive(Debug, Args)]
pub(crate) struct IndexServiceArgs {
    /// File of the index key, as `index create` makes it. The newest head that this program has seen is kept next to it, in FILE.heads:
    /// with it, an older index is noticed.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// Keep the newest head in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Address of the service.
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "CLEARSEAL_URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Also send to a simulated enclave, for development (see `embed`).
    #[arg(long)]
    pub(crate) accept_simulated: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IndexCreateArgs {
    #[command(flatten)]
    pub(crate) service: IndexServiceArgs,
    /// Name of the model [default: the attested one].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Numbers of a stored vector [default: all of the model's].
    #[arg(long, value_name = "N")]
    pub(crate) dimensions: Option<u32>,
    /// Form of stored vectors: f32, f16 or int8.
    #[arg(long, value_name = "FORM", default_value = "f32")]
    pub(crate) precision: String,
    /// Name of the model's prompt for rows.
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt_name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct IndexAddArgs {
    #[command(flatten)]
    pub(crate) service: IndexServiceArgs,
    /// File of rows, JSON lines; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub(crate) rows: PathBuf,
    /// Number of rows in one change.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub(crate) batch: u16,
    /// Keep the number of stored lines in this file, and continue after them in the next run.
    #[arg(long, value_name = "FILE")]
    pub(crate) progress: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct IndexQueryArgs {
    #[command(flatten)]
    pub(crate) service: IndexServiceArgs,
    /// Text to search for.
    #[arg(value_name = "TEXT")]
    pub(crate) query: String,
    /// Number of results.
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) k: u32,
    /// Condition on the metadata, JSON, such as '{"field": "year", "gte": 2020}'.
    #[arg(long, value_name = "JSON")]
    pub(crate) filter: Option<String>,
    /// Name of the model's prompt for the query [default: that of the index].
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt_name: Option<String>,
    /// Write the answer with proofs and receipt to this file, JSON: it shows without the key which rows were the best ones (see `verify
    /// answer`).
    #[arg(long, value_name = "FILE")]
    pub(crate) answer: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct IndexDeleteRowsArgs {
    #[command(flatten)]
    pub(crate) service: IndexServiceArgs,
    /// Ids of the rows.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
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
