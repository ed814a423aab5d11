//! Arguments that several commands share.

use std::path::PathBuf;

use clap::Args;

use crate::render::Accepted;

/// Revocation lists of a check.
#[derive(Debug, Args)]
pub(crate) struct Crls {
    /// Certificate revocation list of an issuer in the chain, DER or PEM; may be repeated. Without one, revocation is not checked;
    /// a policy can refuse that.
    #[arg(long = "crl", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Format of a report, and the verdicts that end with status 0.
#[derive(Debug, Args)]
pub(crate) struct Outcome {
    /// Also exit with 0 on the verdict `simulated`. A development root proves nothing about hardware.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Outcome {
    pub(crate) fn accepted(&self) -> Accepted {
        Accepted {
            simulated: self.accept_simulated,
            authentic: false,
        }
    }
}

/// Sources of the trust policy, for commands that send requests.
#[derive(Debug, Args)]
pub(crate) struct PolicyFlags {
    /// Trust policy, JSON (see docs/POLICY.md). Nothing is sent to an enclave that the policy does not accept. A change of the file
    /// takes effect within two seconds; `proxy` reads it immediately on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Address of a trust policy that its publisher signs with minisign; the signature is at URL.minisig. Fetched again every
    /// --policy-every seconds: a release that a later policy does not accept is no longer used. An older policy is refused.
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "policy",
        requires = "policy_key"
    )]
    pub(crate) policy_url: Option<String>,
    /// Publisher's minisign public key: a file, or the second line of that file (`RW…`).
    #[arg(long, value_name = "KEY", requires = "policy_url")]
    pub(crate) policy_key: Option<PathBuf>,
    /// File that records the highest sequence number of a signed policy. Without it, an older policy that has not ended is accepted
    /// after a restart.
    #[arg(long, value_name = "FILE", requires = "policy_url")]
    pub(crate) policy_state: Option<PathBuf>,
    /// Interval at which to fetch the signed policy, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400), requires = "policy_url")]
    pub(crate) policy_every: u32,
}
