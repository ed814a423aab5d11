//! HAProxy before several replicas, as `deploy/haproxy` configures it.

use crate::paths;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// How the shipped configuration names its one replica.
const REPLICA: &str = "    server replica-1 127.0.0.1:8081";

/// Writes the shipped configuration, with these replicas, to `file`.
pub(crate) fn configure(file: &Path, replicas: &[String]) -> Result<()> {
    let text = configuration(replicas)?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The shipped configuration with these replicas: each an address with its options.
pub(crate) fn configuration(replicas: &[String]) -> Result<String> {
    let shipped = shipped();
    let text = fs::read_to_string(&shipped)
        .with_context(|| format!("cannot read {}", shipped.display()))?;
    with_replicas(&text, replicas)
}

/// The configuration that `deploy/` ships.
pub(crate) fn shipped() -> PathBuf {
    paths::root().join("deploy/haproxy/haproxy.cfg")
}

/// Each line that names the shipped replica becomes one line for each of `replicas`.
fn with_replicas(shipped: &str, replicas: &[String]) -> Result<String> {
    ensure!(
        shipped.lines().any(|line| line.starts_with(REPLICA)),
        "the configuration of HAProxy names no replica-1"
    );
    let mut text = String::new();
    for line in shipped.lines() {
        let Some(rest) = line.strip_prefix(REPLICA) else {
            writeln!(text, "{line}")?;
            continue;
        };
        for (number, address) in (1..).zip(replicas) {
            let rest = rest.replace("/replica-1", &format!("/replica-{number}"));
            writeln!(text, "    server replica-{number} {address}{rest}")?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_gets_every_replica() {
        let shipped = format!("backend a\n{REPLICA}\nbackend b\n{REPLICA} track a/replica-1\n");
        let replicas = ["127.0.0.1:1", "127.0.0.1:2"].map(str::to_owned);
        assert_eq!(
            with_replicas(&shipped, &replicas).unwrap(),
            "backend a\n    server replica-1 127.0.0.1:1\n    server replica-2 127.0.0.1:2\n\
             backend b\n    server replica-1 127.0.0.1:1 track a/replica-1\n    server replica-2 127.0.0.1:2 track a/replica-2\n"
        );
        assert!(with_replicas("backend a\n", &replicas).is_err());
    }
}
