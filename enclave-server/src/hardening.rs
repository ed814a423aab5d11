//! Protects the memory of this process before it holds keys.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps, and access of other processes to this one's memory.
///
/// # Errors
/// The error of the system.
pub fn forbid_dumps() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs in a separate process, because this cannot be undone.
    #[test]
    fn a_process_that_forbids_dumps_has_none() {
        if std::env::var_os("CLEARSEAL_FORBID_DUMPS").is_some() {
            forbid_dumps().unwrap();
            let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
            let core = limits
                .lines()
                .find(|line| line.starts_with("Max core file size"));
            let words: Vec<_> = core.unwrap().split_whitespace().collect();
            assert_eq!(words[4..6], ["0", "0"]);
            assert_eq!(
                rustix::process::dumpable_behavior().unwrap(),
                DumpableBehavior::NotDumpable
            );
            return;
        }
        let status = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "hardening::tests::a_process_that_forbids_dumps_has_none",
            ])
            .env("CLEARSEAL_FORBID_DUMPS", "1")
            .status()
            .unwrap();
        assert!(status.success());
    }
}
