//! Starts the service; everything else is in the library.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use enclave_server::Clock;
use enclave_server::allocator;
use enclave_server::check::{self, CheckModel};
use enclave_server::config::{Arguments, Command, Config};
use enclave_server::hardening;
use enclave_server::logging;
use enclave_server::server::{Server, StartError};
use enclave_server::stages::Stages;
use error_codes::ErrorLine;
use sealed_model::SelfTest;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    let stages = Stages::begin();
    let Arguments { command, config } = Arguments::parse();
    if let Some(Command::CheckModel(options)) = command {
        return match check_model(&options) {
            Ok(status) => status,
            Err(error) => {
                eprintln!("enclave-server: {error}");
                ExitCode::FAILURE
            }
        };
    }
    if let Err(error) = logging::start(config.log, &config.log_filter) {
        eprintln!(
            "LOG_FILTER_INVALID: {error}; write it as in --log-filter enclave_server=debug,info"
        );
        return ExitCode::from(2);
    }
    match run(&config, stages) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(code = error.code(), %error, remedy = error.remedy(), "not started");
            ExitCode::FAILURE
        }
    }
}

/// Prints the findings about a model's folder.
fn check_model(options: &CheckModel) -> io::Result<ExitCode> {
    let report = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(check::check(options));
    let report = match report {
        Ok(report) => report,
        Err(error) => return Err(io::Error::other(ErrorLine(&error).to_string())),
    };
    let mut out: Box<dyn Write> = match options.print_self_test {
        true => Box::new(io::stderr()),
        false => Box::new(io::stdout()),
    };
    for problem in &report.problems {
        writeln!(out, "problem: {problem}")?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    if !report.self_test.is_empty() {
        writeln!(io::stdout(), "{}", SelfTest::to_json(&report.self_test))?;
    }
    match report.problems.len() {
        0 => writeln!(out, "The server accepts {}.", options.folder.display())?,
        1 => writeln!(out, "1 problem.")?,
        count => writeln!(out, "{count} problems.")?,
    }
    Ok(ExitCode::from(u8::from(!report.problems.is_empty())))
}

fn run(config: &Config, stages: Stages) -> Result<(), StartError> {
    hardening::forbid_dumps().map_err(StartError::Hardening)?;
    // Inference has separate threads, so the runtime has little to do. A worker that is woken without work takes a processor
    // from an inference thread just when a request arrives.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads((config.threads().get() / 2).clamp(1, 4))
        .enable_all()
        .build()
        .map_err(StartError::Threads)?
        .block_on(async {
            let purging = allocator::PurgingAllocator::new();
            let server = Server::start(config, Clock::system(), stages).await?;
            drop(purging);
            allocator::purge();
            server.run().await
        })
}
