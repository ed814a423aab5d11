//! Writes the kit, judges verifiers with it, and is the adapter of this project's verifier.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it talks to a terminal, or to a pipe")]

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use conformance::kit::{Kit, Question};
use conformance::peers::PEERS;
use conformance::protocol::Request;
use conformance::runner::{self, Outcome, Outcomes};
use conformance::table::{self, Column};
use conformance::{project_verifier, referenced};

/// Judges verifiers of Nitro attestation documents.
#[derive(Parser)]
#[command(name = "conformance", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Write the kit: kit.json and its documents
    Write {
        /// Folder to write into
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Answer the questions on standard input with this project's verifier
    Own,
    /// Judge a verifier with the kit, and with the referenced documents if they are present
    Judge {
        /// Command line of the adapter: program and arguments [default: this project's own]
        #[arg(long, value_name = "COMMAND")]
        command: Option<String>,
        /// An existing kit [default: generate a new one]
        #[arg(long, value_name = "FOLDER")]
        kit: Option<PathBuf>,
        /// Also print every wrong answer
        #[arg(long)]
        verbose: bool,
    },
    /// Judge the public verifiers and write the page
    Peers {
        /// Page to write
        #[arg(value_name = "FILE")]
        page: PathBuf,
        /// Judge only this one; may be given more than once
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().verb {
        Verb::Write { folder } => write(&folder),
        Verb::Own => adapter(),
        Verb::Judge {
            command,
            kit,
            verbose,
        } => judge_one(command.as_deref(), kit.as_deref(), verbose),
        Verb::Peers { page, only } => peers(&page, &only),
    }
}

fn write(folder: &Path) -> Result<()> {
    let kit = Kit::write(folder)?;
    println!(
        "{} vectors in {}",
        kit.vectors.len(),
        folder.join("kit.json").display()
    );
    Ok(())
}

fn adapter() -> Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let request: Request =
            serde_json::from_str(&line).with_context(|| format!("no question: {line}"))?;
        let answer = serde_json::to_string(&project_verifier::answer(&request))?;
        writeln!(output, "{answer}")?;
    }
    Ok(())
}

/// The kit's questions on which sound verifiers agree, and the referenced documents'.
fn questions(kit: Option<&Path>) -> Result<Vec<Question>> {
    let mut questions = match kit {
        Some(folder) => Kit::read(folder)?,
        None => Kit::questions()?,
    };
    questions.retain(|question| !question.may_differ);
    match referenced::folder() {
        Some(folder) => questions.extend(referenced::questions(&folder)?),
        None => {
            println!(
                "no genuine documents available (CLEARSEAL_VECTORS): judged with the kit only"
            );
        }
    }
    Ok(questions)
}

fn judge_one(command: Option<&str>, kit: Option<&Path>, verbose: bool) -> Result<()> {
    let program = match command {
        None => own_adapter()?,
        Some(command) => {
            let mut words = command.split_whitespace();
            let mut program = Command::new(words.next().context("the command is empty")?);
            program.args(words);
            program
        }
    };
    let questions = questions(kit)?;
    let outcomes = runner::run(program, &questions)?;
    if verbose {
        for (id, (outcome, message)) in &outcomes {
            if !matches!(outcome, Outcome::Right | Outcome::NotJudged) {
                println!("{id}: {outcome:?} {message}");
            }
        }
    }
    println!("{}", summary(&outcomes));
    let wrong =
        count(&outcomes, Outcome::AcceptedWrongly) + count(&outcomes, Outcome::RefusedWrongly);
    ensure!(
        wrong == 0,
        "{wrong} answers are wrong; --verbose names them"
    );
    Ok(())
}

fn peers(page: &Path, only: &[String]) -> Result<()> {
    for name in only {
        let known = PEERS.iter().any(|peer| peer.name == name);
        ensure!(known, "there is no adapter of {name}");
    }
    let questions = questions(None)?;
    let mut columns = vec![Column {
        name: "clearseal",
        version: env!("CARGO_PKG_VERSION"),
        about: "this project's `attestation`".to_owned(),
        outcomes: runner::run(own_adapter()?, &questions)?,
    }];
    println!("clearseal: {}", summary(&columns[0].outcomes));
    let mut missing = Vec::new();
    for peer in PEERS {
        if !only.is_empty() && !only.iter().any(|name| name == peer.name) {
            missing.push(peer.name);
            continue;
        }
        let outcomes = peer
            .prepare()
            .and_then(|command| runner::run(command, &questions));
        match outcomes {
            Ok(outcomes) => {
                println!("{}: {}", peer.name, summary(&outcomes));
                columns.push(Column::of(peer, outcomes));
            }
            Err(error) => {
                println!("{}: {error:#}", peer.name);
                missing.push(peer.name);
            }
        }
    }
    std::fs::write(page, table::page(&questions, &columns, &missing, &today()?))
        .with_context(|| format!("cannot write {}", page.display()))?;
    println!("wrote {}", page.display());
    // A verifier that was deliberately left out is not a failure.
    if only.is_empty() && !missing.is_empty() {
        bail!("not judged, and the page says so: {}", missing.join(", "));
    }
    Ok(())
}

/// This program, as an adapter.
fn own_adapter() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("own");
    Ok(command)
}

fn count(outcomes: &Outcomes, wanted: Outcome) -> usize {
    outcomes
        .values()
        .filter(|(outcome, _)| *outcome == wanted)
        .count()
}

fn summary(outcomes: &Outcomes) -> String {
    let count = |wanted| count(outcomes, wanted);
    format!(
        "{} right, {} accepted wrongly, {} refused wrongly, {} broke, {} not judged",
        count(Outcome::Right),
        count(Outcome::AcceptedWrongly),
        count(Outcome::RefusedWrongly),
        count(Outcome::Broke),
        count(Outcome::NotJudged)
    )
}

fn today() -> Result<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let now = attestation::UnixMillis::from_seconds(now.as_secs()).to_string();
    Ok(now.split('T').next().unwrap_or_default().to_owned())
}
