//! Time, memory and error of smaller weights: each precision of the fused engine in turns, and ONNX Runtime's int8.

use anyhow::{Context, Result, ensure};
use engine::{Encoder, Precision};

use super::contender::{Contender, Peers, in_turns_at_rest};
use super::engine::{TOKENS, sequence, tokenizer};
use super::nearness::cosine;
use super::texts::texts;
use super::{Run, number, text};
use crate::record::Unit;

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let threads = run.options.threads;
    let mut contenders = Precision::ALL
        .iter()
        .map(|precision| Contender::ours(run, *precision, threads))
        .collect::<Result<Vec<_>>>()?;
    contenders.extend(Peers::find()?.start(run, "onnxruntime-int8", threads));
    record_cosines(run, &mut contenders)?;
    for tokens in TOKENS {
        let batch = [sequence(tokens)];
        let samples = in_turns_at_rest(run, &mut contenders, &batch, run.repetitions())?;
        for (contender, sample) in contenders.iter().zip(&samples) {
            let parameters = [
                ("tokens", number(tokens as usize)),
                ("engine", text(contender.name())),
            ];
            run.times("precision.latency", &parameters, sample);
        }
    }
    Ok(())
}

/// Records how close each contender stays to the first, which computes in f32.
fn record_cosines(run: &mut Run, contenders: &mut [Contender]) -> Result<()> {
    let tokenizer = tokenizer(run)?;
    let texts = texts(run);
    let mut rows = vec![Vec::new(); contenders.len()];
    for text in &texts {
        let batch = [tokenizer.encode(text)?.ids.to_vec()];
        for (contender, rows) in contenders.iter_mut().zip(&mut rows) {
            rows.extend(contender.rows(&batch)?);
        }
    }
    let exact = rows.first().context("no engine")?;
    for (contender, rows) in contenders.iter().zip(&rows) {
        ensure!(
            rows.len() == texts.len(),
            "{} returned {} embeddings of {} texts",
            contender.name(),
            rows.len(),
            texts.len()
        );
        let pairs = exact.iter().zip(rows);
        let cosines = pairs
            .map(|(a, b)| cosine(a, b))
            .collect::<Result<Vec<_>>>()
            .with_context(|| contender.name().to_owned())?;
        let least = cosines.iter().copied().fold(1.0, f64::min);
        let mean = cosines.iter().sum::<f64>() / texts.len() as f64;
        let engine = [
            ("engine", text(contender.name())),
            ("texts", number(texts.len())),
        ];
        run.value("precision.cosine", &engine, Unit::Ratio, least);
        run.value("precision.cosine_mean", &engine, Unit::Ratio, mean);
        let Contender::Ours(encoder) = contender else {
            continue;
        };
        let weights = encoder.weights();
        let promised = weights.precision().least_cosine();
        ensure!(
            least >= promised,
            "{} promises a cosine of {promised}, measured {least}",
            encoder.name(),
        );
        let bytes = weights.bytes() as f64;
        run.value("precision.weights", &engine, Unit::Bytes, bytes);
    }
    Ok(())
}
