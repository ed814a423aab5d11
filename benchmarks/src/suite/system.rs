//! The released servers for one run: with a simulated NSM, sockets instead of vsock, and a temporary folder.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use ureq::Body;
use ureq::http::Response;

use super::Run;
use crate::machine::{self, Usage};
use crate::peer::last_line;

/// Both servers. Dropping them ends them.
pub(super) struct System {
    enclave: Server,
    proxy: Server,
    /// Address of the proxy.
    pub(super) address: SocketAddr,
    pub(super) url: String,
    /// Contains the socket between the servers.
    _folder: TempDir,
}

/// A process that ends with its owner.
pub(super) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `command`; its output goes to the file `log`, whose name also names the server.
    pub(super) fn start(command: &mut Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child, log })
    }

    /// Resources used so far, if the kernel reports them.
    pub(super) fn usage(&self) -> Option<Usage> {
        machine::usage(self.child.id())
    }

    /// Fails with the last line of its log if it has ended.
    fn must_run(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            let name = self.log.file_stem().unwrap_or_default().display();
            bail!("the {name} ended: {}", last_line(&self.log));
        }
        Ok(())
    }
}

/// A temporary folder, removed when dropped. Its name states its origin in case an interrupted run leaves it behind.
pub(super) fn scratch() -> Result<TempDir> {
    Ok(tempfile::Builder::new()
        .prefix("clearseal-bench-")
        .tempdir()?)
}

/// Polls `url` every `pause` until it answers. Fails if one of `servers` has ended.
pub(super) fn ready<const N: usize>(
    url: &str,
    pause: Duration,
    mut servers: [&mut Server; N],
) -> Result<Response<Body>> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(answer) = ureq::get(url).call() {
            return Ok(answer);
        }
        for server in &mut servers {
            server.must_run()?;
        }
        ensure!(
            Instant::now() < deadline,
            "the servers did not become ready in a minute"
        );
        std::thread::sleep(pause);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl System {
    pub(super) const NAMES: [&str; 2] = ["enclave-server", "host-proxy"];

    pub(super) fn start(run: &Run, programs: &Path) -> Result<Self> {
        Self::start_with(run, programs, &[])
    }

    /// Like `start`, with further arguments for the proxy.
    pub(super) fn start_with(run: &Run, programs: &Path, proxy_arguments: &[&str]) -> Result<Self> {
        let folder = scratch()?;
        let within = |name| folder.path().join(name);
        let socket = format!("unix:{}", within("enclave").display());
        let enclave = Server::start(
            Command::new(programs.join("enclave-server"))
                .args(["--simulate-nsm", "--listen", &socket, "--threads"])
                .arg(run.options.threads.to_string())
                .arg("--model")
                .arg(&run.options.model),
            within("enclave.log"),
        )?;
        let address = free_address()?;
        let proxy = Server::start(
            Command::new(programs.join("host-proxy"))
                .args(["--listen", &address.to_string(), "--enclave", &socket])
                .args(proxy_arguments),
            within("proxy.log"),
        )?;
        let mut system = Self {
            enclave,
            proxy,
            address,
            url: format!("http://{address}"),
            _folder: folder,
        };
        let url = format!("{}/readyz", system.url);
        let servers = [&mut system.enclave, &mut system.proxy];
        ready(&url, Duration::from_millis(5), servers)?;
        Ok(system)
    }

    /// Resident memory of each server, MiB.
    pub(super) fn resident(&self) -> [f64; 2] {
        [&self.enclave, &self.proxy]
            .map(|server| machine::resident(server.child.id()).unwrap_or_default())
    }

    /// Resources used by each server so far.
    pub(super) fn usage(&self) -> [Usage; 2] {
        [&self.enclave, &self.proxy].map(|server| server.usage().unwrap_or_default())
    }
}

/// An address with a port that is currently free; use it at once.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Programs of the same build that the suites start.
const PROGRAMS: [&str; 3] = ["enclave-server", "host-proxy", "kms-simulator"];

/// Folder with the servers and the simulated KMS. If there are none, the record states why `subject` is absent.
pub(super) fn programs(run: &mut Run, subject: &str) -> Option<PathBuf> {
    run.or_absent(subject, find_programs())
}

/// Folder of this program, so that all programs are of one build. Builds them if possible.
fn find_programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CLEARSEAL_BIN_DIR").filter(|value| !value.is_empty()) {
        return Ok(folder.into());
    }
    let folder = std::env::current_exe()?
        .parent()
        .context("this program has no parent folder")?
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
            "the servers could not be built next to this program; CLEARSEAL_BIN_DIR names a folder that has them"
        ),
    }
}
