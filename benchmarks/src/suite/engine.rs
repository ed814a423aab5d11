//! The engine alone: latency by length, quality, concurrency, start-up.

use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64ct::{Base64, Encoding};
use enclave_server::model::{Model, pinned};
use engine::{CandleEncoder, Encoder, FusedEncoder, Precision, Tokenizer};
use serde::Deserialize;

use super::nearness::Nearness;
use super::{Run, at_once, number, text};
use crate::machine;
use crate::peer::{Peer, time};
use crate::record::Unit;
use crate::statistics::{self, least_squares};

/// Lengths in the reports, and 9 tokens for the sentence that they embed.
pub(super) const TOKENS: [u32; 5] = [9, 32, 63, 128, 256];
const CLIENTS: [usize; 4] = [1, 2, 4, 8];
const REFERENCE: &str = include_str!("../../../enclave-server/tests/reference/reference.json");

#[derive(Deserialize)]
struct Reference {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    ids: Vec<u32>,
    embedding: String,
}

/// Encoders under test, created once per run.
pub(super) fn encoders(run: &mut Run) -> Result<Vec<Arc<dyn Encoder>>> {
    if run.encoders.is_empty() {
        let (shape, weights) = load(run)?.into_parts()?;
        let fused = FusedEncoder::new(shape, weights, Precision::F32, threads(run)?)?;
        let (shape, weights) = load(run)?.into_parts()?;
        let candle = CandleEncoder::new(shape, weights)?;
        run.encoders = vec![Arc::new(fused), Arc::new(candle)];
    }
    Ok(run.encoders.clone())
}

/// Encoders under test that compute with the run's number of threads.
fn timed_encoders(run: &mut Run, subject: &str) -> Result<Vec<Arc<dyn Encoder>>> {
    let mut all = encoders(run)?;
    let candle = candle_threads()?;
    if candle != run.options.threads {
        all.truncate(1);
        let why = format!(
            "candle computes with {candle} threads in this process, because RAYON_NUM_THREADS is not {}; `peers` measures it",
            run.options.threads
        );
        run.absent(subject, &why);
    }
    Ok(all)
}

/// Candle's number of threads in this process: that of Rayon, which reads it once from the environment.
fn candle_threads() -> Result<usize> {
    let stated = std::env::var("RAYON_NUM_THREADS").ok();
    let stated = stated.and_then(|value| value.parse::<usize>().ok());
    match stated.filter(|count| *count > 0) {
        Some(count) => Ok(count),
        None => Ok(std::thread::available_parallelism()?.get()),
    }
}

/// Compute threads of the run.
pub(super) fn threads(run: &Run) -> Result<NonZeroUsize> {
    NonZeroUsize::new(run.options.threads).context("a run needs a thread")
}

/// Starts a process with the engine alone, which has computed one inference.
pub(super) fn start_alone(run: &Run) -> Result<Peer> {
    let program = std::env::current_exe()?;
    let command = Peer::of_ours(&program, "fused", &run.options.model, run.options.threads);
    let mut alone = Peer::start(command, &program.with_file_name("benchmarks-bare.log"))?;
    alone.time(&[sequence(128)])?;
    Ok(alone)
}

pub(super) fn load(run: &Run) -> Result<Model> {
    let folder = &run.options.model;
    Model::load(folder, &pinned::all_minilm_l6_v2()?.files).with_context(|| {
        format!(
            "there is no model in {}; fetch it with: cargo xtask model",
            folder.display()
        )
    })
}

/// The model's tokenizer.
pub(super) fn tokenizer(run: &Run) -> Result<Tokenizer> {
    Ok(load(run)?.build_tokenizer()?)
}

/// Token ids of an artificial text: start token, distinct words, end token.
pub(super) fn sequence(tokens: u32) -> Vec<u32> {
    std::iter::once(101)
        .chain((1..tokens - 1).map(|at| 2000 + at * 37))
        .chain([102])
        .collect()
}

pub(super) fn latency(run: &mut Run) -> Result<()> {
    let mut encoders = timed_encoders(run, "inference.latency")?;
    let (warmups, repetitions) = (run.warmups(), run.repetitions());
    let mut fits: Vec<Vec<(f64, f64)>> = vec![Vec::new(); encoders.len()];
    for tokens in TOKENS {
        let batch = [sequence(tokens)];
        let samples = statistics::in_turns(warmups, repetitions, &mut encoders, |encoder| {
            time(&**encoder, &batch)
        })?;
        for ((encoder, sample), fit) in encoders.iter().zip(&samples).zip(&mut fits) {
            let mean = statistics::of(sample).mean;
            let parameters = [
                ("tokens", number(tokens as usize)),
                ("engine", text(encoder.name())),
            ];
            fit.push((f64::from(tokens), mean.unwrap_or(0.0)));
            run.times("scaling.latency", &parameters, sample);
            run.times("inference.latency", &parameters, sample);
            if tokens == 128 {
                let rate = 1_000.0 / mean.unwrap_or(f64::INFINITY);
                let subject = "inference.throughput";
                run.value(subject, &parameters, Unit::InferencesPerSecond, rate);
            }
        }
    }
    for (encoder, points) in encoders.iter().zip(fits) {
        // As in the reports, without the shortest length, which theirs do not have.
        if let Some((slope, intercept, _)) = least_squares(&points[1..]) {
            let engine = [("engine", text(encoder.name()))];
            run.value("scaling.intercept", &engine, Unit::Milliseconds, intercept);
            run.value("scaling.slope", &engine, Unit::Milliseconds, slope);
        }
    }
    Ok(())
}

pub(super) fn quality(run: &mut Run) -> Result<()> {
    let reference: Reference = serde_json::from_str(REFERENCE)?;
    for encoder in encoders(run)? {
        let engine = [("engine", text(encoder.name()))];
        let mut nearness = Nearness::new();
        for item in &reference.items {
            let expected = floats(&Base64::decode_vec(&item.embedding)?);
            nearness.add(&expected, &encoder.encode(&[&item.ids])?)?;
        }
        let ids = sequence(63);
        let bits = |row: Vec<f32>| -> Vec<u32> { row.into_iter().map(f32::to_bits).collect() };
        let first = bits(encoder.encode(&[&ids])?);
        let turns = run.repetitions();
        let mut same = 0u32;
        for _ in 0..turns {
            same += u32::from(bits(encoder.encode(&[&ids])?) == first);
        }
        let percent = f64::from(same) / turns as f64 * 100.0;
        nearness.record(run, &engine);
        run.value("quality.identical_runs", &engine, Unit::Percent, percent);
        let dimension = encoder.dimension() as f64;
        run.value("quality.embedding_dim", &engine, Unit::Count, dimension);
    }
    Ok(())
}

pub(super) fn concurrency(run: &mut Run) -> Result<()> {
    let rounds = if run.options.quick { 8 } else { 50 };
    let ids = sequence(128);
    for encoder in timed_encoders(run, "concurrency.throughput")? {
        let mut alone = None;
        for clients in CLIENTS {
            let callers: Vec<_> = (0..clients)
                .map(|_| || encoder.encode(&[&ids]).map(drop).map_err(Into::into))
                .collect();
            let (rate, samples) = at_once(callers, rounds)?;
            let single = *alone.get_or_insert(rate);
            let parameters = [
                ("clients", number(clients)),
                ("path", text("inference")),
                ("engine", text(encoder.name())),
            ];
            let (subject, unit) = ("concurrency.throughput", Unit::InferencesPerSecond);
            run.value(subject, &parameters, unit, rate);
            run.times("concurrency.latency", &parameters, &samples);
            let efficiency = rate / single / clients as f64 * 100.0;
            let subject = "concurrency.efficiency";
            run.value(subject, &parameters, Unit::Percent, efficiency);
        }
    }
    Ok(())
}

pub(super) fn memory(run: &mut Run) -> Result<()> {
    // In a process that runs nothing else: the peak of this one is of all benchmarks before this.
    let alone = start_alone(run)?;
    let (peak, source) =
        machine::peak_memory(alone.id()).context("the kernel reports no memory")?;
    let parameters = [
        ("source", text(source)),
        ("process", text("a process with the engine alone")),
    ];
    run.value("memory.peak_rss", &parameters, Unit::Mebibytes, peak);
    if let Some(mapped) = machine::peak_mapped(alone.id()) {
        run.value("memory.peak_vmsize", &parameters, Unit::Mebibytes, mapped);
    }
    let weights = std::fs::metadata(run.options.model.join("model.safetensors"))?.len();
    run.value("memory.model_size", &[], Unit::Bytes, weights as f64);
    Ok(())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect()
}
