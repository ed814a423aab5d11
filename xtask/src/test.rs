//! `cargo xtask test`, which `npm test` runs: every suite in order, one summary.

use crate::skipped;
use crate::steps::elapsed;
use crate::suites::{Need, SUITES, Suite};
use anyhow::{Result, bail, ensure};
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
    let missing = provide(&chosen);
    // Remove leftovers of an interrupted run.
    skipped::take()?;
    let mut summary = Vec::new();
    let (mut passed, mut failed, mut skipped, mut tests_skipped) = (0, 0, 0, 0);
    for suite in chosen {
        println!("\n── {}: {}", suite.name, suite.judges);
        let begun = Instant::now();
        let lacks = suite.needs.iter().find_map(|need| {
            let (_, reason) = missing.iter().find(|(lost, _)| lost == need)?;
            need.decides().then(|| reason.clone())
        });
        let outcome = match lacks.map_or_else(suite.run, |reason| Ok(Some(reason))) {
            Ok(None) => Outcome::Passed,
            Ok(Some(reason)) => Outcome::Skipped(reason),
            Err(error) => Outcome::Failed(error),
        };
        let tests = skipped::take()?;
        tests_skipped += tests.values().sum::<usize>();
        let outcome_text = match &outcome {
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
        let (time, tests) = (elapsed(begun), skipped::describe(&tests));
        summary.push(format!(
            "{:<12} {time:>12}  {outcome_text}{tests}",
            suite.name
        ));
    }
    println!("\n{}\n", summary.join("\n"));
    println!("suites: {passed} passed, {failed} failed, {skipped} skipped");
    if tests_skipped > 0 {
        println!("inside the suites that ran, {tests_skipped} tests were skipped");
    }
    if failed > 0 {
        bail!("{failed} of the suites failed; run one alone with: npm test -- --only NAME");
    }
    Ok(())
}

/// Provides what the chosen suites need. Says at once what is missing, and returns it.
fn provide(chosen: &[&Suite]) -> Vec<(Need, String)> {
    let mut asked = Vec::new();
    let mut missing = Vec::new();
    for suite in chosen {
        for need in suite.needs {
            if asked.contains(need) {
                continue;
            }
            asked.push(*need);
            if let Err(error) = need.provide() {
                println!("{}: {error:#}", suite.name);
                missing.push((*need, format!("{error:#}")));
            }
        }
    }
    missing
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
