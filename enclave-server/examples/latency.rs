//! Latency of one text in each engine and precision, in turns, compared with the processor's peak in f32: `cargo run --release -p enclave-server --example latency [-- MODEL_DIR]`.
//!
//! Runs itself once for each number of threads, because candle reads that number from the environment.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Parser;
use enclave_server::config::Config;
use enclave_server::model::{Model, pinned};
use engine::fused::Isa;
use engine::{CandleEncoder, Encoder, FusedEncoder, Precision};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LENGTHS: [u32; 5] = [9, 32, 63, 128, 256];
const ROUNDS: usize = 40;
const WARM_UP: usize = 5;

/// Set in the process that measures.
const THREADS: &str = "RAYON_NUM_THREADS";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => Config::parse_from(["latency"]).model.swap_remove(0),
    };
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
    let load = || Model::load(folder, &pinned::all_minilm_l6_v2()?.files).map_err(Failure::from);
    let mut engines: Vec<Box<dyn Encoder>> = Vec::new();
    for precision in Precision::ALL {
        let (shape, weights) = load()?.into_parts()?;
        let encoder = FusedEncoder::new(shape, weights, *precision, threads)?;
        engines.push(Box::new(encoder));
    }
    let (shape, weights) = load()?.into_parts()?;
    engines.push(Box::new(CandleEncoder::new(shape, weights)?));

    let peak = Isa::best().peak_flops(Duration::from_millis(200)) * threads.get() as f64;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut report = format!(
        "{threads} threads; {} can do {:.0} GFLOP/s in f32; load before: {}\n\
         min / median ms, candle's min over this one's, of the f32 peak\n",
        Isa::best().name(),
        peak / 1e9,
        load.split(' ').next().unwrap_or("unknown"),
    );
    for length in LENGTHS {
        let ids: Vec<u32> = std::iter::once(101)
            .chain((1..length - 1).map(|n| 2000 + n * 37))
            .chain([102])
            .collect();
        let mut times = vec![Vec::new(); engines.len()];
        for round in 0..WARM_UP + ROUNDS {
            for (engine, times) in engines.iter().zip(&mut times) {
                let started = Instant::now();
                engine.encode(&[&ids])?;
                if round >= WARM_UP {
                    times.push(started.elapsed().as_secs_f64());
                }
                // Threads of this turn that still spin would take a processor from the next turn.
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        for times in &mut times {
            times.sort_by(f64::total_cmp);
        }
        let candle = times[engines.len() - 1][0];
        writeln!(report, "{length} tokens")?;
        for (engine, times) in engines.iter().zip(&times) {
            writeln!(
                report,
                "  {:<18} {:>7.2} / {:>7.2}  {:>4.1}  {:>5.1} %",
                engine.name(),
                times[0] * 1e3,
                times[times.len() / 2] * 1e3,
                candle / times[0],
                100.0 * shape.flops(ids.len()) as f64 / times[0] / peak,
            )?;
        }
    }
    Ok(report + "\n")
}
