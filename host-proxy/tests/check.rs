//! `host-proxy log check`: its output and its exit status.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use host_proxy::log::Store;
use redb::{ReadableTable as _, TableDefinition};

use crate::fake::FakeLog;

const HEADS: TableDefinition<'_, (&merkle::Hash, u64), &[u8]> = TableDefinition::new("heads");

/// Returns exit status, standard output, standard error.
fn check(file: &Path) -> (Option<i32>, String, String) {
    let program = env!("CARGO_BIN_EXE_host-proxy");
    let output = Command::new(program)
        .args(["log", "check"])
        .arg(file)
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn valid_damaged_and_unreadable_files_differ_in_exit_status() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("receipts.redb");
    let log = FakeLog::new(1, 70);
    let store = Store::open(&path).unwrap();
    store.extend(&log.batch(0, 40)).unwrap();
    // An unpublished head would be replaced by the next one.
    store.publish();
    store.extend(&log.batch(40, 70)).unwrap();

    let (status, _, output) = check(&path);
    assert_eq!(status, Some(2), "{output}");
    assert!(output.contains("LOG_IN_USE"), "{output}");
    drop(store);

    let (status, output, _) = check(&path);
    assert_eq!(status, Some(0), "{output}");
    assert!(
        output.contains("1 logs, 70 leaves, 2 signed heads"),
        "{output}"
    );

    // An old head loses its signature; the newest is untouched, and a proxy would start.
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut heads = write.open_table(HEADS).unwrap();
        let found = heads.get((&log.id(), 40)).unwrap().unwrap();
        let mut bytes = found.value().to_vec();
        drop(found);
        *bytes.last_mut().unwrap() ^= 1;
        heads.insert((&log.id(), 40), bytes.as_slice()).unwrap();
    }
    write.commit().unwrap();
    drop(database);
    assert!(Store::open(&path).is_ok());
    let (status, out, output) = check(&path);
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(output.contains("LOG_CORRUPT"), "{output}");

    let (status, _, output) = check(&folder.path().join("absent.redb"));
    assert_eq!(status, Some(2));
    assert!(output.contains("LOG_UNAVAILABLE"), "{output}");
    // A check creates no file.
    assert!(!folder.path().join("absent.redb").exists());
}
