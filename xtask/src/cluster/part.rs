//! One process of the control plane.

use crate::steps::alive;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// One process. It ends when its standard input does, which happens however we end.
pub(super) struct Part {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Part {
    pub(super) fn start(
        program: &Path,
        name: &'static str,
        arguments: &[String],
        log: PathBuf,
    ) -> Result<Self> {
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(program)
            .arg(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log })
    }

    pub(super) fn alive(&mut self) -> Result<()> {
        alive(self.name, &mut self.child, &self.log)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("warning: {} may still run: {error}", self.name);
        }
    }
}
