//! `clearseal witness`: cosigns the checkpoints of logs whose history it has followed (c2sp.org/tlog-witness).
//!
//! The database holds the last tree of each log. Its loss would let a log begin a second history, so the key file names the one
//! database that belongs to it, and the witness starts with no other.

mod config;
mod memory;
mod server;
mod store;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use ::witness::key::{Signer, Use};
use anyhow::{Context, Result};
use error_codes::Coded;
use merkle::json::{from_hex, hex};
use serde::Serialize;

use crate::args::{WitnessArgs, WitnessCommand};
use crate::shown::ascii_json;
use crate::{input, private, render};
use config::Config;
use store::Store;

/// Why a witness does not start.
#[derive(Debug, thiserror::Error, Coded)]
pub(crate) enum WitnessError {
    /// Not a configuration.
    #[error("the configuration is wrong: {0}")]
    #[coded(
        "WITNESS_CONFIG_INVALID",
        remedy = "Correct the file; docs/WITNESS.md describes its keys."
    )]
    Config(String),
    /// `init` for files that exist.
    #[error("{0} exists already")]
    #[coded(
        "WITNESS_INITIALIZED",
        remedy = "Start the witness with `run`. For a new witness, name a new key and a new database."
    )]
    Initialized(String),
    /// Not a file that `init` wrote.
    #[error("{0} is not a key file of this witness")]
    #[coded(
        "WITNESS_KEY_INVALID",
        remedy = "Name the file that `clearseal witness init` wrote with this configuration."
    )]
    Key(String),
    /// The database is missing, empty, or that of another key.
    #[error("the database of this key is not at {0}")]
    #[coded(
        "WITNESS_DATABASE_LOST",
        remedy = "Restore nothing older: find the database itself. If it is lost, give up the key, and make a new witness with another name and key."
    )]
    Lost(String),
    /// A checkpoint that this witness cosigned is newer than its database.
    #[error(
        "this witness has cosigned a tree of {size} entries of {origin}, which its database does not have"
    )]
    #[coded(
        "WITNESS_DATABASE_OLD",
        remedy = "The database is an older copy: find the newest one. If it is lost, give up the key, and make a new witness with another name and key."
    )]
    Old {
        /// Name of the log.
        origin: String,
        /// Size of the tree.
        size: u64,
    },
    /// No source can say whether the database is the newest.
    #[error("none of the configured sources confirms that the database is the newest")]
    #[coded(
        "WITNESS_SOURCES_UNREACHABLE",
        remedy = "Check the addresses and the network, and start the witness again: without an answer it could cosign a second history."
    )]
    Unconfirmed,
    /// The disk, or another process.
    #[error("the database cannot be used: {0}")]
    #[coded(
        "WITNESS_DATABASE_UNAVAILABLE",
        remedy = "Check the disk, and that no other witness uses the database."
    )]
    Unavailable(String),
}

/// Word before the database's identifier in the key file.
const DATABASE: &str = "database ";

/// Runs a command.
pub(crate) fn run(command: &WitnessCommand) -> Result<ExitCode> {
    match command {
        WitnessCommand::Init(args) => init(args),
        WitnessCommand::Run(args) => serve(args),
        WitnessCommand::Forks(args) => print_forks(args),
    }
}

fn init(args: &WitnessArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config)?;
    for path in [&config.key, &config.database] {
        if path.exists() {
            return Err(WitnessError::Initialized(path.display().to_string()).into());
        }
    }
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    let mut id = [0; 32];
    for random in [&mut *seed, &mut id] {
        getrandom::fill(random)
            .ok()
            .context("the operating system gives no random numbers")?;
    }
    let signer = Signer::from_seed(&config.name, Use::Witness, &seed)?;
    // The key last: without it nothing can be cosigned, whatever happens before.
    Store::create(&config.database, &id)?;
    write_key(&config.key, &signer, &id)
        .with_context(|| format!("cannot write {}", config.key.display()))?;
    render::lines(&[signer.verifier().to_string()])?;
    Ok(ExitCode::SUCCESS)
}

fn write_key(path: &Path, signer: &Signer, id: &[u8; 32]) -> std::io::Result<()> {
    let mut file = private::options().write(true).create_new(true).open(path)?;
    write!(file, "{}\n{DATABASE}{}\n", signer.to_private(), hex(id))?;
    file.sync_all()?;
    // Otherwise a power failure could remove the name of the file.
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn read_key(path: &Path, name: &str) -> Result<(Signer, [u8; 32])> {
    let invalid = || WitnessError::Key(path.display().to_string());
    let bytes = zeroize::Zeroizing::new(input::read(path)?);
    let text = std::str::from_utf8(&bytes).map_err(|_| invalid())?;
    let (key, rest) = text.split_once('\n').ok_or_else(invalid)?;
    let signer = Signer::parse(key).map_err(|_| invalid())?;
    let id = rest.trim_end().strip_prefix(DATABASE).and_then(from_hex);
    match signer.verifier().name() == name && signer.verifier().key_use() == Use::Witness {
        true => Ok((signer, id.ok_or_else(invalid)?)),
        false => Err(invalid().into()),
    }
}

fn serve(args: &WitnessArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config)?;
    let (signer, id) = read_key(&config.key, &config.name)?;
    let store = Store::open(&config.database, &id)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the operating system gives no threads")?;
    runtime.block_on(async {
        memory::compare(&config, signer.verifier(), &store).await?;
        server::serve(config, signer, store).await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Two checkpoints of one size with different roots, which the log of this origin signed.
#[derive(Serialize)]
struct Fork {
    origin: String,
    first: String,
    second: String,
}

fn print_forks(args: &WitnessArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config)?;
    let (_, id) = read_key(&config.key, &config.name)?;
    let forks = Store::open(&config.database, &id)?.list_forks();
    let forks = forks.map_err(WitnessError::from)?.into_iter();
    let lines = forks.map(|[origin, first, second]| {
        let fork = Fork {
            origin,
            first,
            second,
        };
        serde_json::to_string(&fork).map(|json| ascii_json(&json))
    });
    render::lines(&lines.collect::<Result<Vec<_>, _>>()?)?;
    Ok(ExitCode::SUCCESS)
}
