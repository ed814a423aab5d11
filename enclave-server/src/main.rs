//! Starts the service; everything else is in the library.

use std::process::ExitCode;

use clap::Parser;
use enclave_server::Clock;
use enclave_server::allocator;
use enclave_server::config::Config;
use enclave_server::hardening;
use enclave_server::logging;
use enclave_server::server::{Server, StartError};
use enclave_server::stages::Stages;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    let stages = Stages::begin();
    let config = Config::parse();
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
