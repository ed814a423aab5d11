//! Embeds the arguments with a sentence-transformers folder: `cargo run --release -p engine --example embed -- FOLDER TEXT…`.
//!
//! Prints one line per text: its number of tokens, and its cosine to the first text.

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use engine::{EngineChoice, Pooling, Precision, Shape, Tokenizer, weights};

const MAX_TOKENS: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name the model's folder")?);
    let texts: Vec<String> = arguments
        .map(|text| text.into_string().map_err(|_| "a text is not Unicode"))
        .collect::<Result<_, _>>()?;

    let shape = Shape::parse(
        &fs::read(folder.join("config.json"))?,
        MAX_TOKENS,
        Pooling::Mean,
    )?;
    let file = File::open(folder.join("model.safetensors"))?;
    let size = file.metadata()?.len();
    let (weights, _sha256) = weights::read(file, size)?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let encoder = EngineChoice::Auto.build(shape, weights, Precision::F32, threads)?;
    let tokenizer = Tokenizer::from_json(&fs::read(folder.join("tokenizer.json"))?, MAX_TOKENS)?;

    let tokens: Vec<_> = texts
        .iter()
        .map(|text| tokenizer.encode(text))
        .collect::<Result<_, _>>()?;
    let sequences: Vec<_> = tokens.iter().map(|tokens| tokens.ids.as_slice()).collect();
    let rows = encoder.encode(&sequences)?;
    let mut rows = rows.chunks_exact(encoder.dimension());
    let Some(first) = rows.clone().next() else {
        return Err("name a text, or several".into());
    };
    println!("{}, {} dimensions", encoder.name(), encoder.dimension());
    for (text, sequence) in texts.iter().zip(&sequences) {
        let row = rows.next().unwrap_or_default();
        // Rows have unit length, so the product is the cosine.
        let cosine: f32 = first.iter().zip(row).map(|(a, b)| a * b).sum();
        println!("{cosine:6.3}  {:3} tokens  {text}", sequence.len());
    }
    Ok(())
}
