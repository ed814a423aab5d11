//! The container images, built, and run with the command that each states: a simulated enclave answers through host-proxy.

use crate::containers::{self, HOST_PROXY, SIMULATED_ENCLAVE};
use crate::process::{free_port, run};
use crate::statics;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a server in a container.
const PATIENCE: Duration = Duration::from_secs(60);
/// Program that builds and runs them.
const BUILDAH: &str = "buildah";

pub(crate) fn test() -> Result<Option<String>> {
    containers::gather()?;
    for of in [HOST_PROXY, SIMULATED_ENCLAVE] {
        run(anywhere(&mut containers::build(BUILDAH, of)?))?;
    }
    let (enclave, proxy) = (free_port()?, free_port()?);
    let _enclave = Container::start(SIMULATED_ENCLAVE, enclave, |command| command)?;
    let _proxy = Container::start(HOST_PROXY, proxy, |mut command| {
        // The place of the enclave is what the image's CMD leaves to its user.
        command.retain(|argument| !argument.starts_with("--enclave="));
        command.push(format!("--enclave=tcp:127.0.0.1:{enclave}"));
        command
    })?;
    let begun = Instant::now();
    loop {
        let answer = embed(proxy)?;
        if answer.status.success() {
            let rows = String::from_utf8(answer.stdout)?;
            ensure!(
                rows.lines().count() == 1 && rows.contains("\"embedding\":["),
                "one line was embedded, and the answer is not a row"
            );
            break;
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "the containers do not answer: {}",
            String::from_utf8_lossy(&answer.stderr)
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let page = Command::new("curl")
        .args(["--silent", "--show-error", "--fail"])
        .arg(format!("http://127.0.0.1:{proxy}/"))
        .output()
        .context("cannot run curl")?;
    ensure!(
        String::from_utf8_lossy(&page.stdout).contains("<title>"),
        "host-proxy's container serves no page"
    );
    Ok(None)
}

/// One line through a sealed channel.
fn embed(port: u16) -> Result<Output> {
    let mut child = Command::new(statics::folder()?.join("clearseal"))
        .args(["embed", "--accept-simulated", "--url"])
        .arg(format!("http://127.0.0.1:{port}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run clearseal")?;
    let mut input = child.stdin.take().context("clearseal reads nothing")?;
    // It may have ended because a service is missing: its status tells.
    input.write_all(b"a line\n").ok();
    drop(input);
    Ok(child.wait_with_output()?)
}

/// Neither a storage driver nor an isolation that needs a kernel which lets this user mount and limit what it likes.
fn anywhere(command: &mut Command) -> &mut Command {
    command
        .env("STORAGE_DRIVER", "vfs")
        .env("BUILDAH_ISOLATION", "chroot")
}

/// A running container, stopped and removed when dropped.
struct Container {
    id: String,
    child: Child,
}

impl Container {
    /// Starts what the image says, on another port, and as `change` has it; returns when the port answers.
    fn start(of: &str, port: u16, change: impl FnOnce(Vec<String>) -> Vec<String>) -> Result<Self> {
        let image = containers::name(of);
        let inspected = run_buildah(&["inspect", "--type", "image", &image])?;
        let inspected: Value = serde_json::from_str(&inspected)?;
        let config = &inspected["OCIv1"]["config"];
        let words = ["Entrypoint", "Cmd"].map(|part| config[part].as_array());
        let words = words.into_iter().flatten().flatten();
        let words = words.filter_map(Value::as_str).map(|word| {
            let ports = word.replace(":8080", &format!(":{port}"));
            ports.replace("0.0.0.0:5005", &format!("127.0.0.1:{port}"))
        });
        let command = change(words.collect());
        let id = run_buildah(&["from", &image])?;
        let child = anywhere(&mut Command::new(BUILDAH))
            .args(["run", &id, "--"])
            .args(command)
            .stdin(Stdio::null())
            // A separate process group: the programs inside end with it.
            .process_group(0)
            .spawn()
            .context("cannot run buildah")?;
        let mut container = Self { id, child };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = container.child.try_wait()? {
                bail!("the container of {of} ended ({status})");
            }
            ensure!(begun.elapsed() < PATIENCE, "{of} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(container)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let stopped = group.map(|group| kill_process_group(group, Signal::TERM));
        if !matches!(stopped, Some(Ok(()))) {
            eprintln!("warning: the container {} may still run", self.id);
        }
        self.child.wait().ok();
        if let Err(error) = run_buildah(&["rm", &self.id]) {
            eprintln!("warning: the container {} stays: {error:#}", self.id);
        }
    }
}

fn run_buildah(arguments: &[&str]) -> Result<String> {
    let output = anywhere(&mut Command::new(BUILDAH))
        .args(arguments)
        .output()
        .context("cannot run buildah")?;
    ensure!(
        output.status.success(),
        "`buildah {}` failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
