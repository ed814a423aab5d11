//! Arguments of `clearseal inspect` and `clearseal verify`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::shared::{Crls, Outcome};
use super::witness::VerifyWitnessedArgs;
use crate::moment::Moment;

#[derive(Debug, Subcommand)]
pub(crate) enum InspectCommand {
    /// Run checks 1 to 21 on an attestation document, and show its contents.
    ///
    /// Reports debug mode. Does not judge the image.
    Attestation(InspectArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Attestation document, or evidence as returned by `GET /v1/attestation`; raw, base64 or hex; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Time at which to judge certificates: `now`, `document` (the document's timestamp) or an RFC 3339 time.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Trust this root certificate instead of AWS's; DER or PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) crls: Crls,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VerifyCommand {
    /// Run all checks on an attestation document, against a trust policy.
    Attestation(VerifyAttestationArgs),
    /// Verify a receipt: its format, signature and claims, and the trust policy if one is given.
    Receipt(VerifyReceiptArgs),
    /// Verify an audit bundle: the attestation and the receipt as one chain, at the time of the receipt.
    Bundle(VerifyBundleArgs),
    /// Verify the answer of a private index: attestation and receipt, that the receipt commits to the answer, and that each of its rows
    /// is in the index. Reads the file that `index query --answer` wrote.
    Answer(VerifyBundleArgs),
    /// Verify that a receipt is in the signed tree of a transparency log, and that two tree heads belong to one history.
    Log(VerifyLogArgs),
    /// Verify that hosts publish the log of a client's keys, and give the same keys to an unknown client.
    Keys(VerifyKeysArgs),
    /// Verify that each vector was computed from its text, by the model and in the image that its receipt names.
    ///
    /// Reads the proofs that `clearseal embed --proofs` wrote, and the rows of the same run in the same order. To verify a single
    /// row, give its line of VECTORS, and two lines of PROOFS: the row's own line and the nearest line of evidence before it.
    Vector(VerifyVectorArgs),
    /// Verify that a KMS key policy lets only accepted releases in an enclave decrypt.
    ///
    /// Generates every kind of request that must fail (see docs/KEY-RELEASE.md), and refuses a policy that may let one succeed.
    ///
    /// Exit status: 0 if no statement allows such a request; 1 if a statement may allow one or is not understood; 2 if a file
    /// cannot be read.
    KmsPolicy(VerifyKmsPolicyArgs),
    /// Verify offline that enough witnesses cosigned a log's checkpoint, and that a record is in it.
    ///
    /// Exit status: 0 if a log of the policy signed the checkpoint and a quorum cosigned it recently; 1 if not, or if the record is
    /// not in it; 2 if a file cannot be read.
    Witnessed(VerifyWitnessedArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyVectorArgs {
    /// Proofs that `clearseal embed --proofs` wrote, JSON lines; `-` reads standard input.
    pub(crate) proofs: PathBuf,
    /// Rows with `text` and `embedding`, JSON lines as written by `clearseal embed`.
    pub(crate) vectors: PathBuf,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyKmsPolicyArgs {
    /// Key policy, JSON, or the output of `aws kms get-key-policy`; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// Also accept an EC2 instance with these measurements, JSON as printed by `nitro-tpm-pcr-compute`; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance: Vec<PathBuf>,
    /// ARN of the key, for statements that name it instead of `*`.
    #[arg(long, value_name = "ARN")]
    pub(crate) key_arn: Option<String>,
    /// Time at which to decide whether a release has ended: `now` or an RFC 3339 time.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyAttestationArgs {
    /// Attestation document, or evidence as returned by `GET /v1/attestation`; raw, base64 or hex; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// Service manifest that the document must bind; not needed if FILE is evidence, which contains the manifest.
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Nonce that the document must contain. Without it the verdict is at most `authentic`, because the document may be old.
    #[arg(long, value_name = "HEX")]
    pub(crate) nonce: Option<String>,
    /// Time at which to run all checks: `now`, `document` (the document's timestamp) or an RFC 3339 time.
    #[arg(long, default_value = "now")]
    pub(crate) at: Moment,
    /// Also exit with 0 on the verdict `authentic`: the policy accepts the image, but nothing proves that the document is fresh
    /// or which keys it binds.
    #[arg(long)]
    pub(crate) accept_authentic: bool,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyReceiptArgs {
    /// Receipt (raw, hex, base64 or base64url) or audit bundle (JSON); `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Ed25519 receipt key that you obtained in another way; the verdict is then at most `signed`.
    #[arg(long, value_name = "HEX", conflicts_with = "bundle")]
    pub(crate) key: Option<String>,
    /// Nonce that the receipt must contain; needs --key.
    #[arg(long, value_name = "HEX", requires = "key")]
    pub(crate) nonce: Option<String>,
    /// Maximum age of the receipt at the time of --at, in seconds; used with --key.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(crate) max_age: u64,
    /// Audit bundle that contains the attestation of the receipt's key.
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Trust policy, JSON. Without one, the image behind the key is not judged.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Time at which to run all checks: `now`, `document` (the time of the receipt) or an RFC 3339 time.
    #[arg(long, default_value = "document")]
    pub(crate) at: Moment,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyBundleArgs {
    /// Audit bundle, JSON; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Trust policy, JSON (see docs/POLICY.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyLogArgs {
    /// Receipt or audit bundle to look for in the log; `-` reads standard input. Without it, only tree heads are verified.
    #[arg(required_unless_present = "head")]
    pub(crate) file: Option<PathBuf>,
    /// Proof that the receipt is in the log, JSON as returned by `GET /v1/log/{id}/inclusion`.
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) proof: Option<PathBuf>,
    /// Host to fetch proofs and heads from that are not given as files.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Signed tree head with its evidence, JSON as returned by `GET /v1/log/{id}/head`.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) head: Option<PathBuf>,
    /// Tree head from an earlier run; its history must be the start of the current one.
    #[arg(long, value_name = "FILE")]
    pub(crate) earlier: Option<PathBuf>,
    /// Consistency proof between the earlier head and this one, JSON as returned by `GET /v1/log/{id}/consistency`.
    #[arg(long, value_name = "FILE", requires = "earlier")]
    pub(crate) consistency: Option<PathBuf>,
    /// Write the tree head to this file unless it is refused, for --earlier in the next run.
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) keep_head: Option<PathBuf>,
    /// Ed25519 receipt key that you obtained in another way; the verdict is then at most `signed`.
    #[arg(long, value_name = "HEX", conflicts_with = "policy")]
    pub(crate) key: Option<String>,
    /// Trust policy, JSON, for the attestation of the key, which comes from the audit bundle or with the tree head.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyKeysArgs {
    /// Evidence of the keys, as returned by `GET /v1/attestation`, or an audit bundle; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Host to ask for evidence, as an unknown client, and then for the log of the keys; may be repeated. Run this from another
    /// network than the one that received the keys: a host that recognizes a client can give it other keys (see docs/THREATS.md).
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) url: Vec<String>,
    /// Maximum number of requests for evidence to each host. 1 is the strictest, for a host with one enclave. Behind a load
    /// balancer, each answer may come from another enclave.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) requests: u8,
    /// Trust policy, JSON. The evidence is judged at the time that it states.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) crls: Crls,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
}
