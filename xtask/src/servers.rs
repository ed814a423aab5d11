//! The servers as processes: started, waited for, watched, stopped.

use crate::paths;
use crate::sealed::Sealed;
use crate::steps::{SHOWN_LINES, tail};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Iterator;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// More than a server's own drain timeout.
const STOP_TIMEOUT: Duration = Duration::from_secs(35);
const POLL: Duration = Duration::from_millis(50);
/// Bytes that a Unix socket's path can have, with the zero at its end (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// The wish to stop: Ctrl-C, SIGTERM, or a closed terminal.
pub(crate) struct Signals(Receiver<()>);

impl Signals {
    pub(crate) fn listen() -> Result<Self> {
        let mut signals =
            Iterator::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
        let (send, receive) = channel();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                if send.send(()).is_err() {
                    break;
                }
            }
        });
        Ok(Self(receive))
    }

    /// Waits; true when a signal came.
    pub(crate) fn came_within(&self, time: Duration) -> bool {
        match self.0.recv_timeout(time) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        }
    }
}

/// Where the enclave has its model from.
pub(crate) enum ModelSource {
    /// A plain folder.
    Folder(PathBuf),
    /// The proxy, sealed; a simulated KMS releases the key.
    Sealed(Sealed),
}

/// Enclave and proxy, and the simulated KMS where there is one. Dropping them stops all.
pub(crate) struct Servers {
    // In the order in which they stop: nothing is relayed to an enclave that is gone.
    proxy: Server,
    enclave: Server,
    kms: Option<Server>,
}

impl Servers {
    pub(crate) fn start(
        port: u16,
        model: &ModelSource,
        logs: &Path,
        signals: &Signals,
    ) -> Result<Self> {
        let address = socket(logs, "enclave", port)?;
        let parent = socket(logs, "parent", port)?;
        let (kms, release) = match model {
            ModelSource::Folder(_) => (None, None),
            ModelSource::Sealed(sealed) => {
                let mut kms = Server::spawn("kms-simulator", port, logs, |command| {
                    command.args(["serve", "--key"]).arg(sealed.key());
                })?;
                let (arn, url) = key_and_url(&mut kms, signals)?;
                (Some(kms), Some((sealed, arn, url)))
            }
        };
        let enclave = Server::spawn("enclave-server", port, logs, |command| {
            command.args(["--listen", &address, "--simulate-nsm", "--log=text"]);
            // Otherwise the environment's would stand beside --parent.
            command.env_remove("CLEARSEAL_MODEL");
            if let ModelSource::Folder(folder) = model {
                command.arg("--model").arg(folder);
            }
            if let Some((sealed, arn, _)) = &release {
                command
                    .args(["--parent", &parent, "--kms-key", arn, "--simulated-root"])
                    .arg(sealed.root());
            }
        })?;
        let proxy = Server::spawn("host-proxy", port, logs, |command| {
            command
                .args(["--enclave", &address, "--log=text"])
                .args(["--listen", &format!("127.0.0.1:{port}"), "--web"])
                .arg(paths::root().join("web/dist"))
                .arg("--receipt-log")
                .arg(logs.join(format!("receipts-{port}.redb")));
            if let Some((sealed, _, url)) = &release {
                command
                    .args(["--parent-listen", &parent, "--simulate-kms", url])
                    .arg("--models")
                    .arg(sealed.models());
            }
        })?;
        let mut servers = Self {
            proxy,
            enclave,
            kms,
        };
        let begun = Instant::now();
        while !is_ready(port) {
            servers.alive()?;
            if signals.came_within(POLL) {
                bail!("stopped before the servers were ready");
            }
            if begun.elapsed() > READY_TIMEOUT {
                bail!(
                    "the servers are not ready after {} s; the enclave's last lines:\n\n{}",
                    READY_TIMEOUT.as_secs(),
                    tail(&servers.enclave.log, SHOWN_LINES)
                );
            }
        }
        // Something else may have answered on the port while our proxy was failing to take it.
        servers.alive()?;
        Ok(servers)
    }

    /// Returns when a signal has stopped both, or fails when one of them ended by itself.
    pub(crate) fn watch(mut self, signals: &Signals) -> Result<()> {
        loop {
            if signals.came_within(Duration::from_millis(200)) {
                println!("\nStopping…");
                self.proxy.stop(signals)?;
                self.enclave.stop(signals)?;
                if let Some(kms) = &mut self.kms {
                    kms.stop(signals)?;
                }
                println!("Stopped.");
                return Ok(());
            }
            self.alive()?;
        }
    }

    fn alive(&mut self) -> Result<()> {
        self.enclave.alive()?;
        if let Some(kms) = &mut self.kms {
            kms.alive()?;
        }
        self.proxy.alive()
    }
}

struct Server {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Server {
    fn spawn(
        name: &'static str,
        port: u16,
        logs: &Path,
        arguments: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let log = logs.join(format!("{name}-{port}.log"));
        let file = std::fs::File::create(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(paths::target()?.join("release").join(name));
        arguments(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // A group of its own: Ctrl-C reaches us alone, and we stop them in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log })
    }

    fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(
                "{} ended by itself ({status}); its last lines, all are in {}:\n\n{}",
                self.name,
                self.log.display(),
                tail(&self.log, SHOWN_LINES)
            ),
        }
    }

    /// SIGTERM, and SIGKILL when it takes too long or a second signal says so.
    fn stop(&mut self, signals: &Signals) -> Result<ExitStatus> {
        stop(&self.child).with_context(|| format!("cannot stop {}", self.name))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if signals.came_within(POLL) || begun.elapsed() > STOP_TIMEOUT {
                eprintln!("{} did not stop in time and is killed", self.name);
                self.child.kill()?;
                return Ok(self.child.wait()?);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let stopped = stop(&self.child).and_then(|()| Ok(self.child.wait()?));
            if let Err(error) = stopped {
                eprintln!("warning: {} may still run: {error:#}", self.name);
            }
        }
    }
}

/// Asks a process to end.
pub(crate) fn stop(child: &Child) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    match kill_process(
        pid.context("a process without an identifier")?,
        Signal::TERM,
    ) {
        // It has just ended: what we wanted.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the simulated KMS prints when it answers: its key's ARN, and its URL.
fn key_and_url(kms: &mut Server, signals: &Signals) -> Result<(String, String)> {
    let begun = Instant::now();
    loop {
        kms.alive()?;
        let said = std::fs::read_to_string(&kms.log)?;
        let line = said.lines().find(|line| line.starts_with("arn:"));
        if let Some((arn, url)) = line.and_then(|line| line.split_once(' ')) {
            return Ok((arn.to_owned(), url.to_owned()));
        }
        if signals.came_within(POLL) {
            bail!("stopped before the servers were ready");
        }
        if begun.elapsed() > READY_TIMEOUT {
            bail!("the simulated KMS did not start; see {}", kms.log.display());
        }
    }
}

/// An address beside the logs, or, when that path is too long for a socket, in a folder that only this user can enter.
fn socket(logs: &Path, of: &str, port: u16) -> Result<String> {
    let path = socket_path(logs, &format!("{of}-{port}.sock"))?;
    if path.exists() {
        // The port is free, so what used this socket is gone.
        std::fs::remove_file(&path)?;
    }
    Ok(format!("unix:{}", path.display()))
}

fn socket_path(logs: &Path, name: &str) -> Result<PathBuf> {
    let near = logs.join(name);
    if near.as_os_str().len() <= MAX_SOCKET_PATH {
        return Ok(near);
    }
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let user = crate::needs::output("id", &["-u"])?;
            let folder = std::env::temp_dir().join(format!("clearseal-{user}"));
            private(&folder)?;
            folder
        }
    };
    Ok(folder.join(format!("clearseal-{name}")))
}

fn private(folder: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make {}", folder.display()));
        }
        Ok(()) | Err(_) => {}
    }
    let found = std::fs::symlink_metadata(folder)?;
    let ours = rustix::process::getuid().as_raw() == found.uid();
    if !found.is_dir() || !ours || found.mode() & 0o077 != 0 {
        bail!(
            "{} is not a private folder of yours; remove it",
            folder.display()
        );
    }
    Ok(())
}

/// Whether the proxy says that the enclave takes requests.
fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<Vec<u8>> {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(6)))?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(4096).read_to_end(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
}
