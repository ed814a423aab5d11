//! `clearseal rerank`: scores the lines of standard input for a query, in one sealed request.

use std::fs::File;
use std::io::{BufWriter, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clearseal_client::Client;
use protocol::items::prove_pairs;
use serde::Serialize;

use crate::args::RerankArgs;
use crate::embed::{build_client, connect};
use crate::failure::report_failure;

/// Most lines of one request.
const MOST_LINES: usize = 2048;

/// Scores standard input, and writes a row for each line, the best first.
pub(crate) fn rerank(args: &RerankArgs) -> Result<ExitCode> {
    let documents = read_lines()?;
    let client = Client::builder(&args.url).accept_simulated(args.accept_simulated);
    let client = build_client(client, &args.policy)?;
    if let Err(error) = connect(&client) {
        return report_failure(error);
    }
    let texts: Vec<_> = documents.iter().map(|(_, text)| text.clone()).collect();
    let top_n = args.top_n.map(usize::from);
    let ranking = match client.rerank(args.model.as_deref(), &args.query, &texts, top_n) {
        Ok(ranking) => ranking,
        Err(error) => return report_failure(error),
    };
    // Receipt and proofs first: without them, a published row could never be proved.
    let bundle = |with_content| {
        let bundle = ranking.answer.bundle(with_content);
        bundle.context("the answer has no receipt")
    };
    if let Some(path) = &args.receipt {
        let mut file = create_file(path)?;
        writeln!(file, "{}", bundle(false)?.to_json()?)
            .and_then(|()| file.flush())
            .context("cannot write the receipt")?;
    }
    if let Some(path) = &args.proofs {
        let mut file = create_file(path)?;
        let (evidence, proofs) = prove_pairs(&bundle(true)?)?;
        crate::vector::write_proofs(&mut file, &evidence, &proofs)?;
        file.flush().context("cannot write the proofs")?;
    }
    let mut out = BufWriter::new(stdout().lock());
    for result in &ranking.results {
        let (index, document) = &documents[result.index];
        let row = serde_json::to_string(&Row {
            index: *index,
            relevance_score: result.score,
            query: &args.query,
            document,
            tokens: result.tokens,
            truncated: result.truncated,
        })?;
        writeln!(out, "{row}").context("cannot write to standard output")?;
    }
    out.flush().context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// A row of the output, which `verify vector` reads.
#[derive(Serialize)]
struct Row<'a> {
    index: usize,
    relevance_score: f32,
    query: &'a str,
    document: &'a str,
    tokens: u64,
    truncated: bool,
}

/// The lines of standard input that are not empty, with their numbers from 0.
fn read_lines() -> Result<Vec<(usize, String)>> {
    let mut lines = Vec::new();
    for (number, line) in stdin().lines().enumerate() {
        let mut line = line.context("standard input is not UTF-8 text")?;
        if number == 0 {
            line = intake::strip_bom(&line).to_owned();
        }
        if line.trim().is_empty() {
            continue;
        }
        if lines.len() == MOST_LINES {
            bail!("standard input has more than {MOST_LINES} lines; score them in several runs");
        }
        lines.push((number, line));
    }
    if lines.is_empty() {
        bail!("standard input holds no line to score");
    }
    Ok(lines)
}

/// Creates a file that only the user can read: a proof contains the salt of its texts, which allows guesses to be tested.
fn create_file(path: &Path) -> Result<BufWriter<File>> {
    let mut options = crate::private::options();
    let file = options.write(true).create(true).truncate(true).open(path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}
