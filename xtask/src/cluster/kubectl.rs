//! Asking the API server, as an operator does.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// kubectl of the control plane's version, with an administrator's rights.
pub(crate) struct Kubectl {
    pub(super) program: PathBuf,
    /// Holds its configuration and its caches.
    pub(super) home: PathBuf,
}

impl Kubectl {
    /// The command, for a caller that does other work while it runs.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.home.join("kubeconfig"))
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns its standard output.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        let output = self.output(arguments)?;
        ensure!(
            output.status.success(),
            "`{}` failed: {}",
            shown(arguments),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// An object, or a list of them.
    pub(crate) fn get(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.run(&[&["get", "--output=json"], arguments].concat())?;
        serde_json::from_str(&text).context("kubectl printed no JSON")
    }

    /// Creates an object; the error is the server's.
    pub(crate) fn create(&self, object: &Value) -> Result<()> {
        let mut child = self
            .command(&["create", "--filename=-"])
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot run kubectl")?;
        let mut input = child.stdin.take().context("kubectl reads nothing")?;
        input.write_all(object.to_string().as_bytes())?;
        drop(input);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    fn output<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Output> {
        self.command(arguments)
            .output()
            .context("cannot run kubectl")
    }
}

fn shown<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.as_ref().to_string_lossy())
        .collect();
    format!("kubectl {}", words.join(" "))
}
