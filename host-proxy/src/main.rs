//! `host-proxy`: see `--help`.

use anyhow::Context as _;
use clap::Parser as _;
use host_proxy::{Config, LogForm, Proxy};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse();
    log_to_stderr(config.log);
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let enclave = config.enclave.to_string();
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
