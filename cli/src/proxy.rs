//! `clearseal proxy`: a local port that speaks plain OpenAI, and seals everything to a verified enclave.
//!
//! A request passes four gates: the Host field (a page that rebinds its name to 127.0.0.1 is refused), the origin (a page's
//! requests carry one, and no page is served here), the API key, the method and path.

mod receipts;
mod serve;
mod status;

use crate::args::ProxyArgs;
use crate::attestation::policy;
use crate::{embed, render};
use anyhow::{Context, Result, bail};
use clearseal_client::{Client, Error, State};
use receipts::ReceiptFile;
use serve::Proxy;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Verifies, then serves until it is told to stop. Starts nothing on a verdict that was not accepted.
pub(crate) fn proxy(args: &ProxyArgs) -> Result<ExitCode> {
    if !args.listen.ip().is_loopback() && !args.allow_remote {
        bail!(
            "{} is not a loopback address: anybody who reaches it could use this proxy, and would send text to it without a seal; \
             add --allow-remote if that is wanted, and --api-key",
            args.listen
        );
    }
    if args.policy.is_none() && !args.accept_simulated {
        bail!(
            "there is no trust policy to judge the enclave by: give --policy FILE, or --accept-simulated to develop against a simulated one"
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the operating system gives no threads")?;
    runtime.block_on(run(args))
}

async fn run(args: &ProxyArgs) -> Result<ExitCode> {
    let (first, others) = args.url.split_first().context("give --url URL")?;
    let mut client = Client::builder(first)
        .accept_simulated(args.accept_simulated)
        .candidates(args.candidates.into());
    for url in others {
        client = client.upstream(url);
    }
    if let Some(path) = &args.policy {
        client = client.policy(policy(path)?);
    }
    let client = client.build().map_err(|error| embed::said(&error))?;
    match client.connect().await {
        Ok(_) => {}
        Err(Error::Refused(report)) => {
            render::refusal(&report)?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(embed::said(&error)),
    }
    let receipts = match &args.receipts {
        Some(path) => Some(ReceiptFile::open(path, args.receipts_size)?),
        None => None,
    };
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    for (url, state) in client.states() {
        if let State::Simulated(_) = state {
            say(&format!(
                "SIMULATED: {url} proves nothing about hardware. Send nothing private."
            ));
        }
    }
    say(&format!(
        "OpenAI's API is on http://{address}/v1; what was verified is on http://{address}/"
    ));
    let proxy = Arc::new(Proxy::new(client.clone(), args, receipts));
    tokio::select! {
        () = client.maintain() => {}
        outcome = serve::serve(listener, proxy) => outcome?,
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) {
    // Nowhere else to say it where standard error is closed.
    let _ = writeln!(std::io::stderr(), "{}", crate::shown::shown(text));
}
