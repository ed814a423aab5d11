//! Text to word pieces: what the service does, turn by turn with the `tokenizers` library alone.

use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use enclave_server::engine::Tokenizer;

use super::engine::load;
use super::texts::{text_of, texts};
use super::{Run, number, text};
use crate::statistics::milliseconds;

#[path = "../../../enclave-server/tests/library/mod.rs"]
mod library;

pub(super) fn turns(run: &mut Run) -> Result<()> {
    let model = load(run)?;
    let ours = Tokenizer::from_json(&model.tokenizer, model.max_tokens)?;
    let library = library::library(&model.tokenizer, model.max_tokens);
    let library = library.map_err(|error| anyhow!(error))?;
    let encode_ours = |text: &str| Ok(ours.encode(text)?.ids);
    let encode_theirs = |text: &str| library(text).map_err(|error| anyhow!(error));
    let mut inputs = Vec::new();
    for tokens in [9, 128] {
        let condition = ("tokens", number(tokens));
        inputs.push((condition, vec![text_of(&ours, tokens)?]));
    }
    let all = texts(run);
    inputs.push((("texts", number(all.len())), all));
    for (condition, texts) in inputs {
        for text in &texts {
            ensure!(
                encode_ours(text)? == encode_theirs(text)?,
                "other word pieces for {text:?}"
            );
        }
        let [mut fast, mut slow] = [const { Vec::new() }; 2];
        for turn in 0..run.warmups() + run.repetitions() {
            let (one, two) = (time(&texts, encode_ours)?, time(&texts, encode_theirs)?);
            if turn >= run.warmups() {
                fast.push(one);
                slow.push(two);
            }
        }
        let rows = [("clearseal", fast), ("tokenizers", slow)]
            .map(|(name, sample)| (vec![("tokenizer", text(name))], sample));
        run.turns("request.tokenization", &[condition], &rows);
    }
    Ok(())
}

/// Milliseconds for all of `texts`.
fn time(texts: &[String], encode: impl Fn(&str) -> Result<Vec<u32>>) -> Result<f64> {
    let begun = Instant::now();
    for text in texts {
        std::hint::black_box(encode(text)?);
    }
    Ok(milliseconds(begun.elapsed()))
}
