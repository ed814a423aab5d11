//! Embeds texts with a sentence-transformers folder: `cargo run --release -p engine --example embed -- FOLDER < request.json`.
//!
//! A request is `{"texts": ["…"], "prompt_name": null}`; the answer holds the dimension, and for each text its tokens and its row.
//! For a cross-encoder, each text is a pair `["…", "…"]`, and each row a score.
//! A folder that is not run is refused with every reason on standard error, and exit code 1.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for a terminal"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::{EngineChoice, ModelFiles, Precision, Recipe, weights};
use serde_json::{Value, json};

fn main() -> ExitCode {
    match run() {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Value, Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name the model's folder")?);
    let engine = match arguments.next() {
        None => EngineChoice::Auto,
        Some(name) if name == "candle" => EngineChoice::Candle,
        Some(name) if name == "fused" => EngineChoice::Fused,
        Some(_) => return Err("the engine is `candle` or `fused`".into()),
    };
    let recipe = Recipe::read(&list_files(&folder, "")?)?;
    let mut weights = BTreeMap::new();
    for name in recipe.weight_files() {
        let file = File::open(folder.join(name))?;
        let size = file.metadata()?.len();
        weights.insert(name.clone(), weights::read(file, size)?.0);
    }
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let encoder = recipe.build(weights, engine, Precision::F32, threads)?;
    let tokenizer = recipe.tokenizer(&fs::read(folder.join(recipe.tokenizer_file()))?)?;

    if tokenizer.vocabulary() > encoder.vocabulary() {
        return Err("tokenizer.json has tokens beyond vocab_size".into());
    }
    let request: Value = serde_json::from_reader(io::stdin().lock())?;
    let prompts = recipe.prompts();
    let prompt = match request.get("prompt_name").and_then(Value::as_str) {
        None => prompts.default_text().unwrap_or_default(),
        Some(name) => {
            let prompt = prompts.texts.get(name);
            prompt.ok_or("the model has no such prompt")?
        }
    };
    let texts = request.get("texts").and_then(Value::as_array);
    let tokens = texts
        .ok_or("the request has no texts")?
        .iter()
        .map(|text| match text.as_array().map(Vec::as_slice) {
            Some([first, second]) if tokenizer.reads_pairs() => tokenizer.encode_pair(
                first.as_str().unwrap_or_default(),
                second.as_str().unwrap_or_default(),
            ),
            _ => tokenizer.encode_after(prompt, text.as_str().unwrap_or_default()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let sequences: Vec<_> = tokens.iter().map(|tokens| tokens.ids.as_slice()).collect();
    let rows = encoder.encode(&sequences)?;
    let rows: Vec<_> = rows.chunks_exact(encoder.dimension()).collect();
    // Tokens of the second text of a pair may have ids beyond the model's vocabulary.
    let words = recipe
        .shape()
        .map_or(u32::MAX, |shape| shape.vocabulary as u32);
    let ids = sequences.iter().map(|ids| ids.iter().map(|id| id % words));
    let tokens: Vec<Vec<_>> = ids.map(Iterator::collect).collect();
    Ok(json!({
        "engine": encoder.name(),
        "dimension": encoder.dimension(),
        "tokens": tokens,
        "rows": rows,
    }))
}

/// Reads the small files below `folder`, and lists the others.
fn list_files(folder: &Path, below: &str) -> io::Result<ModelFiles> {
    let mut files = ModelFiles::default();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            let inner = list_files(&entry.path(), &format!("{name}/"))?;
            files.contents.extend(inner.contents);
            files.others.extend(inner.others);
        } else if name.ends_with(".json") {
            files.contents.insert(name, fs::read(entry.path())?);
        } else {
            files.others.insert(name);
        }
    }
    Ok(files)
}
