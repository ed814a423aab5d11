//! The servers as they ship, for one run: a simulated NSM, sockets instead of vsock, a folder of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::machine::{self, Usage};

/// Both servers. Dropping them ends them.
pub(super) struct System {
    enclave: Server,
    proxy: Server,
    /// Where clients reach the proxy.
    pub(super) url: String,
    /// Holds the socket between them.
    folder: PathBuf,
}

/// A process that ends with its owner.
pub(super) struct Server(pub(super) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl System {
    pub(super) const NAMES: [&str; 2] = ["enclave-server", "host-proxy"];

    pub(super) fn start(programs: &Path, model: &Path, threads: usize) -> Result<Self> {
        Self::start_with(programs, model, threads, &[])
    }

    /// The same, with further arguments of the proxy.
    pub(super) fn start_with(
        programs: &Path,
        model: &Path,
        threads: usize,
        proxy_arguments: &[&str],
    ) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("clearseal-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let socket = format!("unix:{}", folder.join("enclave").display());
        let enclave = spawn(
            Command::new(programs.join("enclave-server"))
                .args(["--simulate-nsm", "--listen", &socket, "--threads"])
                .arg(threads.to_string())
                .arg("--model")
                .arg(model),
            &folder.join("enclave.log"),
        )?;
        // A port that is free now; the proxy takes it at once.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let proxy = spawn(
            Command::new(programs.join("host-proxy"))
                .args([
                    "--listen",
                    &format!("127.0.0.1:{port}"),
                    "--enclave",
                    &socket,
                ])
                .args(proxy_arguments),
            &folder.join("proxy.log"),
        )?;
        let mut system = Self {
            enclave,
            proxy,
            url: format!("http://127.0.0.1:{port}"),
            folder,
        };
        let ready = format!("{}/readyz", system.url);
        let deadline = Instant::now() + Duration::from_secs(60);
        while ureq::get(&ready).call().is_err() {
            for (server, name) in [
                (&mut system.enclave, "enclave"),
                (&mut system.proxy, "proxy"),
            ] {
                if server.0.try_wait()?.is_some() {
                    let log = system.folder.join(format!("{name}.log"));
                    let said = std::fs::read_to_string(log).unwrap_or_default();
                    bail!(
                        "the {name} ended: {}",
                        said.lines().last().unwrap_or_default()
                    );
                }
            }
            ensure!(
                Instant::now() < deadline,
                "the servers did not become ready"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(system)
    }

    /// What each server holds now, MiB.
    pub(super) fn resident(&self) -> [f64; 2] {
        [&self.enclave, &self.proxy]
            .map(|server| machine::resident(server.0.id()).unwrap_or_default())
    }

    /// What each server used so far.
    pub(super) fn usage(&self) -> [Usage; 2] {
        [&self.enclave, &self.proxy].map(|server| machine::usage(server.0.id()).unwrap_or_default())
    }
}

pub(super) fn spawn(command: &mut Command, log: &Path) -> Result<Server> {
    let log = std::fs::File::create(log)?;
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    Ok(Server(child))
}

/// What is started beside this program.
const PROGRAMS: [&str; 3] = ["enclave-server", "host-proxy", "kms-simulator"];

/// Folder with the servers and the simulated KMS: where this program lies, so that all are of one build. They are built if they can be.
pub(super) fn programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CLEARSEAL_BIN_DIR").filter(|value| !value.is_empty()) {
        return Ok(folder.into());
    }
    let folder = std::env::current_exe()?
        .parent()
        .context("this program lies nowhere")?
        .to_path_buf();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--quiet", "--bins"])
        .args(PROGRAMS.iter().flat_map(|name| ["--package", name]))
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = command.stdin(Stdio::null()).status();
    let there = PROGRAMS.iter().all(|name| folder.join(name).is_file());
    match built {
        Ok(status) if status.success() && there => Ok(folder),
        _ => bail!(
            "the servers could not be built beside this program; CLEARSEAL_BIN_DIR names a folder that has them"
        ),
    }
}
