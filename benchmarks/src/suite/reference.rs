//! Compares both engines with sentence-transformers, text by text: the same tokens, and embeddings equal up to rounding.

use anyhow::{Result, ensure};

use super::contender::{Contender, Peers};
use super::engine::{encoders, tokenizer};
use super::nearness::Nearness;
use super::texts::texts;
use super::{Run, number, text};

const AGAINST: &str = "sentence-transformers";
/// Least cosine for embeddings of the same model.
const SAME: f64 = 0.99999;
/// Largest allowed difference of a component.
const NEAR: f64 = 2e-6;

pub(super) fn measure(run: &mut Run) -> Result<()> {
    // One thread is enough: the result does not depend on their number.
    let Some(Contender::Peer(mut reference)) = Peers::find()?.start(run, AGAINST, 1) else {
        return Ok(());
    };
    let texts = texts(run);
    let tokenizer = tokenizer(run)?;

    let mut pairs = Vec::with_capacity(texts.len());
    for (text, ids) in texts.iter().zip(reference.word_pieces(&texts)?) {
        let ours = tokenizer.encode(text)?.ids;
        ensure!(
            *ours == ids,
            "{text:?}: {AGAINST} reads {ids:?}, we {ours:?}"
        );
        // One text at a time, so that no padding is involved.
        let row = reference.rows(std::slice::from_ref(&ids))?.concat();
        pairs.push((ids, row));
    }
    ensure!(pairs.len() == texts.len(), "{} answers", pairs.len());

    for encoder in encoders(run)? {
        let mut nearness = Nearness::new();
        for (text, (ids, expected)) in texts.iter().zip(&pairs) {
            let cosine = nearness.add(expected, &encoder.encode(&[ids])?)?;
            ensure!(cosine >= SAME, "{}, {text:?}: {cosine}", encoder.name());
        }
        let most = nearness.largest_difference;
        ensure!(most <= NEAR, "{} differs by {most:e}", encoder.name());
        let parameters = [
            ("engine", text(encoder.name())),
            ("against", text(AGAINST)),
            ("texts", number(texts.len())),
        ];
        nearness.record(run, &parameters);
    }
    Ok(())
}
