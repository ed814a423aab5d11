//! `cargo xtask fuzz`, which `npm run fuzz` runs: every entrance for foreign bytes under libFuzzer, for a while.

use crate::{needs, paths, process};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runner of libFuzzer's binaries. Pinned, so that its flags are the ones used here.
const CARGO_FUZZ: &str = "0.13.2";

/// Run the fuzzers over every format that comes from outside
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Run only this target; may be given more than once
    #[arg(long, value_name = "TARGET")]
    only: Vec<String>,
    /// Look for faults in the memory of unsafe dependencies too: some four times slower, needs a nightly toolchain
    #[arg(long)]
    address: bool,
    /// Print the targets' names and what goes into each
    #[arg(long)]
    list: bool,
}

/// As `fuzz --bin seeds` describes it.
#[derive(Deserialize)]
struct Target {
    name: String,
    input: String,
    seeds: usize,
    dictionary: String,
    max_len: usize,
}

/// Figures that libFuzzer prints at its end.
#[derive(Default)]
struct Figures {
    executions: u64,
    coverage: u64,
    corpus: u64,
    artifact: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = paths::root().join("testing/fuzz");
    let targets = seeds(&folder.join("corpus"))?;
    if options.list {
        for target in &targets {
            println!("{:<12} {}", target.name, target.input);
        }
        return Ok(());
    }
    for name in &options.only {
        ensure!(
            targets.iter().any(|target| target.name == *name),
            "there is no target `{name}`; --list names them"
        );
    }
    prepare(options.address)?;
    let chosen = targets
        .iter()
        .filter(|target| options.only.is_empty() || options.only.contains(&target.name));
    let mut crashes = Vec::new();
    for target in chosen {
        if let Some(crash) = fuzz(&folder, target, options)? {
            crashes.push(crash);
        }
    }
    if crashes.is_empty() {
        return Ok(());
    }
    bail!(
        "{} found. Make each a test of its crate before it is put right.\n{}",
        match crashes.len() {
            1 => "a crash was".to_owned(),
            count => format!("{count} crashes were"),
        },
        crashes.join("\n")
    )
}

/// Writes the seeds into `corpus`, next to the inputs that earlier runs found; returns the targets.
fn seeds(corpus: &Path) -> Result<Vec<Target>> {
    let mut command = process::cargo(&["run", "--quiet", "--package=fuzz", "--bin=seeds", "--"]);
    let output = command
        .arg(corpus)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "the seeds cannot be written");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("no target: {line}")))
        .collect()
}

/// Everything that has to be there, and one build for all targets.
fn prepare(address: bool) -> Result<()> {
    let installed = needs::output("cargo", &["fuzz", "--version"]).unwrap_or_default();
    if !installed.ends_with(CARGO_FUZZ) {
        println!("installing cargo-fuzz {CARGO_FUZZ}, once: a minute or two");
        let install = ["install", "--quiet", "--locked", "--force"];
        process::run(process::cargo(&install).arg(format!("cargo-fuzz@{CARGO_FUZZ}")))?;
    }
    if address && needs::output("rustup", &["run", "nightly", "rustc", "--version"]).is_err() {
        println!("installing a nightly toolchain in addition to the project's own");
        process::run(Command::new("rustup").args([
            "toolchain",
            "install",
            "nightly",
            "--profile=minimal",
        ]))
        .context("only a nightly toolchain has the address sanitizer; run without --address")?;
    }
    // Fuzz the versions that ship.
    fs::copy(
        paths::root().join("Cargo.lock"),
        paths::root().join("testing/fuzz/libfuzzer/Cargo.lock"),
    )?;
    println!("building the targets with instrumentation");
    process::run(&mut cargo_fuzz("build", address))
}

/// Without a sanitizer the project's own toolchain does: the crates forbid unsafe code, so that panics, overflows,
/// time-outs, memory limits and broken properties are what there is to find, and speed is what finds it.
fn cargo_fuzz(verb: &str, address: bool) -> Command {
    let mut command = if address {
        let mut command = process::cargo(&[]);
        command = replace_program(&command, "cargo");
        // The shim chooses the toolchain again; no variable of this one may reach it.
        for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(variable);
        }
        command.arg("+nightly");
        command
    } else {
        process::cargo(&[])
    };
    command.args(["fuzz", verb, "--fuzz-dir=testing/fuzz/libfuzzer"]);
    command.arg(if address {
        "--sanitizer=address"
    } else {
        "--sanitizer=none"
    });
    command
}

/// Runs one target and prints its line; returns what to say of a crash.
fn fuzz(folder: &Path, target: &Target, options: &Options) -> Result<Option<String>> {
    let artifacts = folder.join("artifacts").join(&target.name);
    fs::create_dir_all(&artifacts)?;
    let mut command = cargo_fuzz("run", options.address);
    command
        .arg(&target.name)
        .arg(folder.join("corpus").join(&target.name))
        .arg("--")
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-max_len={}", target.max_len))
        .arg(format!(
            "-dict={}",
            folder
                .join("dictionaries")
                .join(format!("{}.dict", target.dictionary))
                .display()
        ))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        // An input that takes a minute or two gigabytes is a finding too. The first one also makes the scene: some ten
        // key pairs and signatures, instrumented, which is seconds where other things run.
        .args(["-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", process::describe(&command)))?;
    let stderr = child.stderr.take().context("no output")?;
    let mut figures = Figures::default();
    let mut tail = Vec::new();
    for line in BufReader::new(stderr).lines() {
        // A mangled line is still a line; what libFuzzer counts is ASCII.
        let line = line.unwrap_or_default();
        figures.read(&line);
        tail.push(line);
        if tail.len() > 40 {
            tail.remove(0);
        }
    }
    let succeeded = child.wait()?.success();
    let result = match (succeeded, &figures.artifact) {
        (true, _) => "no crash",
        (false, Some(_)) => "CRASH",
        (false, None) => "FAILED",
    };
    println!(
        "{:<12} {:>11} executions {:>7}/s {:>6} edges {:>5} inputs ({} seeds)  {result}",
        target.name,
        grouped(figures.executions),
        grouped(figures.executions / options.seconds),
        grouped(figures.coverage),
        grouped(figures.corpus),
        target.seeds,
    );
    if succeeded {
        return Ok(None);
    }
    println!("{}", tail.join("\n"));
    let Some(artifact) = figures.artifact else {
        return Ok(Some(format!(
            "  {}: it ended without a reproducer; see above",
            target.name
        )));
    };
    let replay = cargo_fuzz("run", options.address);
    Ok(Some(format!(
        "  {}: {artifact}\n    replay: {} {} {artifact}",
        target.name,
        process::describe(&replay),
        target.name
    )))
}

impl Figures {
    /// `#123 DONE   cov: 456 ft: 789 corp: 12/3Kb …`, `stat::number_of_executed_units: 123`,
    /// `artifact_prefix='…'; Test unit written to PATH`.
    fn read(&mut self, line: &str) {
        let after = |word: &str| {
            let rest = line.split_once(word)?.1.trim_start();
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u64>().ok()
        };
        if line.starts_with('#') {
            self.coverage = after(" cov: ").unwrap_or(self.coverage);
            self.corpus = after(" corp: ").unwrap_or(self.corpus);
            // A run that crashes prints no statistics.
            self.executions = after("#").unwrap_or(self.executions);
        }
        if let Some(count) = after("stat::number_of_executed_units:") {
            self.executions = count;
        }
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.artifact = Some(path.trim().to_owned());
        }
    }
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The same command for another program.
fn replace_program(command: &Command, program: &str) -> Command {
    let mut other = Command::new(program);
    other.current_dir(command.get_current_dir().unwrap_or(paths::root()));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_read_from_what_libfuzzer_prints() {
        let mut figures = Figures::default();
        for line in [
            "INFO: Running with entropic power schedule (0xFF, 100).",
            "#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 40Mb",
            "#5120\tNEW    cov: 321 ft: 456 corp: 78/9012b lim: 4 exec/s: 2560 rss: 60Mb L: 3/4 MS: 1 -",
            "artifact_prefix='/x/'; Test unit written to /x/crash-da39a3ee",
        ] {
            figures.read(line);
        }
        assert_eq!((figures.executions, figures.coverage), (5120, 321));
        assert_eq!(figures.corpus, 78);
        assert_eq!(figures.artifact.as_deref(), Some("/x/crash-da39a3ee"));
        figures.read("stat::number_of_executed_units: 6000");
        assert_eq!(figures.executions, 6000);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(123_456), "123,456");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
