//! Tests that skipped themselves. Their harnesses count them as passed, so each adds a line to a list: its name, a tab, why.

use crate::paths;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

/// Names the list to a suite's programs. `forge::shared_vectors` and the tests of `verifier-wasm` write it.
pub(crate) const VARIABLE: &str = "CLEARSEAL_SKIPPED";

/// Where the list is.
pub(crate) fn list() -> Result<PathBuf> {
    let folder = paths::target()?.join("clearseal");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.join("skipped.tsv"))
}

/// Adds a line for a part of a suite that could not be run.
pub(crate) fn note(name: &str, reason: &str) -> Result<()> {
    let mut list = fs::File::options()
        .create(true)
        .append(true)
        .open(list()?)?;
    writeln!(list, "{name}\t{reason}")?;
    Ok(())
}

/// Takes what is in the list and empties it: the number of tests by reason.
pub(crate) fn take() -> Result<BTreeMap<String, usize>> {
    let list = list()?;
    let text = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", list.display()));
        }
    };
    fs::remove_file(&list).with_context(|| format!("cannot empty {}", list.display()))?;
    Ok(count(&text))
}

fn count(list: &str) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for line in list.lines() {
        let reason = line
            .split_once('\t')
            .map_or("no reason", |(_, reason)| reason);
        *reasons.entry(reason.to_owned()).or_default() += 1;
    }
    reasons
}

/// Text about them for a line of the summary; empty where there are none.
pub(crate) fn describe(reasons: &BTreeMap<String, usize>) -> String {
    let parts = reasons.iter().map(|(reason, count)| {
        let tests = if *count == 1 { "test" } else { "tests" };
        format!(", {count} {tests} skipped ({reason})")
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::{count, describe};

    #[test]
    fn tests_are_counted_by_reason() {
        let reasons = count("a::b\tno vectors at /v\nc\tno model\nd::e\tno vectors at /v\n");
        assert_eq!(reasons.values().sum::<usize>(), 3);
        assert_eq!(
            describe(&reasons),
            ", 1 test skipped (no model), 2 tests skipped (no vectors at /v)"
        );
        assert_eq!(describe(&count("")), "");
        // A writer that breaks the format is still counted.
        assert_eq!(describe(&count("a::b\n")), ", 1 test skipped (no reason)");
    }
}
