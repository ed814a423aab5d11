//! `host-proxy`: see `--help`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use host_proxy::deployment::{self, DeploymentError, DeploymentStore, LogKey, Verified};
use host_proxy::log::{Checked, LogError, Store};
use host_proxy::{Config, LogForm, Proxy};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<ExitCode> {
    let verb = std::env::args_os().nth(1);
    if verb.as_ref().is_some_and(|verb| verb == "log") {
        return check_log(&LogCommand::parse());
    }
    if verb.is_some_and(|verb| verb == "deployment") {
        return keep_deployment(&DeploymentCommand::parse());
    }
    serve(Config::parse())?;
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn serve(config: Config) -> anyhow::Result<()> {
    config.check()?;
    log_to_stderr(config.log);
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let enclaves: Vec<_> = config.enclaves.iter().map(ToString::to_string).collect();
    let enclave = enclaves.join(" ");
    let proxy = Proxy::bind(config).await?;
    tracing::info!(address = %proxy.local_address()?, enclave, "listening");

    let mut signalled = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = proxy.run(async {
        // An error means that the sender was dropped, which also means to stop.
        stopped.await.unwrap_or(());
    });
    let watch = async move {
        signalled().await;
        let first = stop.send(()).is_ok();
        tracing::info!(first, "stopping; a second signal stops at once");
        signalled().await;
    };
    tokio::select! {
        () = run => {}
        () = watch => tracing::warn!("stopped at once"),
    }
    Ok(())
}

/// Maintain a file of the transparency log
#[derive(clap::Parser)]
#[command(name = "host-proxy", bin_name = "host-proxy", max_term_width = 100)]
struct LogCommand {
    #[command(subcommand)]
    log: LogVerb,
}

#[derive(clap::Subcommand)]
enum LogVerb {
    /// Task on the log file
    #[command(subcommand)]
    Log(LogTask),
}

#[derive(clap::Subcommand)]
enum LogTask {
    /// Check a whole log file, which no running proxy may have open: every page, receipt and signed head
    ///
    /// A proxy verifies only the newest head when it starts. Exit status: 0 the file agrees with every signed head; 1 it does
    /// not; 2 it could not be checked, because it is missing, unreadable, or in use.
    Check {
        /// The file of --receipt-log
        file: std::path::PathBuf,
    },
}

fn check_log(command: &LogCommand) -> anyhow::Result<ExitCode> {
    let LogVerb::Log(LogTask::Check { file }) = &command.log;
    let path = file.display();
    match Store::check(file) {
        Ok(Checked {
            logs,
            leaves,
            heads,
        }) => {
            writeln!(
                std::io::stdout(),
                "{path}: {logs} logs, {leaves} leaves, {heads} signed heads, all valid"
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(
                std::io::stderr(),
                "{path}: {}",
                error_codes::ErrorLine(&error)
            )?;
            Ok(match error {
                LogError::InUse | LogError::Unavailable(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            })
        }
    }
}

/// Maintain the deployment's log
#[derive(clap::Parser)]
#[command(name = "host-proxy", bin_name = "host-proxy", max_term_width = 100)]
struct DeploymentCommand {
    #[command(subcommand)]
    deployment: DeploymentVerb,
}

#[derive(clap::Subcommand)]
enum DeploymentVerb {
    /// Task on the deployment's log
    #[command(subcommand)]
    Deployment(DeploymentTask),
}

#[derive(clap::Subcommand)]
enum DeploymentTask {
    /// Make an empty log and its key, and print the public key for witnesses and policies
    Init {
        /// Name of the log, such as log.example/deployment
        #[arg(long, value_name = "NAME")]
        origin: String,
        /// File of the log, which must not exist
        #[arg(long, value_name = "FILE")]
        log: std::path::PathBuf,
        /// File of the key, which must not exist
        #[arg(long, value_name = "FILE")]
        key: std::path::PathBuf,
    },
    /// Check a whole log, which no running proxy may have open: every record, node and checkpoint
    ///
    /// Exit status: 0 they agree; 1 they do not; 2 the log could not be checked, because it is missing, unreadable, or in use.
    Check {
        /// File of the log
        #[arg(long, value_name = "FILE")]
        log: std::path::PathBuf,
        /// File of its key
        #[arg(long, value_name = "FILE")]
        key: std::path::PathBuf,
    },
}

fn keep_deployment(command: &DeploymentCommand) -> anyhow::Result<ExitCode> {
    let DeploymentVerb::Deployment(task) = &command.deployment;
    let done = match task {
        DeploymentTask::Init { origin, log, key } => {
            deployment::init(origin, log, key).map(|key| key.to_string())
        }
        DeploymentTask::Check { log, key } => check_deployment(log, key),
    };
    match done {
        Ok(line) => {
            writeln!(std::io::stdout(), "{line}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(std::io::stderr(), "{}", error_codes::ErrorLine(&error))?;
            Ok(match error {
                DeploymentError::Corrupt(_) => ExitCode::FAILURE,
                _ => ExitCode::from(2),
            })
        }
    }
}

fn check_deployment(log: &Path, key: &Path) -> Result<String, DeploymentError> {
    let store = DeploymentStore::open(log, &LogKey::read(key)?)?;
    let Verified { entries, bytes } = store.verify()?;
    let path = log.display();
    Ok(format!(
        "{path}: {entries} records of {bytes} bytes, as the newest checkpoint states"
    ))
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
