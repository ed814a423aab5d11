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

    /// Fails if one of the servers has ended.
    pub(super) fn check_running(&mut self) -> Result<()> {
        self.enclave.must_run()?;
        self.proxy.must_run()
    }

    /// Resident memory of each server, MiB. Fails if one has ended: the kernel then reports no memory.
    pub(super) fn resident(&self) -> Result<[f64; 2]> {
        self.read(|server| machine::resident(server.child.id()))
    }

    /// Resources used by each server so far. Fails if one has ended.
    pub(super) fn usage(&self) -> Result<[Usage; 2]> {
        self.read(Server::usage)
    }

    fn read<T>(&self, of: impl Fn(&Server) -> Option<T>) -> Result<[T; 2]> {
        let one = |server: &Server, name: &str| {
            of(server).with_context(|| format!("{name} does not run"))
        };
        let [enclave, proxy] = Self::NAMES;
        Ok([one(&self.enclave, enclave)?, one(&self.proxy, proxy)?])
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
    let folder = run.or_absent(subject, find_programs())?;
    let builds = PROGRAMS.map(|name| {
        let build = machine::build_of(&folder.join(name));
        format!("{name} is {}", build.as_deref().unwrap_or("missing"))
    });
    let note = format!("Programs that were started: {}.", builds.join(", "));
    if !run.notes.contains(&note) {
        run.notes.push(note);
    }
    Some(folder)
}

/// The arguments that make cargo write to a folder: its profile, and its target where cargo got one.
#[derive(Debug, PartialEq)]
struct Place {
    profile: String,
    target: Option<String>,
    target_dir: PathBuf,
}

/// Reads the place from `folder`: `TARGET_DIR/PROFILE` or `TARGET_DIR/TARGET/PROFILE`. cargo marks the target directory.
fn place_of(folder: &Path) -> Option<Place> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let profile = match name(folder)?.as_str() {
        "debug" => "dev".to_owned(),
        other => other.to_owned(),
    };
    let parent = folder.parent()?;
    let is_marked = |folder: &Path| folder.join("CACHEDIR.TAG").is_file();
    let (target, target_dir) = match is_marked(parent) {
        true => (None, parent),
        false => (Some(name(parent)?), parent.parent()?),
    };
    is_marked(target_dir).then(|| Place {
        profile,
        target,
        target_dir: target_dir.to_owned(),
    })
}

/// Folder of this program. Builds the others into it, so that all programs are of one build.
fn find_programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CLEARSEAL_BIN_DIR").filter(|value| !value.is_empty()) {
        return Ok(folder.into());
    }
    let folder = std::env::current_exe()?
        .parent()
        .context("this program has no parent folder")?
        .to_path_buf();
    let place = place_of(&folder).with_context(|| {
        format!(
            "{} is not a folder of cargo's; CLEARSEAL_BIN_DIR names a folder that has the servers",
            folder.display()
        )
    })?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--quiet", "--bins"])
        .args(PROGRAMS.iter().flat_map(|name| ["--package", name]))
        .args(["--profile", &place.profile])
        .arg("--target-dir")
        .arg(&place.target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(target) = &place.target {
        command.args(["--target", target]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_are_built_where_this_program_is() {
        let folder = scratch().unwrap();
        let root = folder.path().join("static");
        std::fs::create_dir(&root).unwrap();
        let place = |path: &str| place_of(&root.join(path));
        assert_eq!(place("release"), None);
        std::fs::write(root.join("CACHEDIR.TAG"), "").unwrap();
        let expected = |profile: &str, target: Option<&str>| {
            Some(Place {
                profile: profile.to_owned(),
                target: target.map(str::to_owned),
                target_dir: root.clone(),
            })
        };
        let musl = "x86_64-unknown-linux-musl";
        assert_eq!(place("debug"), expected("dev", None));
        let within = format!("{musl}/release");
        assert_eq!(place(&within), expected("release", Some(musl)));
        assert_eq!(place("a/b/release"), None);
    }

    #[test]
    fn a_server_that_ended_has_no_memory() {
        let folder = scratch().unwrap();
        let start = |name: &str, command: &mut Command| {
            Server::start(command, folder.path().join(name)).unwrap()
        };
        let mut ended = start("enclave.log", Command::new("sh").args(["-c", "echo gone"]));
        ended.child.wait().unwrap();
        let mut system = System {
            enclave: ended,
            proxy: start("proxy.log", Command::new("sleep").arg("60")),
            address: free_address().unwrap(),
            url: String::new(),
            _folder: scratch().unwrap(),
        };
        assert!(system.usage().is_err() && system.resident().is_err());
        let error = system.check_running().unwrap_err().to_string();
        assert_eq!(error, "the enclave ended: gone");
    }
}
