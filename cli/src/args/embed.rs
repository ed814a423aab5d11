//! Arguments of `clearseal embed`.

use std::path::PathBuf;

use clap::Args;

use super::shared::PolicyFlags;
use crate::embed::EmptyLines;

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// Address of the service.
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "CLEARSEAL_URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Also send to a simulated enclave, for development. Without --policy, the service's development policy judges it. The operator
    /// of a simulated enclave can read everything that is sent to it.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Output format. `npy` contains only the vectors and is written at the end; `parquet` cannot be read before the command ends. A line
    /// that the service refuses is left out if the rows contain `index`; otherwise it ends the command.
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: Format,
    /// Fields of each row, in this order [default: all].
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FIELD,...")]
    pub(crate) fields: Option<Vec<Field>>,
    /// Send all lines over one attested channel; faster for many lines. Sends the next batch without waiting for the answer to the
    /// last one, and reconnects after a failure without losing or repeating a line. Where a proxy in between drops the field `upgrade`,
    /// continues in sealed requests.
    #[arg(long)]
    pub(crate) bulk: bool,
    /// Number of verified enclaves behind the address to seal each request to; one that has capacity answers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8), conflicts_with = "bulk")]
    pub(crate) candidates: u8,
    /// Number of lines in one request.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) batch: u16,
    /// Effect of a line that is empty or holds only spaces. Such a line is not sent; later lines keep their numbers.
    #[arg(long, value_enum, default_value = "omit")]
    pub(crate) empty: EmptyLines,
    /// Write the audit bundle of each batch to this file, JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipts: Option<PathBuf>,
    /// Write a proof of each row to this file, JSON lines: it shows that the vector was computed from the text (see `verify vector`).
    #[arg(long, value_name = "FILE")]
    pub(crate) proofs: Option<PathBuf>,
}

/// Output format of `embed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// JSON lines: one object per row.
    Jsonl,
    /// CSV (RFC 4180) with a header; one column per component of the vector.
    Csv,
    /// NumPy array: float32, one row per line.
    Npy,
    /// Apache Parquet: one column per field, the vector as a list of floats.
    Parquet,
}

/// A member or column of the output of `embed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Field {
    /// Number of the line in the input, starting at 0.
    Index,
    /// Text of the line.
    Text,
    /// Number of tokens that the model read.
    Tokens,
    /// Whether the line exceeds the model's limit.
    Truncated,
    /// Vector of the line.
    Embedding,
}
