//! `clearseal`: the verifier of the page, in a terminal. It has no rules of its own: every verdict comes from the crates
//! `attestation` and `protocol`.
#![forbid(unsafe_code)]

mod args;
mod attestation;
mod embed;
mod follow;
mod input;
mod keys;
mod kms;
mod log;
mod manual;
mod model;
mod moment;
mod policy;
mod private;
mod proxy;
mod receipt;
mod release;
mod render;
mod shown;
mod vector;

use args::{Cli, Command, Inspect, ModelVerb, PolicyVerb, ReleaseVerb, Verify};
use clap::Parser;
use error_codes::Coded;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

/// Could not judge: an unreadable file, bad arguments, no answer.
const NO_JUDGEMENT: u8 = 2;

/// As of a program that SIGPIPE ended: the reader of standard output, such as `head`, has seen enough.
const BROKEN_PIPE: u8 = 128 + 13;

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

fn main() -> ExitCode {
    // clap, too, ends with 2 where the arguments are wrong.
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Command::Inspect {
            what: Inspect::Attestation(args),
        } => attestation::inspect(args),
        Command::Verify {
            what: Verify::Attestation(args),
        } => attestation::verify(args),
        Command::Verify {
            what: Verify::Receipt(args),
        } => receipt::verify(args),
        Command::Verify {
            what: Verify::Bundle(args),
        } => receipt::verify_bundle(args),
        Command::Verify {
            what: Verify::Log(args),
        } => log::verify(args),
        Command::Verify {
            what: Verify::Keys(args),
        } => keys::verify(args),
        Command::Verify {
            what: Verify::Vector(args),
        } => vector::verify(args),
        Command::Verify {
            what: Verify::KmsPolicy(args),
        } => kms::verify(args),
        Command::Policy {
            what: PolicyVerb::Check(args),
        } => policy::check(args),
        Command::Policy {
            what: PolicyVerb::Kms(args),
        } => kms::write(args),
        Command::Model {
            what: ModelVerb::Seal(args),
        } => model::seal(args),
        Command::Model {
            what: ModelVerb::Inspect(args),
        } => model::inspect(args),
        Command::Release {
            what: ReleaseVerb::Verify(args),
        } => release::verify(args),
        Command::Embed(args) => embed::embed(args),
        Command::Proxy(args) => proxy::proxy(args),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Manual { folder } => manual::pages(folder),
    };
    outcome.unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            return ExitCode::from(BROKEN_PIPE);
        }
        // Nothing is left to do where even standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "clearseal: {}",
            shown::shown(&format!("{error:#}"))
        );
        if let Some(cause) = error.chain().find_map(coded) {
            let advice = format!("  {} [{}]", cause.remedy(), cause.code());
            let _ = writeln!(std::io::stderr(), "{}", shown::shown(&advice));
        }
        ExitCode::from(NO_JUDGEMENT)
    })
}

/// The cause as an error that says what to do next, if it is one.
fn coded<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a dyn Coded> {
    fn of<'a, E: Coded + Error + 'static>(
        cause: &'a (dyn Error + 'static),
    ) -> Option<&'a dyn Coded> {
        cause.downcast_ref::<E>().map(|error| error as &dyn Coded)
    }
    of::<protocol::exchange::ExchangeError>(cause)
        .or_else(|| of::<protocol::bundle::BundleError>(cause))
        .or_else(|| of::<protocol::items::ItemsError>(cause))
        .or_else(|| of::<::attestation::EvidenceError>(cause))
        .or_else(|| of::<::attestation::PolicyError>(cause))
        .or_else(|| of::<merkle::json::FormatError>(cause))
        .or_else(|| of::<merkle::head::HeadError>(cause))
        .or_else(|| of::<sealed_model::ContainerError>(cause))
        .or_else(|| of::<key_policy::InstanceError>(cause))
}
