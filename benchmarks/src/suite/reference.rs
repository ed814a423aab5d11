//! Both engines beside sentence-transformers, text by text: the same word pieces, and embeddings as near as rounding.

use anyhow::{Result, ensure};
use enclave_server::engine::Tokenizer;

use super::contender::{Contender, Peers};
use super::engine::{cosine, encoders, load};
use super::texts::texts;
use super::{Run, number, text};
use crate::record::Unit;

const AGAINST: &str = "sentence-transformers";
/// Least cosine that is still the same model.
const SAME: f64 = 0.99999;
/// Most that a component may differ by.
const NEAR: f64 = 2e-6;

pub(super) fn measure(run: &mut Run) -> Result<()> {
    // One thread: what it computes is the same for any number.
    let Some(Contender::Peer(mut reference)) = Peers::find()?.start(run, AGAINST, 1) else {
        return Ok(());
    };
    let texts = texts(run);
    let model = load(run)?;
    let tokenizer = Tokenizer::from_json(&model.tokenizer, model.max_tokens)?;
    drop(model);

    let mut pairs = Vec::with_capacity(texts.len());
    for (text, ids) in texts.iter().zip(reference.word_pieces(&texts)?) {
        let ours = tokenizer.encode(text)?.ids;
        ensure!(
            ours == ids,
            "{text:?}: {AGAINST} reads {ids:?}, we {ours:?}"
        );
        // Alone, so that no padding is involved.
        let row = reference.rows(std::slice::from_ref(&ids))?.concat();
        pairs.push((ids, row));
    }
    ensure!(pairs.len() == texts.len(), "{} answers", pairs.len());

    for encoder in encoders(run)? {
        let (mut least, mut most) = (1.0_f64, 0.0_f64);
        for (text, (ids, expected)) in texts.iter().zip(&pairs) {
            let found = encoder.encode(&[ids])?;
            ensure!(found.len() == expected.len(), "{} numbers", found.len());
            let cosine = cosine(expected, &found);
            ensure!(cosine >= SAME, "{}, {text:?}: {cosine}", encoder.name());
            least = least.min(cosine);
            for (a, b) in expected.iter().zip(&found) {
                most = most.max(f64::from((a - b).abs()));
            }
        }
        ensure!(most <= NEAR, "{} differs by {most:e}", encoder.name());
        let parameters = [
            ("engine", text(encoder.name())),
            ("against", text(AGAINST)),
            ("texts", number(texts.len())),
        ];
        run.value("quality.cosine", &parameters, Unit::Ratio, least);
        run.value("quality.max_abs_diff", &parameters, Unit::Ratio, most);
    }
    Ok(())
}
