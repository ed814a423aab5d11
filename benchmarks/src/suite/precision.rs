//! What smaller weights gain and cost: each precision of the fused engine, turn by turn.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use enclave_server::engine::{Encoder, FusedEncoder, Precision, Tokenizer};

use super::engine::{TOKENS, cosine, load, sequence, threads};
use super::{Run, number, text};
use crate::record::Unit;
use crate::statistics::{self, milliseconds};

#[path = "../../../enclave-server/tests/texts/mod.rs"]
mod texts;

/// Texts whose embeddings are compared.
const TEXTS: usize = 1000;

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let mut engines = Vec::new();
    for precision in Precision::value_variants() {
        let model = load(run)?;
        let encoder = FusedEncoder::new(model.shape()?, model.weights, *precision, threads()?)?;
        engines.push((*precision, encoder));
    }
    near(run, &engines)?;
    for tokens in TOKENS {
        let ids = sequence(tokens);
        let mut samples = vec![Vec::new(); engines.len()];
        for turn in 0..run.warmups() + run.repetitions() {
            for ((_, encoder), sample) in engines.iter().zip(&mut samples) {
                let begun = std::time::Instant::now();
                std::hint::black_box(encoder.encode(&[&ids])?);
                if turn >= run.warmups() {
                    sample.push(milliseconds(begun.elapsed()));
                }
            }
        }
        for ((_, encoder), sample) in engines.iter().zip(&samples) {
            let parameters = [
                ("tokens", number(tokens as usize)),
                ("engine", text(encoder.name())),
            ];
            let statistics = statistics::of(sample);
            run.add(
                "precision.latency",
                &parameters,
                Unit::Milliseconds,
                statistics,
            );
        }
    }
    Ok(())
}

/// How near each precision stays to the first, which is f32.
fn near(run: &mut Run, engines: &[(Precision, FusedEncoder)]) -> Result<()> {
    let model = load(run)?;
    let tokenizer = Tokenizer::from_json(&model.tokenizer, model.max_tokens)?;
    drop(model);
    let count = if run.options.quick { TEXTS / 10 } else { TEXTS };
    // Evenly from all of them: they come sorted by kind.
    let texts = texts::texts(TEXTS);
    let texts: Vec<_> = texts.iter().step_by(TEXTS / count).collect();
    let mut rows = vec![Vec::new(); engines.len()];
    for text in &texts {
        let ids = tokenizer.encode(text)?.ids;
        for ((_, encoder), rows) in engines.iter().zip(&mut rows) {
            rows.push(encoder.encode(&[&ids])?);
        }
    }
    let exact = rows.first().context("no engine")?;
    for ((precision, encoder), rows) in engines.iter().zip(&rows) {
        let cosines = || exact.iter().zip(rows).map(|(a, b)| cosine(a, b));
        let least = cosines().fold(1.0, f64::min);
        ensure!(
            least >= precision.least_cosine(),
            "{} is said to stay within a cosine of {}, and came to {least}",
            encoder.name(),
            precision.least_cosine()
        );
        #[allow(clippy::cast_precision_loss, reason = "a thousand")]
        let mean = cosines().sum::<f64>() / texts.len() as f64;
        let engine = [
            ("engine", text(encoder.name())),
            ("texts", number(texts.len())),
        ];
        run.value("precision.cosine", &engine, Unit::Ratio, least);
        run.value("precision.cosine_mean", &engine, Unit::Ratio, mean);
        run.value(
            "precision.weights",
            &engine,
            Unit::Bytes,
            encoder.weights().bytes() as f64,
        );
    }
    Ok(())
}
