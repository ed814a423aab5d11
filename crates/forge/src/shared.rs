//! Where tests find the vectors that this project does not ship: genuine documents, and those of standards.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of the shared vectors: `$CLEARSEAL_VECTORS`, else `shared/vectors` beside the repository.
///
/// Where it is absent, a test has nothing to judge. It says so on standard output, and in the file that
/// `$CLEARSEAL_SKIPPED` names, by which the task runner counts it as skipped and not as passed.
pub fn shared_vectors() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    let folder = std::env::var_os("CLEARSEAL_VECTORS").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    tell_skipped("no published vectors");
    None
}

/// A file of the shared vectors; nothing, said aloud, where the folder is absent. Once it is there, a file that is missing or not
/// JSON is a failure and not a skip.
#[allow(clippy::expect_used, reason = "a test fails so")]
pub fn shared_json(file: &str) -> Option<Value> {
    let bytes = std::fs::read(shared_vectors()?.join(file)).expect(file);
    Some(serde_json::from_slice(&bytes).expect(file))
}

/// The bytes of a string of hex digits in such a file.
#[allow(clippy::expect_used, reason = "a test fails so")]
pub fn hex_of(value: &Value) -> Vec<u8> {
    let digits = value.as_str().expect("a string");
    base16ct::mixed::decode_vec(digits).expect("hex digits")
}

/// Says that the running test had nothing to judge, and why; the task runner counts it as skipped.
#[allow(clippy::print_stdout, reason = "whoever reads the run must see it")]
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
        "a skipped test cannot be told in {}",
        Path::new(&file).display()
    );
}
