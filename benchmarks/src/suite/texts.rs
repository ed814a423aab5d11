//! Texts for comparing embeddings: a thousand in many scripts, fewer in a quick run.

use anyhow::{Result, ensure};
use engine::Tokenizer;

use super::Run;

const COUNT: usize = 1000;

pub(super) fn texts(run: &Run) -> Vec<String> {
    let step = if run.options.quick { 10 } else { 1 };
    // Evenly spaced, because they are sorted by kind.
    fixtures::texts::texts(COUNT)
        .into_iter()
        .step_by(step)
        .collect()
}

/// A text of exactly `tokens` tokens, including both special tokens.
pub(super) fn text_of(words: &Tokenizer, tokens: usize) -> Result<String> {
    const WORDS: [&str; 8] = ["the", "city", "of", "light", "was", "built", "by", "people"];
    let sentence = WORDS
        .iter()
        .cycle()
        .take(tokens - 2)
        .copied()
        .collect::<Vec<_>>()
        .join(" ");
    let found = words.encode(&sentence)?.ids.len();
    ensure!(found == tokens, "a text of {tokens} tokens has {found}");
    Ok(sentence)
}
