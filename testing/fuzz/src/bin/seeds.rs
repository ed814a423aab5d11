//! Writes every target's seeds into a folder, one subfolder a target, and prints what a runner has to know of each target
//! as one line of JSON.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().context("usage: seeds FOLDER")?;
    for target in fuzz::TARGETS {
        let corpus = folder.join(target.name);
        std::fs::create_dir_all(&corpus)
            .with_context(|| format!("cannot make {}", corpus.display()))?;
        let seeds = (target.seeds)();
        for seed in &seeds {
            // Named as libFuzzer would, by content: the same seed is never there twice.
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
