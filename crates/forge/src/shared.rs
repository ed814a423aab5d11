//! Test vectors that are not part of this repository: genuine documents, and vectors of standards.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the folder of the shared vectors: `$CLEARSEAL_VECTORS`, otherwise `shared/vectors` next to the repository.
///
/// If it is absent, prints this and appends the test to the file `$CLEARSEAL_SKIPPED`, so that the task runner counts the test as
/// skipped and not as passed.
pub fn shared_vectors() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    let folder = std::env::var_os("CLEARSEAL_VECTORS").map_or(default, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    tell_skipped("no published vectors");
    None
}

/// Reads a file of the shared vectors; reports a skip and returns `None` if the folder is absent. A missing or malformed file in
/// an existing folder fails the test.
#[allow(clippy::expect_used, reason = "a test fails so")]
pub fn shared_json(file: &str) -> Option<Value> {
    let bytes = std::fs::read(shared_vectors()?.join(file)).expect(file);
    Some(serde_json::from_slice(&bytes).expect(file))
}

/// Decodes a string of hex digits in such a file.
#[allow(clippy::expect_used, reason = "a test fails so")]
pub fn hex_of(value: &Value) -> Vec<u8> {
    let digits = value.as_str().expect("a string");
    base16ct::mixed::decode_vec(digits).expect("hex digits")
}

/// Reports that the running test is skipped, and why; the task runner counts it as skipped.
#[allow(clippy::print_stdout, reason = "the reader of the run must see it")]
pub fn tell_skipped(why: &str) {
    // The test harness names the thread after the test.
    let thread = std::thread::current();
    let line = format!("{}\t{why}\n", thread.name().unwrap_or("a test"));
    print!("skipped: {line}");
    let Some(file) = std::env::var_os("CLEARSEAL_SKIPPED") else {
        return;
    };
    let told = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&file)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(
        told.is_ok(),
        "cannot record a skipped test in {}",
        Path::new(&file).display()
    );
}
