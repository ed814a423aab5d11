//! Both engines against sentence-transformers, over a thousand texts of every script.
//!
//! Ignored by default, because the reference implementation takes gigabytes to install:
//! `cargo test --release -p enclave-server --test thousand -- --ignored --nocapture` runs
//! `benchmarks/peers/reference.py`, which installs it, and compares what comes out.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod texts;

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Parser;
use data_encoding::BASE64;
use enclave_server::config::Config;
use enclave_server::engine::{CandleEncoder, Encoder, FusedEncoder, Precision, Tokenizer};
use enclave_server::model::{Model, pinned};
use serde::Deserialize;

const COUNT: usize = 1000;

#[derive(Deserialize)]
struct Versions {
    computed_with: String,
    max_seq_length: usize,
}

#[derive(Deserialize)]
struct Row {
    ids: Vec<u32>,
    embedding: String,
}

impl Row {
    fn values(&self) -> Vec<f32> {
        let bytes = BASE64.decode(self.embedding.as_bytes()).unwrap();
        let words = bytes.as_chunks().0.iter();
        words.map(|word| f32::from_le_bytes(*word)).collect()
    }
}

/// What sentence-transformers makes of `texts`.
fn reference(model: &Path, texts: &[String]) -> (Versions, Vec<Row>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benchmarks/peers/reference.py");
    let mut child = Command::new("python3")
        .args([&script, model])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = texts
        .iter()
        .map(|text| serde_json::to_string(text).unwrap() + "\n")
        .collect();
    // Beside the reading: neither pipe holds it all.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let versions = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let rows: Vec<Row> = lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(rows.len(), texts.len());
    (versions, rows)
}

fn model(folder: &Path) -> Model {
    Model::load(folder, &pinned::all_minilm_l6_v2().unwrap()).unwrap()
}

#[test]
#[ignore = "installs sentence-transformers"]
fn the_engines_agree_with_sentence_transformers() {
    let folder = Config::parse_from(["enclave-server"]).model;
    let texts = texts::texts(COUNT);
    let (versions, rows) = reference(&folder, &texts);
    let loaded = model(&folder);
    assert_eq!(loaded.max_tokens, versions.max_seq_length);

    let tokenizer = Tokenizer::from_json(&loaded.tokenizer, loaded.max_tokens).unwrap();
    for (text, row) in texts.iter().zip(&rows) {
        assert_eq!(tokenizer.encode(text).unwrap().ids, row.ids, "{text:?}");
    }

    let shape = loaded.shape().unwrap();
    let threads = NonZeroUsize::new(2).unwrap();
    let fused = FusedEncoder::new(shape, loaded.weights, Precision::F32, threads).unwrap();
    let candle = CandleEncoder::new(shape, model(&folder).weights).unwrap();
    let engines: [&dyn Encoder; 2] = [&fused, &candle];
    for engine in engines {
        let (mut cosine, mut difference) = (1_f64, 0_f32);
        for (text, row) in texts.iter().zip(&rows) {
            let (expected, found) = (row.values(), engine.encode(&[&row.ids]).unwrap());
            let pairs = || expected.iter().zip(&found);
            let dot: f64 = pairs().map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let length = |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
            let this = dot / (length(&expected) * length(&found)).sqrt();
            assert!(this >= 0.99999, "{}, {text:?}: {this}", engine.name());
            cosine = cosine.min(this);
            difference = pairs()
                .map(|(a, b)| (a - b).abs())
                .fold(difference, f32::max);
        }
        println!(
            "{} against {} over {COUNT} texts: cosine at least {cosine:.12}, difference at most {difference:.1e}",
            engine.name(),
            versions.computed_with,
        );
        assert!(difference <= 2e-6, "{}: {difference:e}", engine.name());
    }
}
