//! How long one text takes in the engine: `cargo run --release -p enclave-server --example latency -- MODEL_DIR`.

use std::time::{Duration, Instant};

use clap::Parser;
use enclave_server::config::Config;
use enclave_server::engine::{CandleEncoder, Encoder};
use enclave_server::memory::PeakMemory;
use enclave_server::model::{Model, pinned};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| Config::parse_from(["latency"]).model, Into::into);
    let started = Instant::now();
    let model = Model::load(&folder, &pinned::all_minilm_l6_v2()?)?;
    let loaded = started.elapsed();
    let encoder = CandleEncoder::new(model.shape()?, model.weights)?;
    let mut report = format!(
        "verified and read in {loaded:.1?}, {} built by {:.1?}\n",
        encoder.name(),
        started.elapsed()
    );
    for tokens in [9, 32, 63, 128, 256] {
        let ids: Vec<u32> = std::iter::once(101)
            .chain((1..tokens - 1).map(|n| 2000 + n * 37))
            .chain([102])
            .collect();
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..60 {
            let started = Instant::now();
            encoder.encode(&[&ids])?;
            times.push(started.elapsed());
        }
        let times = &mut times[10..];
        times.sort();
        report += &format!(
            "{tokens:>4} tokens: {:>8.2?} min, {:>8.2?} median\n",
            times[0],
            times[times.len() / 2]
        );
    }
    report += &format!("peak memory {} MiB\n", PeakMemory::new().peak_mb());
    std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes())?;
    Ok(())
}
