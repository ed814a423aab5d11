//! `cargo xtask up`, which `npm start` runs: everything built, both servers started, one URL.

use crate::servers::{self, Servers};
use crate::steps::Steps;
use crate::{model, needs, page, paths, process, wasm};
use anyhow::{Context, Result, bail};
use std::net::TcpListener;
use std::path::PathBuf;

/// Build what has changed, start the enclave (simulated) and the proxy, and print the page's address
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Port of the page on 127.0.0.1
    #[arg(long, value_name = "PORT", env = "CLEARSEAL_PORT", default_value_t = 8787,
          value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The trust policy that the page carries [default: none, so that no verdict is better than simulated]
    #[arg(long, value_name = "FILE", env = "CLEARSEAL_TRUST_POLICY_FILE")]
    policy: Option<PathBuf>,
}

/// Runs the verb; returns when the servers have ended.
pub(crate) fn run(options: Options) -> Result<()> {
    let logs = paths::target()?.join("clearseal");
    let signals = servers::Signals::listen()?;
    let mut steps = Steps::new(7, &signals);
    steps.quick("Prerequisites", || {
        let node = needs::node()?;
        needs::rust_target("wasm32-unknown-unknown")?;
        // Before the long part, not after it.
        port_is_free(options.port)?;
        Ok(format!(
            "{node}, {}",
            needs::output("rustc", &["--version"])?
        ))
    })?;
    match needs::packages()? {
        Some(mut install) => {
            steps.watch("npm packages", &mut install, &logs.join("npm.log"))?;
            needs::packages_installed()?;
        }
        None => steps.quick("npm packages", || Ok("up to date".to_owned()))?,
    }
    let folder = paths::model()?;
    steps.quick("Model, 92 MB", || model::fetch(None, &folder))?;
    let mut build = process::cargo(&[
        "build",
        "--release",
        "--package=enclave-server",
        "--package=host-proxy",
    ]);
    steps.watch(
        "enclave-server and host-proxy",
        &mut build,
        &logs.join("build.log"),
    )?;
    let verifier = wasm::Options {
        policy: options.policy,
    };
    steps.quick("Verifier, WebAssembly", || {
        Ok(wasm::build(&verifier)?.to_string())
    })?;
    match page::build(None)? {
        Some(mut build) => {
            steps.watch("Page", &mut build, &logs.join("page.log"))?;
            page::finish()?;
        }
        None => steps.quick("Page", || Ok("up to date".to_owned()))?,
    }
    let mut servers = None;
    steps.quick("Servers", || {
        servers = Some(Servers::start(options.port, &folder, &logs, &signals)?);
        Ok("ready".to_owned())
    })?;
    let servers = servers.context("the servers did not start")?;
    println!(
        "\n  http://127.0.0.1:{}\n\n  The enclave is SIMULATED: an ordinary process on this machine, under a root made at its start.\n  It shows how everything works and protects nothing.\n  Logs are in {}. Ctrl-C stops both.\n",
        options.port,
        logs.display()
    );
    servers.watch(&signals)
}

fn port_is_free(port: u16) -> Result<()> {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
            "port {port} is taken by another program; stop it, or choose another port: npm start -- --port {}",
            port.checked_add(1).unwrap_or(8787)
        ),
        Err(error) => Err(error).with_context(|| {
            format!("cannot listen on 127.0.0.1:{port}; choose another with --port")
        }),
    }
}
