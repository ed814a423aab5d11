//! `cargo xtask test`, which `npm test` runs: every suite in order, one summary.

use crate::paths;
use crate::steps::elapsed;
use crate::suites::{SUITES, Suite};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// Run every suite, or some of them
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only this suite; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the suites' names and what each one judges
    #[arg(long)]
    list: bool,
}

/// How a suite ended.
enum Outcome {
    Passed,
    Failed(anyhow::Error),
    Skipped(String),
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.list {
        for suite in SUITES {
            println!("{:<12} {}", suite.name, suite.judges);
        }
        return Ok(());
    }
    let chosen = choose(&options.only)?;
    let file = skipped_file()?;
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", file.display()));
        }
        _ => {}
    }
    let mut summary = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for suite in chosen {
        println!("\n── {}: {}", suite.name, suite.judges);
        let begun = Instant::now();
        let outcome = match (suite.run)() {
            Ok(None) => Outcome::Passed,
            Ok(Some(reason)) => Outcome::Skipped(reason),
            Err(error) => Outcome::Failed(error),
        };
        let said = match &outcome {
            Outcome::Passed => {
                passed += 1;
                "passed".to_owned()
            }
            Outcome::Failed(error) => {
                failed += 1;
                println!("\n{error:#}");
                let error = error.to_string();
                format!("FAILED   {}", error.lines().next().unwrap_or_default())
            }
            Outcome::Skipped(reason) => {
                skipped += 1;
                format!("skipped  {reason}")
            }
        };
        summary.push(format!("{:<12} {:>12}  {said}", suite.name, elapsed(begun)));
    }
    println!("\n{}\n", summary.join("\n"));
    let tests = std::fs::read_to_string(&file).unwrap_or_default();
    let tests: BTreeSet<&str> = tests.lines().collect();
    if !tests.is_empty() {
        println!(
            "{} tests had nothing to judge, and count as skipped:",
            tests.len()
        );
        for test in &tests {
            println!("  {test}");
        }
        println!();
    }
    skipped += tests.len();
    match skipped {
        0 => println!("{passed} passed, {failed} failed"),
        _ => println!("{passed} passed, {failed} failed, {skipped} skipped"),
    }
    if failed > 0 {
        bail!("{failed} of the suites failed; run one alone with: npm test -- --only NAME");
    }
    Ok(())
}

/// Where tests tell that they had nothing to judge, a line each.
pub(crate) fn skipped_file() -> Result<PathBuf> {
    Ok(paths::target()?.join("clearseal/skipped.txt"))
}

fn choose(only: &[String]) -> Result<Vec<&'static Suite>> {
    for name in only {
        ensure!(
            SUITES.iter().any(|suite| suite.name == name),
            "there is no suite `{name}`; --list names them"
        );
    }
    let chosen = SUITES
        .iter()
        .filter(|suite| only.is_empty() || only.iter().any(|name| name == suite.name));
    Ok(chosen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_an_unknown_one_is_refused() {
        let mut names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SUITES.len());
        assert_eq!(choose(&[]).unwrap().len(), SUITES.len());
        assert_eq!(choose(&["rust".to_owned()]).unwrap().len(), 1);
        assert!(choose(&["rusty".to_owned()]).is_err());
    }
}
