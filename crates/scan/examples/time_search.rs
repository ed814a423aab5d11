//! Times searches, as one contender of `benchmarks/peers/search.py`:
//! `cargo run --release -p scan --example time_search -- ROWS DIMENSIONS THREADS VECTORS QUERIES`.
//!
//! VECTORS and QUERIES are files of little-endian f32. After the line `ready`, each line of input is a question:
//!
//! ```text
//! search PRECISION FIRST COUNT K ISA      the time in ms, and the rows of the first query's result
//! read PRECISION                          the time in ms of reading as many bytes on all threads
//! ```

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for a terminal"
)]

use std::error::Error;
use std::io;
use std::num::NonZeroUsize;
use std::time::Instant;

use scan::{Block, Isa, Precision, Vectors, search_on};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, dimensions, threads, vectors, queries] = arguments.as_slice() else {
        return Err("ROWS DIMENSIONS THREADS VECTORS QUERIES".into());
    };
    let dimensions: usize = dimensions.parse()?;
    let threads: NonZeroUsize = threads.parse()?;
    let queries = read_floats(queries)?;
    let contender = Contender {
        vectors: load(dimensions, rows.parse()?, vectors)?,
        queries: queries.chunks(dimensions).collect(),
        threads,
    };
    let words: Vec<u64> = (0..contender.vectors[0].memory() as u64 / 8).collect();
    println!("ready");
    for line in io::stdin().lines() {
        let line = line?;
        let question: Vec<&str> = line.split_whitespace().collect();
        match question.as_slice() {
            ["search", precision, first, count, k, isa] => {
                let (first, count) = (first.parse()?, count.parse()?);
                contender.search(precision, first, count, k.parse()?, isa)?;
            }
            ["read", precision] => {
                let words = words.get(..contender.block(precision)?.memory() / 8);
                let begun = Instant::now();
                std::hint::black_box(read_all(words.unwrap_or_default(), threads));
                println!("{}", begun.elapsed().as_secs_f64() * 1e3);
            }
            _ => return Err(format!("not a question: {line}").into()),
        }
    }
    Ok(())
}

struct Contender<'a> {
    /// In the order of [`Precision::ALL`].
    vectors: Vec<Vectors>,
    queries: Vec<&'a [f32]>,
    threads: NonZeroUsize,
}

impl Contender<'_> {
    fn search(
        &self,
        precision: &str,
        first: usize,
        count: usize,
        k: usize,
        isa: &str,
    ) -> Result<(), Box<dyn Error>> {
        let isa = Isa::available().find(|candidate| isa == "best" || candidate.name() == isa);
        let isa = isa.ok_or("the processor lacks this instruction set")?;
        let blocks = [Block {
            vectors: self.block(precision)?,
            live: None,
        }];
        let queries = &self.queries[first..first + count];
        let begun = Instant::now();
        let found = search_on(isa, &blocks, queries, k, self.threads, &|a, b| a.cmp(&b))?;
        let time = begun.elapsed().as_secs_f64() * 1e3;
        let rows: Vec<String> = found
            .first()
            .into_iter()
            .flatten()
            .map(|hit| hit.row.to_string())
            .collect();
        println!("{time} {}", rows.join(","));
        Ok(())
    }

    fn block(&self, precision: &str) -> Result<&Vectors, Box<dyn Error>> {
        let mut blocks = self.vectors.iter();
        let block = blocks.find(|block| block.precision().name() == precision);
        Ok(block.ok_or("not a precision")?)
    }
}

/// Reads the vectors in every precision, and reports the speed of opening the stored forms.
fn load(dimensions: usize, rows: usize, file: &str) -> Result<Vec<Vectors>, Box<dyn Error>> {
    let floats = read_floats(file)?;
    let floats = floats.get(..rows * dimensions).ok_or("too few vectors")?;
    let mut blocks = Vec::new();
    for precision in Precision::ALL {
        let mut bytes = Vec::new();
        // In parts, because memory would otherwise hold two blocks.
        for part in floats.chunks(10_000 * dimensions) {
            Vectors::from_f32(dimensions, precision, part)?.to_bytes(&mut bytes);
        }
        let begun = Instant::now();
        blocks.push(Vectors::from_bytes(dimensions, precision, rows, &bytes)?);
        let rate = bytes.len() as f64 / begun.elapsed().as_secs_f64() / 1e9;
        eprintln!("{}: opened at {rate:.2} GB/s", precision.name());
    }
    Ok(blocks)
}

fn read_floats(file: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = std::fs::read(file)?;
    let floats = bytes.as_chunks().0.iter();
    Ok(floats.map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// Reads all words once and does nothing else with them.
fn read_all(words: &[u64], threads: NonZeroUsize) -> u64 {
    let combine = |part: &[u64]| {
        let mut sums = [0; 32];
        for words in part.as_chunks::<32>().0 {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum ^= word;
            }
        }
        sums.into_iter().fold(0, |a, b| a ^ b)
    };
    std::thread::scope(|scope| {
        let parts = words.chunks(words.len().div_ceil(threads.get()).max(1));
        let others: Vec<_> = parts
            .map(|part| scope.spawn(move || combine(part)))
            .collect();
        let sums = others.into_iter().filter_map(|other| other.join().ok());
        sums.fold(0, |a, b| a ^ b)
    })
}
