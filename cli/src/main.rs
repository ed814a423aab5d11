//! `clearseal`: the same verifier as the web page, in a terminal. Every verdict comes from the crates `attestation` and
//! `protocol`; this crate adds no rules.
#![forbid(unsafe_code)]

mod args;
mod attestation;
mod embed;
mod failure;
mod follow;
mod index;
mod input;
mod keys;
mod kms;
mod log;
mod manual;
mod model;
mod moment;
mod notice;
mod policy;
mod private;
mod private_index;
mod proxy;
mod receipt;
mod release;
mod render;
mod rerank;
mod shown;
mod vector;
mod witness;
mod witnessed;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use error_codes::Coded;

use args::{
    Cli, Command, IndexCommand, InspectCommand, ModelCommand, PolicyCommand, ReleaseCommand,
    VerifyCommand,
};

/// Exit status if the check could not be made: an unreadable file, bad arguments, no answer.
const NO_JUDGEMENT: u8 = 2;

/// Exit status of a program that SIGPIPE ended: the reader of standard output, such as `head`, closed the pipe.
const BROKEN_PIPE: u8 = 128 + 13;

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

fn main() -> ExitCode {
    // clap also exits with 2 if the arguments are wrong.
    let cli = Cli::parse();
    report(trust_authorities(cli.ca.as_deref()).and_then(|()| run(&cli.command)))
}

/// Applies `--ca`.
fn trust_authorities(file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    let trusted = clearseal_client::trust_authorities(&input::read(file)?);
    trusted.map_err(|error| failure::describe(&error))
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Inspect {
            command: InspectCommand::Attestation(args),
        } => attestation::inspect(args),
        Command::Verify {
            command: VerifyCommand::Attestation(args),
        } => attestation::verify(args),
        Command::Verify {
            command: VerifyCommand::Receipt(args),
        } => receipt::verify(args),
        Command::Verify {
            command: VerifyCommand::Bundle(args),
        } => receipt::verify_bundle(args),
        Command::Verify {
            command: VerifyCommand::Answer(args),
        } => private_index::verify(args),
        Command::Verify {
            command: VerifyCommand::Log(args),
        } => log::verify(args),
        Command::Verify {
            command: VerifyCommand::Keys(args),
        } => keys::verify(args),
        Command::Verify {
            command: VerifyCommand::Vector(args),
        } => vector::verify(args),
        Command::Verify {
            command: VerifyCommand::KmsPolicy(args),
        } => kms::verify(args),
        Command::Verify {
            command: VerifyCommand::Witnessed(args),
        } => witnessed::verify(args),
        Command::Witness { command } => witness::run(command),
        Command::Policy {
            command: PolicyCommand::Check(args),
        } => policy::check(args),
        Command::Policy {
            command: PolicyCommand::Kms(args),
        } => kms::write(args),
        Command::Model {
            command: ModelCommand::Lock(args),
        } => model::lock(args),
        Command::Model {
            command: ModelCommand::Seal(args),
        } => model::seal(args),
        Command::Model {
            command: ModelCommand::Inspect(args),
        } => model::inspect(args),
        Command::Release {
            command: ReleaseCommand::Verify(args),
        } => release::verify(args),
        Command::Embed(args) => embed::embed(args),
        Command::Index {
            command: IndexCommand::Check(args),
        } => index::check(args),
        Command::Index {
            command: IndexCommand::Migrate(args),
        } => index::migrate(args),
        Command::Index {
            command: IndexCommand::Create(args),
        } => private_index::create(args),
        Command::Index {
            command: IndexCommand::Add(args),
        } => private_index::add(args),
        Command::Index {
            command: IndexCommand::Query(args),
        } => private_index::query(args),
        Command::Index {
            command: IndexCommand::Info(args),
        } => private_index::info(args),
        Command::Index {
            command: IndexCommand::Compact(args),
        } => private_index::compact(args),
        Command::Index {
            command: IndexCommand::DeleteRows(args),
        } => private_index::delete_rows(args),
        Command::Index {
            command: IndexCommand::Purge(args),
        } => private_index::purge(args),
        Command::Rerank(args) => rerank::rerank(args),
        Command::Proxy(args) => proxy::proxy(args),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Manual { folder } => manual::pages(folder),
    }
}

/// Prints an error, and returns the exit status.
fn report(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            return ExitCode::from(BROKEN_PIPE);
        }
        // A failure is ignored: standard error is closed, so nothing can report it.
        let _ = writeln!(
            std::io::stderr(),
            "clearseal: {}",
            shown::shown(&format!("{error:#}"))
        );
        if let Some(cause) = error.chain().find_map(find_coded) {
            let advice = format!("  {} [{}]", cause.remedy(), cause.code());
            let _ = writeln!(std::io::stderr(), "{}", shown::shown(&advice));
        }
        ExitCode::from(NO_JUDGEMENT)
    })
}

/// Downcasts the cause to an error with a code and a remedy.
fn find_coded<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a dyn Coded> {
    fn of<'a, E: Coded + Error + 'static>(
        cause: &'a (dyn Error + 'static),
    ) -> Option<&'a dyn Coded> {
        cause.downcast_ref::<E>().map(|error| error as &dyn Coded)
    }
    of::<protocol::exchange::ExchangeError>(cause)
        .or_else(|| of::<protocol::bundle::BundleError>(cause))
        .or_else(|| of::<protocol::items::ItemsError>(cause))
        .or_else(|| of::<index::IndexError>(cause))
        .or_else(|| of::<private_index::ProgressError>(cause))
        .or_else(|| of::<sealed_index::IndexError>(cause))
        .or_else(|| of::<sealed_index::ProofError>(cause))
        .or_else(|| of::<clearseal_client::HeadsError>(cause))
        .or_else(|| of::<::attestation::EvidenceError>(cause))
        .or_else(|| of::<::attestation::PolicyError>(cause))
        .or_else(|| of::<merkle::json::FormatError>(cause))
        .or_else(|| of::<merkle::head::HeadError>(cause))
        .or_else(|| of::<sealed_model::ContainerError>(cause))
        .or_else(|| of::<key_policy::InstanceError>(cause))
        .or_else(|| of::<witness::WitnessError>(cause))
        .or_else(|| of::<::witness::key::KeyError>(cause))
        .or_else(|| of::<::witness::note::NoteError>(cause))
        .or_else(|| of::<::witness::checkpoint::CheckpointError>(cause))
        .or_else(|| of::<::witness::policy::WitnessPolicyError>(cause))
}
