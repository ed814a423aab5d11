//! Times and memory of an index: `cargo run --release -p sealed-index --example costs -- ROWS`.
//!
//! Prints rates of adding rows and of opening the stored index, memory relative to the vectors, and times of a proof. Rows have 384
//! dimensions and a text of 100 bytes. Times depend on the machine and on its load.

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Instant;

use sealed_index::{Change, Index, IndexKey, Opening, Precision, Row, Scope, Settings, Writes};

const DIMENSIONS: u32 = 384;
const BATCH: usize = 2048;

type Stored = HashMap<String, Vec<u8>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: usize = match std::env::args().nth(1) {
        Some(rows) => rows.parse()?,
        None => 100_000,
    };
    for precision in Precision::ALL {
        measure(rows, precision)?;
    }
    Ok(())
}

fn measure(rows: usize, precision: Precision) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings {
        model: "all-MiniLM-L6-v2".to_owned(),
        model_hash: [7; 32],
        prompt: None,
        dimensions: DIMENSIONS,
        precision,
    };
    let (mut index, writes) = Index::create(IndexKey::new(&[1; 32]), settings, &[0; 32])?;
    let mut stored = Stored::new();
    let mut state = store(&mut stored, writes);
    let mut seconds = 0.0;
    for batch in 0..rows.div_ceil(BATCH) {
        let numbers = batch * BATCH..rows.min((batch + 1) * BATCH);
        let changes: Vec<Change> = numbers.map(|number| Change::Put(row(number))).collect();
        let random = seed(2 * batch);
        let started = Instant::now();
        let staged = index.stage(&changes, &random)?;
        index = staged.index;
        if let Some(writes) = staged.writes {
            state = store(&mut stored, writes);
        }
        if let Some((next, writes)) = index.compact(Scope::Small, &seed(2 * batch + 1))? {
            index = next;
            state = store(&mut stored, writes);
        }
        seconds += started.elapsed().as_secs_f64();
    }
    let vectors = rows * precision.row_bytes(DIMENSIONS as usize);
    println!(
        "{}: {rows} rows, {} segments",
        precision.name(),
        index.segments()
    );
    println!("  add      {:>9.0} rows/s", rows as f64 / seconds);
    println!(
        "  memory   {:>9.2} × the vectors",
        index.memory() as f64 / vectors as f64
    );

    let started = Instant::now();
    let opening = Opening::new(IndexKey::new(&[1; 32]), state.0, state.1)?;
    let mut bytes = 0;
    let mut segments = Vec::new();
    for segment in opening.segments() {
        let object = stored
            .get(&segment.name.to_string())
            .cloned()
            .unwrap_or_default();
        bytes += object.len();
        segments.push(opening.open_segment(segment.number, object)?);
    }
    let read = started.elapsed().as_secs_f64();
    let opened = opening.finish(segments)?;
    let all = started.elapsed().as_secs_f64();
    println!(
        "  segments {:>9.2} GB/s on one thread",
        bytes as f64 / read / 1e9
    );
    println!(
        "  opened   {:>9.2} GB/s, map included",
        bytes as f64 / all / 1e9
    );

    let query = vec![0.05; DIMENSIONS as usize];
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let started = Instant::now();
    let (found, _) = opened.search(&[&query], 10, None, threads)?;
    println!(
        "  search   {:>9.2} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
    let ids: Vec<String> = found
        .iter()
        .flatten()
        .map(|found| found.row.id.to_owned())
        .collect();
    let started = Instant::now();
    let proofs = ids.iter().filter_map(|id| opened.prove(id).row());
    let hashes: usize = proofs.map(|proof| proof.path.len()).sum();
    let each = started.elapsed().as_secs_f64() / ids.len() as f64;
    println!(
        "  proof    {:>9.1} µs, {} hashes",
        each * 1e6,
        hashes / ids.len().max(1)
    );
    Ok(())
}

fn store(stored: &mut Stored, writes: Writes) -> (u64, Vec<u8>) {
    for (name, object) in writes.objects {
        stored.insert(name.to_string(), object);
    }
    for name in writes.obsolete {
        stored.remove(&name.to_string());
    }
    writes.state
}

fn seed(number: usize) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed
}

fn row(number: usize) -> Row {
    let mut state = number as u64 | 1 << 40;
    let numbers = (0..DIMENSIONS).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    });
    Row {
        id: number.to_string(),
        vector: numbers.collect(),
        text: Some("x".repeat(100)),
        metadata: sealed_index::Metadata::default(),
        computed: true,
    }
}
