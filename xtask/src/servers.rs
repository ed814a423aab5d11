//! The servers as processes: started, waited for, watched, stopped.

mod server;

use crate::sealed::Sealed;
use crate::steps::{SHOWN_LINES, tail};
use crate::{balancer, needs, paths, process};
use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Iterator;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use server::Server;
pub(crate) use server::stop;

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// Bytes that a Unix socket's path can have, with the zero at its end (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// The programs that `npm start` runs: optimised, and not across crates, which would take as long again for each of them.
const PROFILE: &str = "start";

/// Builds them together with the program that writes the page's samples: packages that are built together share the features of their
/// dependencies, and a separate build would compile most of these again.
pub(crate) fn build() -> Command {
    process::cargo(&[
        "build",
        "--profile",
        PROFILE,
        "--package=enclave-server",
        "--package=host-proxy",
        "--package=kms-simulator",
        "--package=forge",
        "--features=forge/samples",
    ])
}

/// Where they are.
pub(crate) fn programs() -> Result<PathBuf> {
    Ok(paths::target()?.join(PROFILE))
}

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

/// Where the enclave has its models from.
pub(crate) enum ModelSource {
    /// Plain folders, each with its lock; the standard model needs none where it is the only one.
    Folders(Vec<(PathBuf, Option<PathBuf>)>),
    /// The proxy, sealed; a simulated KMS releases the key.
    Sealed(Sealed),
}

/// Programs to start, with their settings.
pub(crate) struct Start<'a> {
    /// Where clients come.
    pub(crate) port: u16,
    pub(crate) replicas: u8,
    pub(crate) model: &'a ModelSource,
    pub(crate) logs: &'a Path,
}

/// Enclaves and proxies, the simulated KMS where there is one, and the balancer where there are several. Dropping them stops all.
pub(crate) struct Servers {
    // In the order in which they stop: nothing is relayed to what is gone.
    balancer: Option<Server>,
    proxies: Vec<Server>,
    enclaves: Vec<Server>,
    kms: Option<Server>,
}

/// The simulated KMS's key and address, and the sealed model.
type Release<'a> = (&'a Sealed, String, String);

impl Servers {
    pub(crate) fn start(how: &Start<'_>, signals: &Signals) -> Result<Self> {
        let mut servers = Self {
            balancer: None,
            proxies: Vec::new(),
            enclaves: Vec::new(),
            kms: None,
        };
        let mut release = None;
        if let ModelSource::Sealed(sealed) = how.model {
            let kms = how.spawn("kms-simulator", &how.port.to_string(), |command| {
                command.args(["serve", "--key"]).arg(sealed.key());
            })?;
            let kms = servers.kms.insert(kms);
            let (arn, url) = key_and_url(kms, signals)?;
            release = Some((sealed, arn, url));
        }
        let mut addresses = Vec::new();
        for number in 1..=how.replicas {
            let address = match how.replicas {
                1 => SocketAddr::from(([127, 0, 0, 1], how.port)),
                _ => free_address()?,
            };
            servers.start_replica(how, number, address, release.as_ref())?;
            addresses.push(address);
        }
        // Before the balancer may send anybody there.
        for address in &addresses {
            servers.wait_until_ready(*address, signals)?;
        }
        if how.replicas > 1 {
            servers.balancer = Some(start_balancer(how, &addresses)?);
            let address = SocketAddr::from(([127, 0, 0, 1], how.port));
            servers.wait_until_ready(address, signals)?;
        }
        // Something else may have answered on the port while our proxy was failing to take it.
        servers.alive()?;
        Ok(servers)
    }

    fn start_replica(
        &mut self,
        how: &Start<'_>,
        number: u8,
        listen: SocketAddr,
        release: Option<&Release<'_>>,
    ) -> Result<()> {
        let name = match how.replicas {
            1 => how.port.to_string(),
            _ => format!("{}-{number}", how.port),
        };
        let address = socket(how.logs, "enclave", &name)?;
        let parent = socket(how.logs, "parent", &name)?;
        let shared_root = match how.replicas {
            1 => None,
            _ => Some(shared_root(how.logs)?),
        };
        self.enclaves
            .push(how.spawn("enclave-server", &name, |command| {
                command.args(["--listen", &address, "--simulate-nsm", "--log=text"]);
                // Otherwise the environment's value would apply together with --parent.
                command.env_remove("CLEARSEAL_MODEL");
                command.env_remove("CLEARSEAL_MODEL_LOCK");
                if let ModelSource::Folders(folders) = how.model {
                    for (folder, lock) in folders {
                        command.arg("--model").arg(folder);
                        if let Some(lock) = lock {
                            command.arg("--model-lock").arg(lock);
                        }
                    }
                    // Whichever replica a client asks for the development policy, it judges the others too.
                    if let Some(root) = &shared_root {
                        command.arg("--simulated-root").arg(root);
                    }
                }
                if let Some((sealed, arn, _)) = release {
                    command
                        .args(["--parent", &parent, "--kms-key", arn, "--simulated-root"])
                        .arg(sealed.root());
                }
                if how.replicas > 1 {
                    let share = processors() / usize::from(how.replicas);
                    command.args(["--threads", &share.max(1).to_string()]);
                }
            })?);
        self.proxies.push(how.spawn("host-proxy", &name, |command| {
            command
                .args(["--enclave", &address, "--log=text"])
                .args(["--listen", &listen.to_string(), "--web"])
                .arg(paths::root().join("web/dist"))
                .arg("--receipt-log")
                .arg(how.logs.join(format!("receipts-{name}.redb")));
            if how.replicas > 1 {
                // The balancer has one address for everybody, and bounds its clients.
                command.args(["--source-share=100", "--source-rate=1073741824"]);
            }
            if let Some((sealed, _, url)) = release {
                command
                    .args(["--parent-listen", &parent, "--simulate-kms", url])
                    .arg("--models")
                    .arg(sealed.models());
            }
        })?);
        Ok(())
    }

    fn wait_until_ready(&mut self, address: SocketAddr, signals: &Signals) -> Result<()> {
        let begun = Instant::now();
        while !is_ready(address) {
            self.alive()?;
            if signals.came_within(POLL) {
                bail!("stopped before the servers were ready");
            }
            if begun.elapsed() > READY_TIMEOUT {
                let shown = self.enclaves.iter().map(|enclave| {
                    format!(
                        "{}:\n\n{}",
                        enclave.log.display(),
                        tail(&enclave.log, SHOWN_LINES)
                    )
                });
                bail!(
                    "{address} is not ready after {} s; the enclaves' last lines:\n\n{}",
                    READY_TIMEOUT.as_secs(),
                    shown.collect::<Vec<_>>().join("\n")
                );
            }
        }
        Ok(())
    }

    /// Returns when a signal has stopped all, or fails when one ended by itself that is not one replica of several.
    pub(crate) fn watch(mut self, signals: &Signals) -> Result<()> {
        loop {
            if signals.came_within(Duration::from_millis(200)) {
                println!("\nStopping…");
                for server in self.all() {
                    server.stop(signals)?;
                }
                println!("Stopped.");
                return Ok(());
            }
            self.go_on()?;
        }
    }

    fn alive(&mut self) -> Result<()> {
        let mut servers: Vec<_> = self.all().collect();
        // Report dependencies of others first: their output explains more.
        servers.reverse();
        servers.into_iter().try_for_each(Server::alive)
    }

    /// Forgets the programs of replicas that have ended, and fails where something ended that the others cannot go on without.
    fn go_on(&mut self) -> Result<()> {
        for servers in [&mut self.enclaves, &mut self.proxies] {
            let mut index = 0;
            while servers.len() > 1 && index < servers.len() {
                match servers[index].alive() {
                    Ok(()) => index += 1,
                    Err(ended) => {
                        eprintln!("{ended:#}\n\nThe other replicas go on.");
                        servers.remove(index);
                    }
                }
            }
        }
        self.alive()
    }

    /// In the order in which they stop.
    fn all(&mut self) -> impl std::iter::Iterator<Item = &mut Server> {
        let proxies = self.balancer.iter_mut().chain(&mut self.proxies);
        proxies.chain(&mut self.enclaves).chain(&mut self.kms)
    }
}

impl Start<'_> {
    /// One of our own programs; `name` tells its files from those of others.
    fn spawn(
        &self,
        program: &'static str,
        name: &str,
        arguments: impl FnOnce(&mut Command),
    ) -> Result<Server> {
        let mut command = Command::new(programs()?.join(program));
        arguments(&mut command);
        Server::spawn(
            program,
            command,
            self.logs.join(format!("{program}-{name}.log")),
        )
    }
}

fn start_balancer(how: &Start<'_>, replicas: &[SocketAddr]) -> Result<Server> {
    let file = how.logs.join(format!("haproxy-{}.cfg", how.port));
    let replicas: Vec<_> = replicas.iter().map(ToString::to_string).collect();
    balancer::configure(&file, &replicas)?;
    let admin = socket(how.logs, "haproxy", &how.port.to_string())?;
    let metrics = socket(how.logs, "haproxy-metrics", &how.port.to_string())?;
    let mut command = Command::new(needs::find("haproxy").context("haproxy is missing")?);
    command
        .arg("-db")
        .arg("-f")
        .arg(&file)
        .env("CLEARSEAL_LISTEN", format!("127.0.0.1:{}", how.port))
        .env("CLEARSEAL_ADMIN", admin.trim_start_matches("unix:"))
        .env("CLEARSEAL_METRICS", metrics.replace("unix:", "unix@"));
    let log = how.logs.join(format!("haproxy-{}.log", how.port));
    Server::spawn("haproxy", command, log)
}

/// A seed of the simulated modules' root that all replicas share, made once.
fn shared_root(logs: &Path) -> Result<PathBuf> {
    let file = logs.join("simulated-root.seed");
    if !file.exists() {
        let mut seed = [0; 32];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut seed))
            .context("the operating system gives no random bytes")?;
        std::fs::write(&file, base16ct::lower::encode_string(&seed))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(file)
}

/// An address that is free now.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    Ok(listener.local_addr()?)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the key's ARN and the URL that the simulated KMS prints when it is ready.
fn key_and_url(kms: &mut Server, signals: &Signals) -> Result<(String, String)> {
    let begun = Instant::now();
    loop {
        kms.alive()?;
        let printed = std::fs::read_to_string(&kms.log)?;
        let line = printed.lines().find(|line| line.starts_with("arn:"));
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

/// An address next to the logs, or, when that path is too long for a socket, in a folder that only this user can enter.
fn socket(logs: &Path, of: &str, name: &str) -> Result<String> {
    let path = socket_path(logs, &format!("{of}-{name}.sock"))?;
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
fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<Vec<u8>> {
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
