//! `cargo xtask up`, which `npm start` runs: everything built, both servers started, one URL.

use crate::hub::{self, HubModel};
use crate::model::FolderLock;
use crate::sealed::Sealed;
use crate::servers::{self, ModelSource, Servers, Start};
use crate::steps::{Started, Steps};
use crate::{model, needs, page, paths, wasm};
use anyhow::{Context, Result, bail, ensure};
use sealed_model::ModelName;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Build what has changed, start the enclave, its KMS (both simulated) and the proxy, and print the page's address
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Port of the page on 127.0.0.1
    #[arg(long, value_name = "PORT", env = "CLEARSEAL_PORT", default_value_t = 8787,
          value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The trust policy that the page carries [default: none, so that no verdict is better than simulated]
    #[arg(long, value_name = "FILE", env = "CLEARSEAL_TRUST_POLICY_FILE")]
    policy: Option<PathBuf>,
    /// Read the model from this folder, instead of sealed and with a key that a simulated KMS releases. Its lock is DIR.lock.json,
    /// which the first start writes. Repeat it to serve several models
    #[arg(long, value_name = "DIR", conflicts_with = "model_id")]
    model: Vec<PathBuf>,
    /// Download this model from Hugging Face's hub, or the one of $HF_ENDPOINT, and read it from a folder. $HF_TOKEN opens gated
    /// models. The lock that the first start writes pins the files
    #[arg(long, value_name = "ORG/NAME", value_parser = hub::parse_name)]
    model_id: Option<ModelName>,
    /// Branch, tag or commit of --model-id
    #[arg(long, default_value = "main", requires = "model_id", value_parser = hub::parse_revision)]
    revision: String,
    /// Enclaves, each with its own keys and proxy, behind one HAProxy; 1 needs no HAProxy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    replicas: u8,
}

/// Runs the verb; returns when the servers have ended.
pub(crate) fn run(options: Options) -> Result<()> {
    let logs = paths::target()?.join("clearseal");
    let signals = servers::Signals::listen()?;
    let hub = options.model_id.map(|name| HubModel {
        name,
        revision: options.revision,
    });
    let total = if hub.is_some() { 10 } else { 8 };
    let mut steps = Steps::new(total, &signals);
    steps.quick("Prerequisites", || {
        let node = needs::node()?;
        needs::rust_target("wasm32-unknown-unknown")?;
        // Before the long part, not after it.
        port_is_free(options.port)?;
        if options.replicas > 1 {
            needs::debian("haproxy", "haproxy")?;
        }
        Ok(format!(
            "{node}, {}",
            needs::output("rustc", &["--version"])?
        ))
    })?;
    // They are fetched and unpacked while the servers compile, which need none of them.
    let packages = needs::packages()?
        .map(|mut install| Started::new(&mut install, &logs.join("npm.log")))
        .transpose()?;
    let folders = match &hub {
        Some(hub) => vec![download(hub, &mut steps, &logs)?],
        None => options.model.clone(),
    };
    let name = hub.as_ref().map(HubModel::name);
    let mut locked = Vec::new();
    let standard = paths::model()?;
    match folders.is_empty() {
        true => steps.quick("Model, 92 MB", || model::fetch(None, &standard))?,
        false => steps.quick("Model", || {
            let mut outcomes = Vec::new();
            for folder in &folders {
                let found = model::lock_folder(folder, name)?;
                outcomes.push(report(folder, &found));
                locked.push((folder.clone(), found));
            }
            Ok(outcomes.join("; "))
        })?,
    }
    steps.watch(
        "enclave-server, host-proxy and kms-simulator",
        &mut servers::build(),
        &logs.join("build.log"),
    )?;
    match packages {
        Some(install) => {
            steps.join("npm packages, while the servers build", install)?;
            needs::packages_installed()?;
        }
        None => steps.quick("npm packages", || Ok("up to date".to_owned()))?,
    }
    let verifier = wasm::Options {
        policy: options.policy,
    };
    steps.quick("Verifier, WebAssembly", || {
        Ok(wasm::build(&verifier)?.to_string())
    })?;
    match page::build(page::Programs::Usual)? {
        Some(mut build) => {
            steps.watch("Page", &mut build, &logs.join("page.log"))?;
            page::finish()?;
        }
        None => steps.quick("Page", || Ok("up to date".to_owned()))?,
    }
    let mut source = ModelSource::Folders(list_folders(&locked));
    steps.quick("Sealed model", || {
        let binaries = servers::programs()?;
        if locked.is_empty() {
            let (sealed, outcome) = Sealed::prepare(&binaries, &standard)?;
            source = ModelSource::Sealed(sealed);
            return Ok(outcome.to_owned());
        }
        for (folder, lock) in &locked {
            if let (Some(path), true) = (&lock.path, lock.is_new) {
                // A lock without a self-test would stay without one.
                let vectors = self_test(&binaries, folder, path)
                    .inspect_err(|_| drop(std::fs::remove_file(path)))?;
                model::add_self_test(path, &vectors)?;
            }
        }
        Ok("none: each model is read from a folder".to_owned())
    })?;
    let mut servers = None;
    steps.quick("Servers", || {
        let how = Start {
            port: options.port,
            replicas: options.replicas,
            model: &source,
            logs: &logs,
        };
        servers = Some(Servers::start(&how, &signals)?);
        Ok("ready".to_owned())
    })?;
    let servers = servers.context("the servers did not start")?;
    let key = match source {
        ModelSource::Folders(..) => {
            "Each model was read from a folder: no key was released for it."
        }
        ModelSource::Sealed(_) => "So is the KMS that released the key of its sealed model.",
    };
    let fleet = match options.replicas {
        1 => String::new(),
        replicas => format!("  {replicas} of them stand behind one HAProxy.\n"),
    };
    println!(
        "\n  http://127.0.0.1:{}\n\n  The enclave is SIMULATED: an ordinary process on this machine, under a development root.\n{fleet}  {key}\n  It shows how everything works and protects nothing.\n  Logs are in {}. Ctrl-C stops everything.\n",
        options.port,
        logs.display()
    );
    servers.watch(&signals)
}

/// The folders with their locks. Several models need one each, so the standard one gets the lock that is compiled in.
fn list_folders(locked: &[(PathBuf, FolderLock)]) -> Vec<(PathBuf, Option<PathBuf>)> {
    let compiled = paths::root().join("enclave-server/model.lock.json");
    let lock_of = |lock: &FolderLock| match (&lock.path, locked.len()) {
        (None, 2..) => Some(compiled.clone()),
        (path, _) => path.clone(),
    };
    let folders = locked.iter();
    folders
        .map(|(folder, lock)| (folder.clone(), lock_of(lock)))
        .collect()
}

/// Downloads the model of a hub in two steps; asks the hub nothing if an earlier start did.
fn download(hub: &HubModel, steps: &mut Steps<'_>, logs: &Path) -> Result<PathBuf> {
    let folder = hub.folder()?;
    let mut listing = None;
    steps.quick("Files at the hub", || {
        if folder.exists() {
            return Ok("downloaded before".to_owned());
        }
        let found = hub.list()?;
        let outcome = found.to_string();
        listing = Some(found);
        Ok(outcome)
    })?;
    match listing {
        None => steps.quick("Download", || Ok(folder.display().to_string()))?,
        Some(listing) => steps.watch(
            "Download",
            &mut listing.download(&folder)?,
            &logs.join("model.log"),
        )?,
    }
    Ok(folder)
}

fn report(folder: &Path, lock: &FolderLock) -> String {
    let folder = folder.display();
    match &lock.path {
        None => format!("{folder} holds the standard model"),
        Some(path) if lock.is_new => format!(
            "wrote the lock of {folder} to {}; later starts refuse changed files",
            path.display()
        ),
        Some(path) => format!("{folder} is as its lock {} states", path.display()),
    }
}

/// Vectors that the server computes now, so that later starts notice where it computes others.
fn self_test(binaries: &Path, folder: &Path, lock: &Path) -> Result<Vec<u8>> {
    let output = Command::new(binaries.join("enclave-server"))
        .args(["check-model", "--print-self-test", "--model-lock"])
        .arg(lock)
        .arg(folder)
        .output()
        .context("cannot start enclave-server")?;
    ensure!(
        output.status.success(),
        "enclave-server cannot serve {}:\n{}",
        folder.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
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
