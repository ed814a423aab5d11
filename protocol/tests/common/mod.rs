//! Shared by the test files; each of them uses a part.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::path::PathBuf;

use data_encoding::HEXLOWER_PERMISSIVE;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

/// Published vectors, read from beside the repository; `None`, said aloud, where they are absent.
pub fn vectors(file: &str) -> Option<serde_json::Value> {
    let folder = std::env::var_os("CLEARSEAL_VECTORS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        println!("skipped: no vectors");
        return None;
    }
    // Once the folder is there, a missing file is a failure and not a skip.
    Some(serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap())
}

pub fn hex(value: &serde_json::Value) -> Vec<u8> {
    HEXLOWER_PERMISSIVE
        .decode(value.as_str().unwrap().as_bytes())
        .unwrap()
}

pub fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}
