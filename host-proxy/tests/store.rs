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
use merkle::head::TreeHead;
use merkle::json::Inclusion;
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

/// Stores a batch and publishes its head.
fn take(store: &Store, batch: &Batch) {
    store.extend(batch).unwrap();
    store.publish();
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
        take(&store, &one.batch(stored, size));
        stored = size;
        // Another log grows in between, and stays apart.
        if size == 9 {
            take(&store, &two.batch(0, 33));
        }
        assert_eq!(store.size(&one.id()), size as u64);
    }
    let empty = FakeLog::new(3, 0);
    take(&store, &empty.batch(0, 0));
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
    take(&store, &log.batch(0, 5));
    log.time += 60;
    log.document = b"another document".to_vec();
    take(&store, &log.batch(5, 5));
    holds(&store, &log, &[5]);
    drop(store);
    holds(&Store::open(&path).unwrap(), &log, &[5]);
}

#[test]
fn what_is_stored_is_shown_once_it_is_published_and_heads_in_between_never() {
    let (_folder, path) = place();
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
    // Of what came between two publications no head is left, nor in the file.
    assert!(head(Some(3)).is_some() && head(Some(4)).is_none() && head(Some(5)).is_none());
    drop(store);
    let checked = Store::check(&path).unwrap();
    assert_eq!((checked.leaves, checked.heads), (9, 2));
    // A head that is published is signed at that time: the one of the same size that was signed with the request is replaced.
    let store = Store::open(&path).unwrap();
    store.extend(&log.batch(9, 12)).unwrap();
    log.time += 2;
    store.extend(&log.batch(12, 12)).unwrap();
    store.publish();
    let shown = store.head(&log.id(), None).unwrap().unwrap();
    assert_eq!(TreeHead::verify(&shown.head).unwrap().time, log.time);
    // Nor does a published head change with every look at a log that rests.
    log.time += 2;
    store.extend(&log.batch(12, 12)).unwrap();
    store.publish();
    let same = store.head(&log.id(), None).unwrap().unwrap();
    assert_eq!(same.head, shown.head);
}

#[test]
fn histories_that_do_not_fit_are_refused_and_change_nothing() {
    let (_folder, path) = place();
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
    take(&store, &log.batch(10, 20));
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
    take(&store, &log.batch(0, 40));
    take(&store, &log.batch(40, 70));
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
        assert_eq!(code(Store::check(&copy)), "LOG_CORRUPT", "{length} bytes");
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

/// A log of one key that signed 2,000 heads over a year. Written in one transaction, as the proxy would have over time.
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
            let place = (&log.id(), head.size);
            heads.insert(place, signed.as_slice()).unwrap();
        }
    });
    log
}

/// A year of heads costs a start one verification: 1,999 of the 2,000 heads have broken signatures, and none is read.
#[test]
fn a_start_verifies_the_newest_head_alone_however_old_the_log_is() {
    let (_folder, path) = place();
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
fn one_damaged_old_head_is_found_by_a_check_and_keeps_nobody_from_starting() {
    let (_folder, path) = place();
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
fn old_heads_of_a_log_that_goes_on_are_thinned_by_age_and_everything_is_still_proven() {
    let (_folder, path) = place();
    let log = year_old(&path);
    let store = Store::open(&path).unwrap();
    let now = log.time;
    let gone = store.thin(now).unwrap();
    assert_eq!(
        store.thin(now).unwrap(),
        0,
        "a second time there is nothing to do"
    );
    let kept: Vec<(u64, u64)> = (1..=2_000)
        .filter_map(|size| store.head(&log.id(), Some(size)).unwrap())
        .map(|head| TreeHead::verify(&head.head).unwrap())
        .map(|head| (head.size, now - head.time))
        .collect();
    assert_eq!(kept.len() as u64, 2_000 - gone);
    let aged =
        |ages: std::ops::Range<u64>| kept.iter().filter(|(_, age)| ages.contains(age)).count();
    // Signed 263 minutes apart: five in the last day, each in an hour of its own before, one a day from 30 days on.
    let of_span = |seconds: u64| (seconds / BETWEEN) as usize;
    assert!(aged(0..86_400).abs_diff(of_span(86_400)) <= 2);
    assert!(aged(86_400..30 * 86_400).abs_diff(of_span(29 * 86_400)) <= 2);
    assert!(aged(30 * 86_400..2 * YEAR).abs_diff(335) <= 2);
    assert_eq!(kept.last(), Some(&(2_000, 0)));
    // Who kept a head that is thinned here can still be led on to any later size.
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
    assert_eq!((checked.leaves, checked.heads), (2_000, 2_000 - gone));
}

#[test]
fn of_many_heads_of_an_hour_the_newest_stays_and_of_a_recent_day_all() {
    let (_folder, path) = place();
    let log = FakeLog::new(1, 40);
    let store = Store::open(&path).unwrap();
    for size in 0..40 {
        take(&store, &log.batch(size, size + 1));
    }
    assert_eq!(store.thin(log.time + 86_399).unwrap(), 0);
    assert_eq!(store.thin(log.time + 86_400).unwrap(), 39);
    holds(&store, &log, &[40]);
}
