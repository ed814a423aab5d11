//! Other implementations in the same run, in turns with ours.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use engine::Precision;
use engine::fused::Isa;

use super::contender::{Contender, Peers, in_turns_at_rest};
use super::engine::{TOKENS, sequence};
use super::nearness::cosine;
use super::run::ContenderSample;
use super::{Run, number, text};
use crate::record::{Measurement, Parameter, Unit};

/// Batches: number of sequences and their tokens; 0 for a mixture from 9 to 70.
const BATCHES: [(usize, u32); 3] = [(8, 32), (8, 128), (32, 0)];
/// Duration of the measurement of the processor's peak.
const PEAK: Duration = Duration::from_millis(200);
/// Least cosine between a peer's embeddings and ours; below it they compute different functions.
const SAME: f64 = 0.999;

pub(super) fn compare(run: &mut Run) -> Result<()> {
    run.absent(
        "peers.text-embeddings-inference",
        "not built: it is a server with its own workspace, not a crate; its CPU back ends are candle and ONNX Runtime, which are measured here",
    );
    let peers = Peers::find()?;
    let most = run.options.threads;
    let all = if most > 1 { vec![1, most] } else { vec![1] };
    for threads in all {
        let mut contenders = contenders(run, &peers, threads)?;
        same_embeddings(run, &mut contenders)?;
        for tokens in TOKENS {
            let batch = [sequence(tokens)];
            take_turns(run, &mut contenders, threads, &batch, run.repetitions())?;
            of_peak(run, &contenders, threads, tokens);
        }
        for (size, tokens) in BATCHES {
            let batch: Vec<_> = (0..size)
                .map(|at| match tokens {
                    0 => sequence(9 + (at as u32 * 23) % 62),
                    tokens => sequence(tokens),
                })
                .collect();
            let repetitions = if run.options.quick { 2 } else { 15 };
            take_turns(run, &mut contenders, threads, &batch, repetitions)?;
        }
    }
    Ok(())
}

/// Records how close each contender's fastest repetition at this length came to the f32 peak of as many threads. The peak is
/// measured again each time, because a shared host's speed varies.
fn of_peak(run: &mut Run, contenders: &[Contender], threads: usize, tokens: u32) {
    let Some(Contender::Ours(ours)) = contenders.first() else {
        return;
    };
    let flops = ours.weights().shape().flops(tokens as usize);
    let peak: f64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| Isa::best().peak_flops(PEAK)))
            .collect();
        all.into_iter().filter_map(|one| one.join().ok()).sum()
    });
    let conditions = [
        ("tokens", number(tokens as usize)),
        ("batch", number(1)),
        ("threads", number(threads)),
    ];
    let fits = |one: &Measurement| {
        one.subject == "peers.latency"
            && conditions
                .iter()
                .all(|(name, value)| one.parameters.get(*name) == Some(value))
    };
    let fastest: Vec<(Parameter, f64)> = run
        .measurements
        .iter()
        .filter(|one| fits(one))
        .filter_map(|one| Some((one.parameters.get("engine")?.clone(), one.statistics.min?)))
        .collect();
    for (engine, ms) in fastest {
        let parameters = [conditions.as_slice(), &[("engine", engine)]].concat();
        let percent = 100.0 * flops as f64 / (ms / 1_000.0) / peak;
        run.value("peers.of_peak", &parameters, Unit::Percent, percent);
    }
}

fn contenders(run: &mut Run, peers: &Peers, threads: usize) -> Result<Vec<Contender>> {
    let mut all = vec![Contender::ours(run, Precision::F32, threads)?];
    for kind in ["onnxruntime", "sentence-transformers", "candle"] {
        all.extend(peers.start(run, kind, threads));
    }
    if let Some(other) = run.options.other.clone() {
        let (peer, version) = peers.other_build(run, &other, threads)?;
        run.other.get_or_insert((version, Vec::new()));
        all.push(peer);
    }
    Ok(all)
}

/// Excludes peers that compute something else.
fn same_embeddings(run: &mut Run, contenders: &mut [Contender]) -> Result<()> {
    let batch = [sequence(9), sequence(32)];
    let Some((ours, others)) = contenders.split_first_mut() else {
        return Ok(());
    };
    let expected = ours.rows(&batch)?;
    for other in others {
        let rows = other.rows(&batch)?;
        let name = other.name().to_owned();
        ensure!(
            rows.len() == batch.len(),
            "{name} returned {} embeddings",
            rows.len()
        );
        let mut least = 1.0;
        for (row, ours) in rows.iter().zip(&expected) {
            let cosine = cosine(row, ours).with_context(|| name.clone())?;
            least = f64::min(least, cosine);
        }
        ensure!(
            least > SAME,
            "{name} computes something else: its embeddings have a cosine of {least} to ours",
        );
        if !run
            .measurements
            .iter()
            .any(|one| one.subject == "quality.cosine" && is_of_engine(one, &name))
        {
            let parameters = [("engine", text(&name)), ("against", text("ours"))];
            run.value("quality.cosine", &parameters, Unit::Ratio, least);
        }
    }
    Ok(())
}

fn is_of_engine(measurement: &Measurement, engine: &str) -> bool {
    measurement.parameters.get("engine") == Some(&Parameter::Text(engine.to_owned()))
}

fn take_turns(
    run: &mut Run,
    contenders: &mut [Contender],
    threads: usize,
    batch: &[Vec<u32>],
    repetitions: u64,
) -> Result<()> {
    let samples = in_turns_at_rest(run, contenders, batch, repetitions)?;
    let tokens: usize = batch.iter().map(Vec::len).sum();
    let conditions = [
        ("tokens", number(tokens)),
        ("batch", number(batch.len())),
        ("threads", number(threads)),
    ];
    let mut rows = Vec::new();
    let mut other = None;
    for (contender, sample) in contenders.iter().zip(samples) {
        let engine = [
            ("tokens", number(tokens)),
            ("engine", text(contender.name())),
        ];
        // Where the page's charts look for it; ours is measured separately there.
        let alone = batch.len() == 1 && threads == run.options.threads;
        if alone && matches!(contender, Contender::Peer(_)) {
            run.times("inference.latency", &engine, &sample);
            run.times("scaling.latency", &engine, &sample);
        }
        if matches!(contender, Contender::Other(_)) {
            other = Some(rows.len());
        }
        rows.push(ContenderSample {
            parameter: ("engine", text(contender.name())),
            milliseconds: sample,
        });
    }
    run.turns("peers.latency", &conditions, &rows);
    if let (Some(at), Some((_, figures))) = (other, &mut run.other) {
        let place = run.measurements.len() - rows.len() + at;
        figures.push(run.measurements.remove(place));
    }
    Ok(())
}
