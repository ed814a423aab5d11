//! The program that the enclave runs.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

use crate::InitError;

/// Its command line and environment.
pub(crate) struct Program {
    command: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Program {
    /// Reads `/cmd` and `/env` while the ramdisks are still the root.
    pub(crate) fn read() -> Result<Self, InitError> {
        let command =
            fs::read_to_string("/cmd").map_err(|_| InitError::Image("/cmd is missing"))?;
        let environment = fs::read_to_string("/env").unwrap_or_default();
        Self::parse(&command, &environment)
    }

    fn parse(command: &str, environment: &str) -> Result<Self, InitError> {
        let command: Vec<String> = command.lines().map(str::to_owned).collect();
        if command
            .first()
            .is_none_or(|program| !program.starts_with('/'))
        {
            return Err(InitError::Image("/cmd names no program"));
        }
        let environment = environment
            .lines()
            .map(|line| {
                let (name, value) = line.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            })
            .collect::<Option<_>>()
            .ok_or(InitError::Image("/env has a line without ="))?;
        Ok(Self {
            command,
            environment,
        })
    }

    /// Runs it until it ends, and reaps every other process that ends meanwhile.
    pub(crate) fn run(self) -> Result<String, InitError> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or(InitError::Image("/cmd is empty"))?;
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(self.environment)
            .spawn()
            .map_err(InitError::step("start the server"))?;
        let server = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if Some(pid) == server => return Ok(describe(status)),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(InitError::step("wait")(error)),
            }
        }
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "of itself".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_a_line() {
        let program = Program::parse("/bin/x\n--a b\n", "A=1\nB=x=y\n")
            .ok()
            .filter(|program| {
                program.command == ["/bin/x", "--a b"]
                    && program.environment
                        == [
                            ("A".to_owned(), "1".to_owned()),
                            ("B".to_owned(), "x=y".to_owned()),
                        ]
            });
        assert!(program.is_some());
        for (command, environment) in [("", ""), ("x\n", ""), ("\n/x", ""), ("/x", "A")] {
            assert!(
                Program::parse(command, environment).is_err(),
                "{command:?} {environment:?}"
            );
        }
    }
}
