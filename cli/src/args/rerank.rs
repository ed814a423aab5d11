//! Arguments of `clearseal rerank`.

use std::path::PathBuf;

use clap::Args;

use super::shared::PolicyFlags;

#[derive(Debug, Args)]
pub(crate) struct RerankArgs {
    /// Text to score the lines for.
    #[arg(long, value_name = "TEXT")]
    pub(crate) query: String,
    /// Address of the service.
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "CLEARSEAL_URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Also send to a simulated enclave, for development. Without --policy, the service's development policy judges it. The operator
    /// of a simulated enclave can read everything that is sent to it.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Name of the model, where the service holds several [default: the attested one].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Number of lines to write, the best ones [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top_n: Option<u16>,
    /// Write the audit bundle of the answer to this file, JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// Write a proof of each row to this file, JSON lines: it shows that the score was computed from query and line (see `verify
    /// vector`).
    #[arg(long, value_name = "FILE")]
    pub(crate) proofs: Option<PathBuf>,
}
