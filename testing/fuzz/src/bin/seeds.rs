//! Writes every target's seeds into a folder, with a subfolder per target, and prints the settings of each target for a runner as
//! one line of JSON.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "standard output is its result")]

use std::path::PathBuf;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().context("usage: seeds FOLDER")?;
    for target in fuzz::TARGETS {
        let corpus = folder.join(target.name);
        std::fs::create_dir_all(&corpus)
            .with_context(|| format!("cannot make {}", corpus.display()))?;
        let seeds = (target.seeds)();
        for seed in &seeds {
            // Named by content, as libFuzzer does, so that a seed is never stored twice.
            let name = &base16ct::lower::encode_string(&Sha256::digest(seed))[..40];
            std::fs::write(corpus.join(name), seed)?;
        }
        let line = serde_json::json!({
            "name": target.name,
            "input": target.input,
            "seeds": seeds.len(),
            "dictionary": target.dictionary,
            "max_len": target.max_len,
        });
        println!("{line}");
    }
    Ok(())
}
