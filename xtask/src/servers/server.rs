//! One program as a process: started, watched, stopped.

use super::{POLL, Signals};
use crate::steps::alive;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// More than a server's own drain timeout.
const STOP_TIMEOUT: Duration = Duration::from_secs(35);

/// A running program, and where its output goes. Dropping it stops it.
pub(super) struct Server {
    name: &'static str,
    child: Child,
    pub(super) log: PathBuf,
}

impl Server {
    pub(super) fn spawn(name: &'static str, mut command: Command, log: PathBuf) -> Result<Self> {
        let file = std::fs::File::create(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // A separate process group: Ctrl-C reaches us alone, and we stop the servers in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log })
    }

    pub(super) fn alive(&mut self) -> Result<()> {
        alive(self.name, &mut self.child, &self.log)
    }

    /// SIGTERM, and SIGKILL when it takes too long or a second signal says so.
    pub(super) fn stop(&mut self, signals: &Signals) -> Result<ExitStatus> {
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
