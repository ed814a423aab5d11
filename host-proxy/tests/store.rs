//! The log's file: stored leaves are kept, inconsistent batches are refused, and damage is reported.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/log.rs"]
mod fake;

use std::path::{Path, PathBuf};

use host_proxy::log::{Batch, LogError, Store};
use merkle::Hash;
use merkle::head::TreeHead;
use merkle::json::Inclusion;
use merkle::verify;
use redb::{ReadableTable, TableDefinition};
use tempfile::TempDir;

use fake::FakeLog;

fn temporary_file() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("receipts.redb");
    (folder, path)
}

fn code(result: Result<impl Sized, LogError>) -> &'static str {
    result.err().map_or("accepted", |error| error.code())
}

/// Stores a batch and publishes its head.
fn take(store: &Store, batch: &Batch) {
    store.extend(batch).unwrap();
    store.publish();
}

/// Checks every signed head, the inclusion of every leaf, and the consistency between heads.
fn assert_holds(store: &Store, log: &FakeLog, sizes: &[usize]) {
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
fn stored_batches_are_proven_before_and_after_a_restart() {
    let (_folder, path) = temporary_file();
    let (one, two) = (FakeLog::new(1, 140), FakeLog::new(2, 33));
    let sizes = [0, 1, 2, 3, 8, 9, 64, 100, 140];
    let store = Store::open(&path).unwrap();
    let mut stored = 0;
    for size in sizes {
        take(&store, &one.batch(stored, size));
        stored = size;
        // Another log grows at the same time.
        if size == 9 {
            take(&store, &two.batch(0, 33));
        }
        assert_eq!(store.size(&one.id()), size as u64);
    }
    let empty = FakeLog::new(3, 0);
    take(&store, &empty.batch(0, 0));
    assert_holds(&store, &one, &sizes);
    assert_holds(&store, &two, &[33]);
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_holds(&store, &one, &sizes);
    assert_holds(&store, &two, &[33]);
    assert_holds(&store, &empty, &[0]);
    assert_eq!(store.leaves(), 173);
}

#[test]
fn a_newer_head_of_the_same_tree_replaces_the_older() {
    let (_folder, path) = temporary_file();
    let mut log = FakeLog::new(1, 5);
    let store = Store::open(&path).unwrap();
    take(&store, &log.batch(0, 5));
    log.time += 60;
    log.document = b"another document".to_vec();
    take(&store, &log.batch(5, 5));
    assert_holds(&store, &log, &[5]);
    drop(store);
    assert_holds(&Store::open(&path).unwrap(), &log, &[5]);
}

#[test]
fn leaves_are_shown_once_published_and_heads_in_between_never() {
    let (_folder, path) = temporary_file();
    let mut log = FakeLog::new(1, 40);
    let store = Store::open(&path).unwrap();
    let inclusion = |leaf: usize| store.inclusion(&log.id(), &log.leaves[leaf]).unwrap();
    let head = |size: Option<u64>| store.head(&log.id(), size).unwrap();
    store.extend(&log.batch(0, 3)).unwrap();
    assert!(head(None).is_none() && head(Some(3)).is_none() && inclusion(0).is_none());
    store.publish();
    for size in [4, 5, 9] {
        store
            .extend(&log.batch(store.size(&log.id()) as usize, size))
            .unwrap();
    }
    assert_eq!(store.size(&log.id()), 9);
    let shown = TreeHead::verify(&head(None).unwrap().head).unwrap();
    assert_eq!(shown, log.tree_head(3));
    for size in [4, 5, 9] {
        assert!(head(Some(size)).is_none(), "{size}");
        let to = store.consistency(&log.id(), 3, Some(size)).unwrap();
        assert!(to.is_none(), "{size}");
    }
    assert!(inclusion(2).is_some() && inclusion(3).is_none());
    store.publish();
    assert!(inclusion(8).is_some());
    // Heads between two publications are not even in the file.
    assert!(head(Some(3)).is_some() && head(Some(4)).is_none() && head(Some(5)).is_none());
    drop(store);
    let checked = Store::check(&path).unwrap();
    assert_eq!((checked.leaves, checked.heads), (9, 2));
    // A published head is signed at that time: it replaces the one of the same size that was signed with the request.
    let store = Store::open(&path).unwrap();
    store.extend(&log.batch(9, 12)).unwrap();
    log.time += 2;
    store.extend(&log.batch(12, 12)).unwrap();
    store.publish();
    let shown = store.head(&log.id(), None).unwrap().unwrap();
    assert_eq!(TreeHead::verify(&shown.head).unwrap().time, log.time);
    // A published head does not change with every pull of a log that does not grow.
    log.time += 2;
    store.extend(&log.batch(12, 12)).unwrap();
    store.publish();
    let same = store.head(&log.id(), None).unwrap().unwrap();
    assert_eq!(same.head, shown.head);
}

#[test]
fn inconsistent_histories_are_refused_and_change_nothing() {
    let (_folder, path) = temporary_file();
    let log = FakeLog::new(1, 20);
    let store = Store::open(&path).unwrap();
    take(&store, &log.batch(0, 10));
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
        // A leaf that the head covers is withheld.
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
        assert_holds(&store, &log, &[10]);
    }
    let mut malformed = log.batch(10, 12);
    malformed.head.head.pop();
    assert_eq!(code(store.extend(&malformed)), "HEAD_MALFORMED");
    take(&store, &log.batch(10, 20));
    drop(store);
    assert_holds(&Store::open(&path).unwrap(), &log, &[10, 20]);
}

#[test]
fn a_file_has_one_owner() {
    let (_folder, path) = temporary_file();
    let _first = Store::open(&path).unwrap();
    assert_eq!(code(Store::open(&path)), "LOG_IN_USE");
    let nowhere = path.join("below/a/file");
    assert_eq!(code(Store::open(&nowhere)), "LOG_UNAVAILABLE");
}

fn filled(path: &Path) -> FakeLog {
    let log = FakeLog::new(1, 70);
    let store = Store::open(path).unwrap();
    take(&store, &log.batch(0, 40));
    take(&store, &log.batch(40, 70));
    log
}

#[test]
fn a_changed_byte_is_reported_or_unused() {
    let (folder, path) = temporary_file();
    let log = filled(&path);
    let good = std::fs::read(&path).unwrap();
    let copy = folder.path().join("copy");
    let mut reported = 0;
    // All non-zero bytes would take minutes. The stride is coprime to every page size.
    let used: Vec<_> = (0..good.len()).filter(|at| good[*at] != 0).collect();
    for at in used.into_iter().step_by(211) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&copy, &bytes).unwrap();
        match Store::check(&copy) {
            Ok(_) => assert_holds(&Store::open(&copy).unwrap(), &log, &[40, 70]),
            Err(error) => {
                assert_eq!(error.code(), "LOG_CORRUPT", "byte {at}: {error}");
                reported += 1;
            }
        }
    }
    assert!(reported > 0, "leaves and heads are among the bytes");
}

#[test]
fn a_truncated_file_is_reported() {
    let (folder, path) = temporary_file();
    filled(&path);
    let good = std::fs::read(&path).unwrap();
    let copy = folder.path().join("copy");
    for length in [0, 1, 100, 4096, good.len() / 2, good.len() - 4096] {
        std::fs::write(&copy, &good[..length]).unwrap();
        assert_eq!(code(Store::check(&copy)), "LOG_CORRUPT", "{length} bytes");
        assert_eq!(code(Store::open(&copy)), "LOG_CORRUPT", "{length} bytes");
    }
    std::fs::write(&copy, "not a log at all, but text of some length").unwrap();
    assert_eq!(code(Store::open(&copy)), "LOG_CORRUPT");
}

/// Changes the contents of the file with its own library, so that every page is valid.
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
fn inconsistent_contents_are_reported_although_the_pages_are_valid() {
    let id = FakeLog::new(1, 0).id();
    let forged = FakeLog::new(1, 0)
        .sign(&FakeLog::new(1, 0).tree_head(0))
        .head;
    type Change<'a> = &'a dyn Fn(&redb::WriteTransaction);
    let changes: [(&str, Change<'_>); 10] = [
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
        ("the index of a receipt removed", &|write| {
            let mut numbers = write.open_table(NUMBERS).unwrap();
            let leaf = FakeLog::new(1, 70).leaves[5];
            numbers.remove((&id, &leaf)).unwrap();
        }),
        ("the index of a receipt exchanged", &|write| {
            let mut numbers = write.open_table(NUMBERS).unwrap();
            let leaf = FakeLog::new(1, 70).leaves[5];
            numbers.insert((&id, &leaf), 3).unwrap();
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
        let (_folder, path) = temporary_file();
        filled(&path);
        tamper(&path, change);
        assert_eq!(code(Store::check(&path)), "LOG_CORRUPT", "{what}");
        assert_eq!(
            code(Store::check(&path)),
            "LOG_CORRUPT",
            "{what}: a check repaired it"
        );
        // A start reads the newest head, its document and its subtrees. Other damage never leads to a wrong proof.
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
                let log = FakeLog::new(1, 70);
                for from in 1..70 {
                    if let Ok(Some(proof)) = store.consistency(&id, from as u64, Some(70)) {
                        let [from, to] = [from, 70].map(|size| log.tree_head(size).tree());
                        let proven = verify::consistency(&from, &to, &proof.path);
                        assert!(proven.is_ok(), "{what}");
                    }
                }
            }
        }
    }
}

/// Unix seconds of a year, and between two heads of the synthetic log.
const YEAR: u64 = 365 * 86_400;
const BETWEEN: u64 = YEAR / 2_000;

/// Writes a log of one key that signed 2,000 heads over a year, in one transaction.
fn year_old(path: &Path) -> FakeLog {
    let mut log = FakeLog::new(1, 2_000);
    let store = Store::open(path).unwrap();
    take(&store, &log.batch(0, 1));
    let begun = log.time;
    log.time = begun + YEAR;
    take(&store, &log.batch(1, 2_000));
    drop(store);
    let mut frontier = merkle::tree::Frontier::new();
    tamper(path, |write| {
        let mut heads = write.open_table(HEADS).unwrap();
        for leaf in &log.leaves[..1_999] {
            frontier.append(leaf, |_, _| ());
            let head = TreeHead {
                size: frontier.size(),
                root: frontier.root(),
                time: begun + frontier.size() * BETWEEN,
                ..log.tree_head(0)
            };
            let signed = log.sign(&head).head;
            let key = (&log.id(), head.size);
            heads.insert(key, signed.as_slice()).unwrap();
        }
    });
    log
}

/// 1,999 of the 2,000 heads have invalid signatures, and a start reads none of them.
#[test]
fn a_start_verifies_only_the_newest_head() {
    let (_folder, path) = temporary_file();
    let log = year_old(&path);
    let checked = Store::check(&path).unwrap();
    assert_eq!(
        (checked.logs, checked.leaves, checked.heads),
        (1, 2_000, 2_000)
    );
    tamper(&path, |write| {
        let mut heads = write.open_table(HEADS).unwrap();
        for size in 1..2_000 {
            let found = heads.get((&log.id(), size)).unwrap().unwrap();
            let mut bytes = found.value().to_vec();
            drop(found);
            *bytes.last_mut().unwrap() ^= 1;
            heads.insert((&log.id(), size), bytes.as_slice()).unwrap();
        }
    });
    let store = Store::open(&path).unwrap();
    assert_eq!(store.size(&log.id()), 2_000);
    let proof = store.inclusion(&log.id(), &log.leaves[7]).unwrap();
    assert_eq!(proof.unwrap().index, 7);
    drop(store);
    assert_eq!(code(Store::check(&path)), "LOG_CORRUPT");
}

#[test]
fn a_damaged_old_head_is_found_by_a_check_and_does_not_prevent_a_start() {
    let (_folder, path) = temporary_file();
    let log = year_old(&path);
    tamper(&path, |write| {
        let mut heads = write.open_table(HEADS).unwrap();
        let found = heads.get((&log.id(), 1_234)).unwrap().unwrap();
        let mut bytes = found.value().to_vec();
        drop(found);
        *bytes.last_mut().unwrap() ^= 1;
        heads.insert((&log.id(), 1_234), bytes.as_slice()).unwrap();
    });
    assert_eq!(code(Store::check(&path)), "LOG_CORRUPT");
    assert!(Store::open(&path).is_ok());
}

#[test]
fn old_heads_are_thinned_by_age_and_everything_is_still_proven() {
    let (_folder, path) = temporary_file();
    let log = year_old(&path);
    let store = Store::open(&path).unwrap();
    let now = log.time;
    let removed = store.thin(now).unwrap();
    assert_eq!(store.thin(now).unwrap(), 0, "a second run removes nothing");
    let kept: Vec<(u64, u64)> = (1..=2_000)
        .filter_map(|size| store.head(&log.id(), Some(size)).unwrap())
        .map(|head| TreeHead::verify(&head.head).unwrap())
        .map(|head| (head.size, now - head.time))
        .collect();
    assert_eq!(kept.len() as u64, 2_000 - removed);
    let aged =
        |ages: std::ops::Range<u64>| kept.iter().filter(|(_, age)| ages.contains(age)).count();
    // Signed 263 minutes apart: five in the last day, one in each of their hours up to 30 days, then one a day.
    let of_span = |seconds: u64| (seconds / BETWEEN) as usize;
    assert!(aged(0..86_400).abs_diff(of_span(86_400)) <= 2);
    assert!(aged(86_400..30 * 86_400).abs_diff(of_span(29 * 86_400)) <= 2);
    assert!(aged(30 * 86_400..2 * YEAR).abs_diff(335) <= 2);
    assert_eq!(kept.last(), Some(&(2_000, 0)));
    // A reader that kept a thinned head still gets proofs of consistency with any later size.
    for (from, to) in [(17, 2_000), (18, 1_999), (1_234, 1_235)] {
        let proof = store
            .consistency(&log.id(), from, Some(to))
            .unwrap()
            .unwrap();
        let [from, to] = [from, to].map(|size| log.tree_head(size as usize).tree());
        verify::consistency(&from, &to, &proof.path).unwrap();
    }
    drop(store);
    let checked = Store::check(&path).unwrap();
    assert_eq!((checked.leaves, checked.heads), (2_000, 2_000 - removed));
}

#[test]
fn the_newest_head_of_an_hour_and_all_of_the_last_day_are_kept() {
    let (_folder, path) = temporary_file();
    let log = FakeLog::new(1, 40);
    let store = Store::open(&path).unwrap();
    for size in 0..40 {
        take(&store, &log.batch(size, size + 1));
    }
    // The age of heads is counted from the newest one of all logs.
    let mut later = FakeLog::new(2, 1);
    later.time += YEAR;
    take(&store, &later.batch(0, 1));
    assert_eq!(store.thin(log.time + 86_399).unwrap(), 0);
    assert_eq!(store.thin(log.time + 86_400).unwrap(), 39);
    assert_holds(&store, &log, &[40]);
}

#[test]
fn a_clock_that_jumps_ahead_thins_nothing() {
    let (_folder, path) = temporary_file();
    let log = FakeLog::new(1, 3);
    let store = Store::open(&path).unwrap();
    for size in 0..3 {
        take(&store, &log.batch(size, size + 1));
    }
    assert_eq!(store.thin(log.time + YEAR).unwrap(), 0);
    assert_holds(&store, &log, &[1, 2, 3]);
}

#[test]
fn the_published_head_is_kept_next_to_a_newer_one() {
    let (_folder, path) = temporary_file();
    let mut log = FakeLog::new(1, 4);
    let mut later = FakeLog::new(2, 1);
    later.time += YEAR;
    let store = Store::open(&path).unwrap();
    take(&store, &later.batch(0, 1));
    for size in 0..3 {
        take(&store, &log.batch(size, size + 1));
    }
    log.time += 1;
    store.extend(&log.batch(3, 4)).unwrap();
    assert_eq!(store.thin(later.time).unwrap(), 2);
    let published = store.head(&log.id(), None).unwrap().unwrap();
    assert_eq!(TreeHead::verify(&published.head).unwrap().size, 3);
}

/// A file that is checked may be evidence.
#[test]
fn a_check_changes_no_byte_and_needs_no_right_to_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = temporary_file();
    filled(&path);
    let before = std::fs::read(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(Store::check(&path).unwrap().leaves, 70);
    assert!(std::fs::read(&path).unwrap() == before);
}
