//! Arguments of `clearseal release`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::moment::Moment;

#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    /// Verify that the publisher currently vouches for a release, and that the image and the page match it.
    ///
    /// Exit status: 0 if it is genuine; 1 if it is refused; 2 if the check could not be made.
    Verify(ReleaseVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseVerifyArgs {
    /// Release manifest.
    pub(crate) manifest: PathBuf,
    /// Publisher's minisign public key: a file, or the second line of that file (`RW…`).
    #[arg(long, value_name = "KEY")]
    pub(crate) key: PathBuf,
    /// Signature of the manifest [default: MANIFEST.minisig].
    #[arg(long, value_name = "FILE")]
    pub(crate) signature: Option<PathBuf>,
    /// Compare this enclave image with the release.
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,
    /// Compare every file of the page that this service serves with the release.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Time at which to verify the release: `now` or an RFC 3339 time.
    #[arg(long, value_name = "AT", default_value = "now")]
    pub(crate) at: Moment,
    /// Accept a signature that is older than seven days. A withdrawn release looks the same.
    #[arg(long)]
    pub(crate) accept_old: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
