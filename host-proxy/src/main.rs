//! `host-proxy`: see `--help`.

use anyhow::Context as _;
use clap::Parser as _;
use host_proxy::log::{Checked, LogError, Store};
use host_proxy::{Config, LogForm, Proxy};
use std::io::Write as _;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<ExitCode> {
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "log") {
        return check(&LogCommand::parse());
    }
    serve(Config::parse())?;
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn serve(config: Config) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.receipt_log.is_none() || config.enclaves.len() == 1,
        "--receipt-log follows the log of one enclave, and --enclave names {}; leave one of both out",
        config.enclaves.len()
    );
    log_to_stderr(config.log);
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let enclaves: Vec<_> = config.enclaves.iter().map(ToString::to_string).collect();
    let enclave = enclaves.join(" ");
    let proxy = Proxy::bind(config).await?;
    tracing::info!(address = %proxy.local_address()?, enclave, "listening");

    let mut asked = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let (begin, begun) = tokio::sync::oneshot::channel::<()>();
    let run = proxy.run(async {
        // An error means that the sender is gone, which is as good a reason to stop.
        begun.await.unwrap_or(());
    });
    let watch = async move {
        asked().await;
        let told = begin.send(());
        tracing::info!(
            first = told.is_ok(),
            "stopping; a second signal stops at once"
        );
        asked().await;
    };
    tokio::select! {
        () = run => {}
        () = watch => tracing::warn!("stopped at once"),
    }
    Ok(())
}

/// Look after a file of the transparency log
#[derive(clap::Parser)]
#[command(name = "host-proxy", bin_name = "host-proxy", max_term_width = 100)]
struct LogCommand {
    #[command(subcommand)]
    log: LogVerb,
}

#[derive(clap::Subcommand)]
enum LogVerb {
    /// What to do with the log
    #[command(subcommand)]
    Log(LogTask),
}

#[derive(clap::Subcommand)]
enum LogTask {
    /// Check a whole log file, which no running proxy may have open: every page, receipt and signed head
    ///
    /// A proxy verifies only the newest head when it starts. Exit status: 0 everything is as it was signed; 1 something is
    /// not; 2 the file could not be checked: it is missing, unreadable, or in use.
    Check {
        /// The file of --receipt-log
        file: std::path::PathBuf,
    },
}

fn check(command: &LogCommand) -> anyhow::Result<ExitCode> {
    let LogVerb::Log(LogTask::Check { file }) = &command.log;
    let place = file.display();
    match Store::check(file) {
        Ok(Checked {
            logs,
            leaves,
            heads,
        }) => {
            writeln!(
                std::io::stdout(),
                "{place}: {logs} logs, {leaves} leaves, {heads} signed heads, all as they were signed"
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(
                std::io::stderr(),
                "{place}: {}",
                error_codes::ErrorLine(&error)
            )?;
            Ok(match error {
                LogError::InUse | LogError::Unavailable(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            })
        }
    }
}

fn log_to_stderr(form: LogForm) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match form {
        LogForm::Json => builder.json().flatten_event(true).init(),
        LogForm::Text => builder.init(),
    }
}
