//! Arguments of `clearseal witness`, and of `clearseal verify witnessed`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::moment::Moment;

#[derive(Debug, Subcommand)]
pub(crate) enum WitnessCommand {
    /// Make the witness's key and its empty database, once. Prints the public key for policies.
    Init(WitnessArgs),
    /// Answer add-checkpoint on a local address, until a signal stops it.
    ///
    /// Refuses to start without the database that `init` made for this key: it may have cosigned a history that it no longer knows.
    Run(WitnessArgs),
    /// Print the kept proofs of second histories: for each log, two signed checkpoints of one size with different roots.
    ///
    /// JSON lines with `origin`, `first` and `second`. Stop the witness first: one process uses the database at a time.
    Forks(WitnessArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WitnessArgs {
    /// Configuration, TOML (see docs/WITNESS.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyWitnessedArgs {
    /// Checkpoint of a log, or the proof of an entry in one (c2sp.org/tlog-proof); `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Logs, witnesses and quorum (c2sp.org/tlog-policy).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// Record whose SHA-256 must be the entry that FILE proves.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Checkpoint from an earlier run: another root of the same size, or a smaller tree, is refused.
    #[arg(long, value_name = "FILE")]
    pub(crate) earlier: Option<PathBuf>,
    /// Largest age of the quorum's cosignatures at the time of --at, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub(crate) max_age: u64,
    /// Time at which to judge: `now` or an RFC 3339 time.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
