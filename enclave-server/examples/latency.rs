//! How long one text takes in either engine, interleaved, and how near that comes to what the processor can do:
//! `cargo run --release -p enclave-server --example latency [-- MODEL_DIR]`.
//!
//! Runs itself once for each number of threads, because candle reads its own from the environment.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Parser;
use enclave_server::config::Config;
use enclave_server::engine::{CandleEncoder, Encoder, FusedEncoder};
use enclave_server::memory::PeakMemory;
use enclave_server::model::{Model, pinned};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LENGTHS: [u32; 5] = [9, 32, 63, 128, 256];
const ROUNDS: usize = 40;
const WARM_UP: usize = 5;

/// Set in the process that measures.
const THREADS: &str = "RAYON_NUM_THREADS";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| Config::parse_from(["latency"]).model, PathBuf::from);
    if let Ok(threads) = std::env::var(THREADS) {
        let report = measure(&folder, threads.parse()?)?;
        std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes())?;
        return Ok(());
    }
    let most = std::thread::available_parallelism()?.get();
    for threads in [1, most] {
        let status = Command::new(std::env::current_exe()?)
            .arg(&folder)
            .env(THREADS, threads.to_string())
            .status()?;
        if !status.success() {
            return Err("the measuring process failed".into());
        }
        if most == 1 {
            break;
        }
    }
    Ok(())
}

fn measure(folder: &std::path::Path, threads: NonZeroUsize) -> Result<String, Failure> {
    let load = || Model::load(folder, &pinned::all_minilm_l6_v2()?).map_err(Failure::from);
    let started = Instant::now();
    let model = load()?;
    let read = started.elapsed();
    let shape = model.shape()?;
    let fused = FusedEncoder::new(shape, model.weights, threads)?;
    let ready = started.elapsed();
    let memory = PeakMemory::new().peak_mb();
    let model = load()?;
    let candle = CandleEncoder::new(shape, model.weights)?;

    // Not through the file's own threads: the peak is what the registers allow, on each thread at once.
    let peak = fused.isa().peak_flops(Duration::from_millis(200)) * threads.get() as f64;
    let busy = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut report = format!(
        "{threads} threads; verified and read in {read:.1?}, ready after {ready:.1?}, {memory} MiB at most until then\n\
         {} can do {:.0} GFLOP/s on {threads} threads; load before: {}\n\
         tokens | fused min / median ms | of peak | candle min / median ms | candle / fused\n",
        fused.name(),
        peak / 1e9,
        busy.split(' ').next().unwrap_or("unknown"),
    );
    for length in LENGTHS {
        let ids: Vec<u32> = std::iter::once(101)
            .chain((1..length - 1).map(|n| 2000 + n * 37))
            .chain([102])
            .collect();
        let engines: [&dyn Encoder; 2] = [&fused, &candle];
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..WARM_UP + ROUNDS {
            for (engine, times) in engines.iter().zip(&mut times) {
                let started = Instant::now();
                engine.encode(&[&ids])?;
                if round >= WARM_UP {
                    times.push(started.elapsed().as_secs_f64());
                }
            }
        }
        let [fused, candle] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            (times[0], times[times.len() / 2])
        });
        let reached = shape.flops(ids.len()) as f64 / fused.0;
        report += &format!(
            "{length:>6} | {:>8.2} / {:>8.2} | {:>5.1} % | {:>8.2} / {:>8.2} | {:.1}\n",
            fused.0 * 1e3,
            fused.1 * 1e3,
            100.0 * reached / peak,
            candle.0 * 1e3,
            candle.1 * 1e3,
            candle.0 / fused.0,
        );
    }
    Ok(report + "\n")
}
