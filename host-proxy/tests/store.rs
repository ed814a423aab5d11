//! The log's file: what is acknowledged stays, what does not belong is refused, what is damaged is reported.
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

#[path = "support/log.rs"]
mod fake;

use fake::FakeLog;
use host_proxy::log::{Batch, LogError, Store};
use merkle::Hash;
use merkle::exchange::Inclusion;
use merkle::head::TreeHead;
use merkle::verify;
use redb::{ReadableTable, TableDefinition};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("receipts.redb");
    (folder, path)
}

fn code(result: Result<impl Sized, LogError>) -> &'static str {
    result.err().map_or("accepted", |error| error.code())
}

/// Every head that was signed, every leaf in the newest tree, every step between two heads.
fn holds(store: &Store, log: &FakeLog, sizes: &[usize]) {
    let newest = *sizes.last().unwrap();
    for &size in sizes {
        let head = store.head(&log.id(), Some(size as u64)).unwrap().unwrap();
        assert_eq!(TreeHead::verify(&head.head), Ok(log.tree_head(size)));
        assert_eq!(head.document, log.document);
    }
    let root = log.tree_head(newest);
    for (index, leaf) in log.leaves[..newest].iter().enumerate() {
        let proof = store.inclusion(&log.id(), leaf).unwrap().unwrap();
        assert_eq!(proof.index, index as u64);
        let head = TreeHead::verify(&proof.head).unwrap();
        assert_eq!(head, root);
        verify::inclusion(leaf, proof.index, head.size, &proof.path, &head.root).unwrap();
    }
    for pair in sizes.windows(2) {
        let proof = store
            .consistency(&log.id(), pair[0] as u64, Some(pair[1] as u64))
            .unwrap()
            .unwrap();
        let [from, to] = [pair[0], pair[1]].map(|size| log.tree_head(size).tree());
        verify::consistency(&from, &to, &proof.path).unwrap();
    }
}

#[test]
fn what_was_taken_is_proven_now_and_after_a_restart() {
    let (_folder, path) = place();
    let (one, two) = (FakeLog::new(1, 140), FakeLog::new(2, 33));
    let sizes = [0, 1, 2, 3, 8, 9, 64, 100, 140];
    let store = Store::open(&path).unwrap();
    let mut stored = 0;
    for size in sizes {
        store.extend(&one.batch(stored, size)).unwrap();
        stored = size;
        // Another log grows in between, and stays apart.
        if size == 9 {
            store.extend(&two.batch(0, 33)).unwrap();
        }
        assert_eq!(store.size(&one.id()), size as u64);
    }
    let empty = FakeLog::new(3, 0);
    store.extend(&empty.batch(0, 0)).unwrap();
    holds(&store, &one, &sizes);
    holds(&store, &two, &[33]);
    drop(store);
    let store = Store::open(&path).unwrap();
    holds(&store, &one, &sizes);
    holds(&store, &two, &[33]);
    holds(&store, &empty, &[0]);
    assert_eq!(store.leaves(), 173);
}

#[test]
fn a_newer_head_of_the_same_tree_replaces_the_older() {
    let (_folder, path) = place();
    let mut log = FakeLog::new(1, 5);
    let store = Store::open(&path).unwrap();
    store.extend(&log.batch(0, 5)).unwrap();
    log.time += 60;
    log.document = b"another document".to_vec();
    store.extend(&log.batch(5, 5)).unwrap();
    holds(&store, &log, &[5]);
    drop(store);
    holds(&Store::open(&path).unwrap(), &log, &[5]);
}

#[test]
fn histories_that_do_not_fit_are_refused_and_change_nothing() {
    let (_folder, path) = place();
    let log = FakeLog::new(1, 20);
    let store = Store::open(&path).unwrap();
    store.extend(&log.batch(0, 10)).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<Hash>)| {
        let mut other = log.clone();
        change(&mut other.leaves);
        other
    };
    let forked = changed(&|leaves| leaves[4] = [9; 32]);
    let dropped = changed(&|leaves| {
        leaves.remove(4);
    });
    let reordered = changed(&|leaves| leaves.swap(4, 15));
    let other = FakeLog::new(2, 20);
    let foreign = TreeHead {
        log: log.id(),
        ..other.tree_head(12)
    };
    let cases: [(&str, Batch); 9] = [
        ("LOG_FORKED", forked.batch(10, 20)),
        ("LOG_FORKED", dropped.batch(10, 19)),
        ("LOG_FORKED", reordered.batch(10, 20)),
        ("LOG_FORKED", forked.batch(10, 10)),
        // A leaf that the head covers is kept back.
        (
            "LOG_FORKED",
            Batch {
                leaves: log.leaves[10..14].to_vec(),
                ..log.batch(10, 15)
            },
        ),
        ("LOG_ROLLED_BACK", log.batch(9, 9)),
        (
            "HEAD_OTHER_LOG",
            Batch {
                log: log.id(),
                ..other.batch(10, 12)
            },
        ),
        // Signed by a key that is not the log's.
        (
            "HEAD_SIG_FAILED",
            Batch {
                head: other.sign(&foreign),
                ..log.batch(10, 12)
            },
        ),
        ("HEAD_EVIDENCE_MISMATCH", {
            let mut batch = log.batch(10, 12);
            batch.head.document.push(0);
            batch
        }),
    ];
    for (expected, batch) in cases {
        assert_eq!(code(store.extend(&batch)), expected);
        holds(&store, &log, &[10]);
    }
    let mut malformed = log.batch(10, 12);
    malformed.head.head.pop();
    assert_eq!(code(store.extend(&malformed)), "HEAD_MALFORMED");
    store.extend(&log.batch(10, 20)).unwrap();
    drop(store);
    holds(&Store::open(&path).unwrap(), &log, &[10, 20]);
}

#[test]
fn a_file_has_one_owner() {
    let (_folder, path) = place();
    let _first = Store::open(&path).unwrap();
    assert_eq!(code(Store::open(&path)), "LOG_IN_USE");
    let nowhere = path.join("below/a/file");
    assert_eq!(code(Store::open(&nowhere)), "LOG_UNAVAILABLE");
}

fn filled(path: &Path) -> FakeLog {
    let log = FakeLog::new(1, 70);
    let store = Store::open(path).unwrap();
    store.extend(&log.batch(0, 40)).unwrap();
    store.extend(&log.batch(40, 70)).unwrap();
    log
}

#[test]
fn a_changed_byte_is_reported_or_was_in_nothing_that_is_used() {
    let (folder, path) = place();
    let log = filled(&path);
    let good = std::fs::read(&path).unwrap();
    let copy = folder.path().join("copy");
    let mut reported = 0;
    // Every byte of what is not empty would take minutes: a stride that is prime to all page sizes.
    let used: Vec<_> = (0..good.len()).filter(|at| good[*at] != 0).collect();
    for at in used.into_iter().step_by(211) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&copy, &bytes).unwrap();
        match Store::check(&copy) {
            Ok(_) => holds(&Store::open(&copy).unwrap(), &log, &[40, 70]),
            Err(error) => {
                assert_eq!(error.code(), "LOG_CORRUPT", "byte {at}: {error}");
                reported += 1;
            }
        }
    }
    assert!(reported > 0, "leaves and heads are among the bytes");
}

#[test]
fn a_file_that_was_cut_off_is_reported_and_left_as_it_is() {
    let (folder, path) = place();
    filled(&path);
    let good = std::fs::read(&path).unwrap();
    let copy = folder.path().join("copy");
    for length in [0, 1, 100, 4096, good.len() / 2, good.len() - 4096] {
        std::fs::write(&copy, &good[..length]).unwrap();
        assert_eq!(code(Store::open(&copy)), "LOG_CORRUPT", "{length} bytes");
    }
    std::fs::write(&copy, "not a log at all, but text of some length").unwrap();
    assert_eq!(code(Store::open(&copy)), "LOG_CORRUPT");
}

/// Changes the file as somebody would who knows its format: every page is sound, and the contents are not.
fn tamper(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = redb::Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

const LEAVES: TableDefinition<'_, (&Hash, u64), &Hash> = TableDefinition::new("leaves");
const NUMBERS: TableDefinition<'_, (&Hash, &Hash), u64> = TableDefinition::new("numbers");
const NODES: TableDefinition<'_, (&Hash, u8, u64), &Hash> = TableDefinition::new("nodes");
const HEADS: TableDefinition<'_, (&Hash, u64), &[u8]> = TableDefinition::new("heads");
const EVIDENCE: TableDefinition<'_, &Hash, (&[u8], &[u8])> = TableDefinition::new("evidence");

#[test]
fn contents_that_do_not_agree_are_reported_although_the_pages_are_sound() {
    let id = FakeLog::new(1, 0).id();
    let forged = FakeLog::new(1, 0)
        .sign(&FakeLog::new(1, 0).tree_head(0))
        .head;
    type Change<'a> = &'a dyn Fn(&redb::WriteTransaction);
    let changes: [(&str, Change<'_>); 9] = [
        ("a leaf exchanged", &|write| {
            write
                .open_table(LEAVES)
                .unwrap()
                .insert((&id, 3), &[1; 32])
                .unwrap();
        }),
        ("a leaf removed", &|write| {
            write.open_table(LEAVES).unwrap().remove((&id, 3)).unwrap();
        }),
        ("the last leaf removed", &|write| {
            write.open_table(LEAVES).unwrap().remove((&id, 69)).unwrap();
        }),
        ("a leaf added", &|write| {
            write
                .open_table(LEAVES)
                .unwrap()
                .insert((&id, 70), &[1; 32])
                .unwrap();
        }),
        ("an inner node exchanged", &|write| {
            write
                .open_table(NODES)
                .unwrap()
                .insert((&id, 3, 2), &[1; 32])
                .unwrap();
        }),
        ("an inner node added", &|write| {
            write
                .open_table(NODES)
                .unwrap()
                .insert((&id, 9, 9), &[1; 32])
                .unwrap();
        }),
        ("a receipt that leads nowhere", &|write| {
            let mut numbers = write.open_table(NUMBERS).unwrap();
            let leaf = FakeLog::new(1, 70).leaves[5];
            numbers.remove((&id, &leaf)).unwrap();
        }),
        ("a head exchanged", &|write| {
            write
                .open_table(HEADS)
                .unwrap()
                .insert((&id, 70), forged.as_slice())
                .unwrap();
        }),
        ("a document removed", &|write| {
            let mut evidence = write.open_table(EVIDENCE).unwrap();
            let names: Vec<Hash> = evidence
                .iter()
                .unwrap()
                .map(|entry| *entry.unwrap().0.value())
                .collect();
            for name in names {
                evidence.remove(&name).unwrap();
            }
        }),
    ];
    for (what, change) in changes {
        let (_folder, path) = place();
        filled(&path);
        tamper(&path, change);
        assert_eq!(code(Store::check(&path)), "LOG_CORRUPT", "{what}");
        assert_eq!(
            code(Store::check(&path)),
            "LOG_CORRUPT",
            "{what}: not mended"
        );
        // At start the newest head and what it rests on are read; whatever else is damaged is never served as sound.
        let newest = ["a head exchanged", "a document removed"];
        match Store::open(&path) {
            Err(error) => assert_eq!(error.code(), "LOG_CORRUPT", "{what}"),
            Ok(store) => {
                assert!(!newest.contains(&what), "{what}");
                for leaf in &FakeLog::new(1, 70).leaves {
                    if let Ok(Some(proof)) = store.inclusion(&id, leaf) {
                        let (head, _) = TreeHead::parse(&proof.head).unwrap();
                        let Inclusion { index, path, .. } = proof;
                        let proven =
                            merkle::verify::inclusion(leaf, index, head.size, &path, &head.root);
                        assert!(proven.is_ok(), "{what}");
                    }
                }
            }
        }
    }
}

/// A year of heads costs a start as much as one head: all but the newest are left to `log check`.
#[test]
fn a_start_verifies_the_newest_head_alone() {
    let (_folder, path) = place();
    let log = FakeLog::new(1, 400);
    let store = Store::open(&path).unwrap();
    for size in 0..400 {
        store.extend(&log.batch(size, size + 1)).unwrap();
    }
    drop(store);
    let unsigned = |write: &redb::WriteTransaction| {
        let mut heads = write.open_table(HEADS).unwrap();
        for size in 1..400 {
            let mut bytes = heads
                .get((&log.id(), size))
                .unwrap()
                .unwrap()
                .value()
                .to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            heads.insert((&log.id(), size), bytes.as_slice()).unwrap();
        }
    };
    tamper(&path, unsigned);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.size(&log.id()), 400);
    assert!(
        store
            .inclusion(&log.id(), &log.leaves[7])
            .unwrap()
            .is_some()
    );
    drop(store);
    assert_eq!(code(Store::check(&path)), "LOG_CORRUPT");
}

#[test]
fn heads_of_a_log_that_ended_are_thinned_and_everything_is_still_proven() {
    let (_folder, path) = place();
    let log = FakeLog::new(1, 40);
    let store = Store::open(&path).unwrap();
    for size in 0..40 {
        store.extend(&log.batch(size, size + 1)).unwrap();
    }
    let signed = log.tree_head(40).time;
    assert_eq!(store.thin(signed + 24 * 3600 - 1).unwrap(), 0);
    let gone = store.thin(signed + 24 * 3600).unwrap();
    assert!(gone > 30, "{gone} of 40 heads went");
    assert_eq!(store.thin(signed + 24 * 3600).unwrap(), 0);
    holds(&store, &log, &[40]);
    // Who kept an earlier head himself can still be led on to the newest.
    assert!(
        store
            .consistency(&log.id(), 17, Some(40))
            .unwrap()
            .is_some()
    );
    drop(store);
    let checked = Store::check(&path).unwrap();
    assert_eq!((checked.logs, checked.leaves), (1, 40));
    assert_eq!(checked.heads, 40 - gone);
}
