//! Arguments of `clearseal model`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Write the lock of a sentence-transformers folder to standard output: its name, and the SHA-256 of each file that a server needs.
    ///
    /// enclave-server serves the model with --model-lock, and no other. Lists the files that it leaves out on standard error.
    Lock(ModelLockArgs),
    /// Seal a sentence-transformers folder (safetensors) into one container.
    ///
    /// Includes every file in the folder and its subfolders, or those of a lock. Prints the model hash that receipts will state.
    Seal(ModelSealArgs),
    /// Show the contents of a container; with its key, decrypt every file and compare it with its digest.
    ///
    /// Exit status: 0 if the container is well-formed and, with a key, genuine; 1 if it is refused; 2 if it cannot be read.
    Inspect(ModelInspectArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ModelLockArgs {
    /// Folder of the model.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Name of the model, as `org/name` or `name`; requests may use both forms of the first.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Another name that requests may use; may be repeated.
    #[arg(long = "alias", value_name = "NAME")]
    pub(crate) aliases: Vec<String>,
    /// Vectors that the server compares at every start, as `enclave-server check-model --print-self-test` prints them.
    #[arg(long, value_name = "FILE")]
    pub(crate) self_test: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ModelSealArgs {
    /// Folder of the model.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Seal the files of this lock alone, and refuse those that differ from it.
    #[arg(long, value_name = "FILE")]
    pub(crate) model_lock: Option<PathBuf>,
    /// Container to write; replaces an existing one once the new one is complete.
    #[arg(long, value_name = "FILE", default_value = "model.sealed")]
    pub(crate) out: PathBuf,
    /// Data key: a file of 32 bytes that only its owner can read.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// Create the data key; fails if the file exists.
    #[arg(long)]
    pub(crate) new_key: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ModelInspectArgs {
    /// Container to inspect.
    pub(crate) file: PathBuf,
    /// Data key: a file of 32 bytes that only its owner can read.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
