//! Command-line arguments of `clearseal`: one module for each command.

mod embed;
mod index;
mod model;
mod policy;
mod proxy;
mod release;
mod rerank;
mod shared;
mod verify;
mod witness;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use embed::{EmbedArgs, Field, Format};
pub(crate) use index::{
    IndexAddArgs, IndexCheckArgs, IndexCommand, IndexCreateArgs, IndexDeleteRowsArgs,
    IndexMigrateArgs, IndexQueryArgs, IndexServiceArgs,
};
pub(crate) use model::{ModelCommand, ModelInspectArgs, ModelLockArgs, ModelSealArgs};
pub(crate) use policy::{PolicyCheckArgs, PolicyCommand, PolicyKmsArgs};
pub(crate) use proxy::ProxyArgs;
pub(crate) use release::{ReleaseCommand, ReleaseVerifyArgs};
pub(crate) use rerank::RerankArgs;
pub(crate) use shared::{Crls, PolicyFlags};
pub(crate) use verify::{
    InspectArgs, InspectCommand, VerifyAttestationArgs, VerifyBundleArgs, VerifyCommand,
    VerifyKeysArgs, VerifyKmsPolicyArgs, VerifyLogArgs, VerifyReceiptArgs, VerifyVectorArgs,
};
pub(crate) use witness::{VerifyWitnessedArgs, WitnessArgs, WitnessCommand};

/// Check what runs in an AWS Nitro Enclave, and embed text that only it can read.
///
/// Exit status: 0 if the verdict is `verified`; 1 if the check refused it, or the verdict is a lesser one that no flag accepts;
/// 2 if the check could not be made. `inspect` exits with 0 on `authentic`, and a command with --key on `signed`.
#[derive(Debug, Parser)]
#[command(name = "clearseal", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Trust the certificate authorities of this file, PEM, instead of the public ones, for hosts behind https. The variable
    /// SSL_CERT_FILE does the same. An enclave is verified by its own evidence, with any certificate of its host.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the contents of evidence and check that it is genuine, without judging the image.
    Inspect {
        #[command(subcommand)]
        command: InspectCommand,
    },
    /// Verify evidence, receipts, logs, vectors or key policies.
    Verify {
        #[command(subcommand)]
        command: VerifyCommand,
    },
    /// Explain a trust policy, or derive a KMS key policy from it.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Lock a model, seal it for enclaves, or inspect a sealed one.
    Model {
        #[command(subcommand)]
        command: ModelCommand,
    },
    /// Verify a release, its image and the page that a service serves.
    Release {
        #[command(subcommand)]
        command: ReleaseCommand,
    },
    /// Embed each line of standard input in a verified enclave, and write one row per line to standard output.
    ///
    /// Skips empty lines; `index` is the number of the line, starting at 0. Also skips a line that the service refuses, such as
    /// one of more than 64 KiB, and reports it on standard error.
    ///
    /// Exit status: 0 if every line has a row; 1 if the enclave was refused; 2 if the service could not be asked; 3 if the service
    /// refused some lines and all other lines have rows.
    Embed(EmbedArgs),
    /// Search privately in an index that only an enclave with its key can read; or check that the rows of a file are of one model.
    Index {
        #[command(subcommand)]
        command: IndexCommand,
    },
    /// Score each line of standard input for a query in a verified enclave, and write one row per line, the best first.
    ///
    /// All lines go into one request, so that their scores have one receipt; at most 2048. Skips empty lines; `index` is the number
    /// of the line, starting at 0. The service must hold a model that reranks.
    Rerank(RerankArgs),
    /// Serve OpenAI's API on a local port, and seal every request to a verified enclave.
    ///
    /// Starts only on the verdict `verified` (or `simulated` with --accept-simulated), renews the proof before it expires, and sends
    /// nothing without a valid proof. Refuses requests from web pages: a page has to verify the enclave itself. On SIGINT or
    /// SIGTERM, accepts no new connections and exits when the requests in progress have ended, after 10 seconds at most.
    Proxy(ProxyArgs),
    /// Cosign the checkpoints of logs, so that all their readers see one history (c2sp.org/tlog-witness).
    Witness {
        #[command(subcommand)]
        command: WitnessCommand,
    },
    /// Print a completion script for a shell.
    ///
    /// For bash: clearseal completions bash > ~/.local/share/bash-completion/completions/clearseal
    Completions {
        /// Shell to write the script for.
        shell: clap_complete::Shell,
    },
    /// Write one manual page for each command.
    Manual {
        /// Folder for the pages; created if it does not exist.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}
