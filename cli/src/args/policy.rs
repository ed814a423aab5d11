//! Arguments of `clearseal policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::moment::Moment;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Explain a trust policy: the releases that it accepts, when they end, and points that its owner should review.
    ///
    /// Exit status: 0 if the policy accepts a release; 1 if FILE is not a policy, or accepts nothing at that time; 2 if FILE cannot
    /// be read.
    Check(PolicyCheckArgs),
    /// Print the policy of a KMS key that gives a model's key only to accepted releases (see docs/KEY-RELEASE.md).
    Kms(PolicyKmsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyKmsArgs {
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// Also accept an EC2 instance with these measurements, JSON as printed by `nitro-tpm-pcr-compute`; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance: Vec<PathBuf>,
    /// Role of the enclave's parent and of accepted instances; may decrypt, for attested code only.
    #[arg(long, value_name = "ARN")]
    pub(crate) role: String,
    /// Role that generates data keys to seal models with.
    #[arg(long, value_name = "ARN")]
    pub(crate) sealer: Option<String>,
    /// Role that can describe and delete the key, but cannot change its policy.
    #[arg(long, value_name = "ARN")]
    pub(crate) keeper: Option<String>,
    /// Time at which to decide whether a release has ended: `now` or an RFC 3339 time.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyCheckArgs {
    /// Trust policy, JSON (see docs/POLICY.md); `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Time for which to explain the policy: `now` or an RFC 3339 time.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Print the explanation as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
