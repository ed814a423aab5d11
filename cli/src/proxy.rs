//! `clearseal proxy`: serves the embedding APIs of OpenAI and others on a local port, and seals every request to a verified enclave.
//!
//! A request passes four checks: the Host field (a page that rebinds its name to 127.0.0.1 is refused), the origin (a page's
//! requests carry `Origin` or `Sec-Fetch-Site`, and no page of another site is answered), the API key, the method and path.

mod certificate;
mod dialect;
mod empty;
mod gate;
mod receipts;
mod refusal;
mod routes;
mod serve;
mod status;
mod tls;
mod truncation;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clearseal_client::{Client, Error, State};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::ProxyArgs;
use crate::failure::describe;
use crate::notice::notice;
use crate::{follow, render};
pub(crate) use empty::OnEmpty;
pub(crate) use gate::HostName;
use receipts::ReceiptFile;
use serve::Proxy;

/// Verifies the enclave, then serves until a signal stops it. Does not start on a verdict that was not accepted.
pub(crate) fn proxy(args: &ProxyArgs) -> Result<ExitCode> {
    if !args.listen.ip().to_canonical().is_loopback() && !args.allow_remote {
        bail!(
            "{} is not a loopback address: anybody who reaches it could use this proxy, and would send text to it without a seal; \
             add --allow-remote if that is wanted, and --api-key",
            args.listen
        );
    }
    match &args.api_key {
        None if args.allow_remote => bail!(
            "--allow-remote lets other machines use this proxy: give --api-key KEY too, or set CLEARSEAL_API_KEY, so that not all of them can"
        ),
        Some(key) if !is_sendable(key) => bail!(
            "the key of --api-key cannot be sent in a header: write visible ASCII characters, one at least, without spaces around them"
        ),
        _ => {}
    }
    if args.policy.policy.is_none() && args.policy.policy_url.is_none() && !args.accept_simulated {
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

/// Returns whether a client can send this key unchanged: spaces at both ends of a field are lost.
fn is_sendable(key: &str) -> bool {
    let is_visible = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    !key.is_empty() && key.trim() == key && key.bytes().all(is_visible)
}

async fn run(args: &ProxyArgs) -> Result<ExitCode> {
    let (first, others) = args.url.split_first().context("give --url URL")?;
    let mut client = Client::builder(first)
        .accept_simulated(args.accept_simulated)
        .candidates(args.candidates.into());
    for url in others {
        client = client.upstream(url);
    }
    let mut source = args.policy.source()?;
    if let Some(source) = &mut source {
        let first = source.load().await;
        client = client.policy(first.map_err(|error| follow::describe(&error))?);
    }
    let client = client.build().map_err(|error| describe(&error))?;
    match client.connect().await {
        Ok(_) => {}
        Err(Error::Refused(report)) => {
            render::refusal(&report)?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(describe(&error)),
    }
    let receipts = match &args.receipts {
        Some(path) => Some(ReceiptFile::open(path, args.receipts_size, notice)?),
        None => None,
    };
    let tls = match (&args.tls_cert, &args.tls_key, &args.tls_self_signed) {
        (Some(certificates), Some(key), _) => Some(tls::read_acceptor(certificates, key)?),
        (_, _, Some(file)) => {
            let (acceptor, fingerprint) = tls::issue_acceptor(args, file.as_deref())?;
            notice(&format!("SHA-256 of the TLS certificate: {fingerprint}"));
            Some(acceptor)
        }
        _ => None,
    };
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    // Installed only now, so that a signal before this point ends the process at once.
    let stop = Stop::new()?;
    for (url, state) in client.states() {
        if let State::Simulated(_) = state {
            notice(&format!(
                "SIMULATED: {url} proves nothing about hardware. Send nothing private."
            ));
        }
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    notice(&format!(
        "OpenAI's API is on {scheme}://{address}/v1; the verdict is on {scheme}://{address}/"
    ));
    let proxy = Arc::new(Proxy::new(client.clone(), args, receipts));
    let following = async {
        match source {
            Some(source) => client.follow(source, follow::report_news).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = client.maintain() => {}
        () = following => {}
        () = refresh_on_hangup(&client) => {}
        outcome = serve::serve(listener, tls, proxy, stop) => outcome?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Signals that stop the proxy: SIGINT and SIGTERM.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("the operating system gives no signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Reads the trust policy on each SIGHUP. Never returns.
async fn refresh_on_hangup(client: &Client) {
    if let Ok(mut hangups) = signal(SignalKind::hangup()) {
        while hangups.recv().await.is_some() {
            client.refresh_policy();
        }
    }
    // Without a handler, a change takes effect when the policy is next polled.
    std::future::pending::<()>().await;
}
