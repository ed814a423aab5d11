//! An emulated Nitro machine: QEMU's `nitro-enclave` machine boots an enclave image, measures it and provides `/dev/nsm`;
//! vhost-device-vsock provides AF_VSOCK, which a parent reaches through a Unix socket.
//!
//! Differences from AWS: documents are not signed, nothing is isolated from the host, and the guest's parent is CID 2.
#![forbid(unsafe_code)]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

/// Paths of the machine's programs; `cargo xtask image emulator` builds them.
pub struct Parts {
    folder: PathBuf,
}

impl Parts {
    /// Finds the programs in `$CLEARSEAL_ENCLAVE_PARTS`, or else in the user's cache folder.
    ///
    /// # Errors
    /// If a program is missing; the error names it, and the command that builds it.
    pub fn find() -> Result<Self> {
        let folder = match std::env::var_os("CLEARSEAL_ENCLAVE_PARTS") {
            Some(folder) => PathBuf::from(folder),
            None => cache()?.join("clearseal/enclave/bin"),
        };
        for part in [QEMU, VSOCK].iter().chain(&FIRMWARE) {
            ensure!(
                folder.join(part).is_file(),
                "{part} is not in {}; get it with: cargo xtask image emulator",
                folder.display()
            );
        }
        Ok(Self { folder })
    }
}

/// A running machine. Dropping it ends it.
pub struct Machine {
    qemu: Child,
    vsock: Child,
    // Contains the socket between both programs.
    _folder: TempDir,
}

impl Machine {
    /// Boots `image` with `mebibytes` MiB of memory, and creates the Unix socket `socket` for its ports. Returns the machine and
    /// its console.
    ///
    /// # Errors
    /// If a program cannot be started, or creates no socket within ten seconds.
    pub fn boot(
        parts: &Parts,
        image: &Path,
        socket: &Path,
        mebibytes: u32,
    ) -> Result<(Self, ChildStdout)> {
        ensure!(image.is_file(), "there is no image {}", image.display());
        ensure!(
            socket.as_os_str().len() <= MAX_SOCKET_PATH,
            "{} is too long for a socket's path, of at most {MAX_SOCKET_PATH} bytes",
            socket.display()
        );
        ensure!(
            !socket.exists(),
            "{} exists; another machine may use it: name another, or remove it",
            socket.display()
        );
        let folder = tempfile::Builder::new()
            .prefix("enclave-")
            .tempdir()
            .context("cannot make a folder")?;
        let between = folder.path().join("vhost.sock");
        let mut vsock = Command::new(parts.folder.join(VSOCK))
            .arg("--vm")
            .arg(format!(
                "guest-cid={GUEST_CID},socket={},uds-path={}",
                between.display(),
                socket.display()
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {VSOCK}"))?;
        if let Err(error) = wait_for(&between, &mut vsock) {
            end(&mut vsock);
            return Err(error);
        }
        let qemu = Command::new(parts.folder.join(QEMU))
            .arg("-L")
            .arg(&parts.folder)
            .args(["-M", MACHINE, "-accel", "tcg", "-cpu", "max", "-smp", "1"])
            .args([
                "-nodefaults",
                "-nographic",
                "-no-reboot",
                "-serial",
                "stdio",
            ])
            .args(["-m", &format!("{mebibytes}M"), "-chardev"])
            .arg(format!("socket,id=vsock,path={}", between.display()))
            .arg("-kernel")
            .arg(image)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {QEMU}"));
        let mut qemu = match qemu {
            Ok(qemu) => qemu,
            Err(error) => {
                end(&mut vsock);
                return Err(error);
            }
        };
        let console = qemu.stdout.take().context("QEMU has no output")?;
        let machine = Self {
            qemu,
            vsock,
            _folder: folder,
        };
        Ok((machine, console))
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// If the process status cannot be read.
    pub fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.qemu.try_wait()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        end(&mut self.qemu);
        end(&mut self.vsock);
    }
}

/// Copies a machine's console to `to` until it ends.
pub fn copy_console(mut console: impl Read, mut to: impl std::io::Write) {
    let mut block = [0; 4096];
    while let Ok(count @ 1..) = console.read(&mut block) {
        let written = to.write_all(block.get(..count).unwrap_or_default());
        if written.and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

const QEMU: &str = "qemu-system-x86_64";
const VSOCK: &str = "vhost-device-vsock";
/// The second is not needed to boot an image, but without it QEMU prints a warning on the console.
const FIRMWARE: [&str; 2] = ["qboot.rom", "linuxboot_dma.bin"];
/// The id in documents: in AWS's form (`i-…-enc…`), but not of a real instance.
const MACHINE: &str = "nitro-enclave,vsock=vsock,id=i-0123456789abcdef0-enc0123456789abcdef";
const GUEST_CID: u32 = 4;
/// Longest path of a Unix socket, including the terminating zero (unix(7)).
const MAX_SOCKET_PATH: usize = 107;
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

fn cache() -> Result<PathBuf> {
    match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(std::env::home_dir()
            .context("neither HOME nor XDG_CACHE_HOME is set")?
            .join(".cache")),
    }
}

fn wait_for(socket: &Path, maker: &mut Child) -> Result<()> {
    let begun = Instant::now();
    while !socket.exists() {
        if let Some(status) = maker.try_wait()? {
            bail!("{VSOCK} ended ({status})");
        }
        ensure!(begun.elapsed() < PATIENCE, "{VSOCK} makes no socket");
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn end(child: &mut Child) {
    // Fails if it has ended already, which is fine.
    drop(child.kill());
    drop(child.wait());
}
