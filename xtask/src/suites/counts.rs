//! Instructions of the hot paths, under valgrind: a time wavers with the machine, a count does not.

use crate::process::run;
use crate::statics;
use anyhow::{Context, Result};
use std::process::Command;

pub(crate) fn test() -> Result<Option<String>> {
    // As it ships: the baseline is of this build.
    statics::build()?;
    run(Command::new(statics::folder()?.join("benchmarks")).arg("--counts")).context(
        "a path takes more instructions than benchmarks/counts.json says; where that is wanted, renew it with the same program's --counts --renew",
    )?;
    Ok(None)
}
