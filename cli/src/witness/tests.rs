//! Restarts, losses and second histories.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::small_log::{ORIGIN, SmallLog};
use super::*;
use merkle::verify::ProofError;

fn advance(store: &Store, log: &SmallLog, old: u64, size: u64) -> Result<(), Refusal> {
    match store.advance(&log.request(old, size), &log.checkpoint(size), || 7) {
        Err(StoreError::Refused(refusal)) => Err(refusal),
        outcome => {
            outcome.unwrap();
            Ok(())
        }
    }
}

#[test]
fn a_restart_keeps_the_last_tree_and_refuses_a_second_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.redb");
    Store::create(&path, &[7; 32]).unwrap();
    let (log, other) = (SmallLog::new(1), SmallLog::new(2));
    let store = Store::open(&path, &[7; 32]).unwrap();
    assert_eq!(advance(&store, &log, 0, 9), Ok(()));
    drop(store);
    // The answer to the request was lost here.
    let store = Store::open(&path, &[7; 32]).unwrap();
    let conflict = Err(Refusal::Conflict { size: 9 });
    assert_eq!(advance(&store, &log, 0, 9), conflict);
    assert_eq!(advance(&store, &other, 0, 8), conflict);
    assert_eq!(store.list_forks().unwrap(), <[[String; 3]; 0]>::default());
    // Refused for its `old`, and yet a proof.
    assert_eq!(advance(&store, &other, 0, 9), conflict);
    let fork = [log.note(9).to_string(), other.note(9).to_string()];
    let [first, second] = fork;
    let fork = [ORIGIN.to_owned(), first, second];
    assert_eq!(store.list_forks().unwrap(), std::slice::from_ref(&fork));
    let forked = Err(Refusal::Inconsistent(ProofError::Forked));
    assert_eq!(advance(&store, &other, 9, 9), forked);
    assert_eq!(store.list_forks().unwrap(), [fork]);
    assert!(advance(&store, &other, 9, 20).is_err());
    assert_eq!(advance(&store, &log, 9, 20), Ok(()));
}

#[test]
fn a_larger_tree_has_no_earlier_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.redb");
    Store::create(&path, &[7; 32]).unwrap();
    let log = SmallLog::new(1);
    let at = |store: &Store, old, size, time| {
        let (request, checkpoint) = (log.request(old, size), log.checkpoint(size));
        store.advance(&request, &checkpoint, || time)
    };
    let store = Store::open(&path, &[7; 32]).unwrap();
    let refused = at(&store, 0, 3, 0);
    assert!(matches!(refused, Err(StoreError::Clock { .. })));
    assert_eq!(at(&store, 0, 3, 50).unwrap(), 50);
    assert_eq!(at(&store, 3, 4, 50).unwrap(), 50);
    drop(store);
    let store = Store::open(&path, &[7; 32]).unwrap();
    let refused = at(&store, 4, 9, 49);
    assert!(matches!(
        refused,
        Err(StoreError::Clock { now: 49, last: 50 })
    ));
    // Nothing was stored.
    assert_eq!(at(&store, 4, 9, 51).unwrap(), 51);
}

#[test]
fn two_requests_at_once_are_one_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.redb");
    Store::create(&path, &[7; 32]).unwrap();
    let store = Store::open(&path, &[7; 32]).unwrap();
    let logs = [SmallLog::new(1), SmallLog::new(2)];
    let accepted: usize = std::thread::scope(|scope| {
        let requests = logs
            .iter()
            .flat_map(|log| (1..=4).map(move |size| (log, size)));
        let threads: Vec<_> = requests
            .map(|(log, size)| {
                let store = &store;
                scope.spawn(move || usize::from(advance(store, log, 0, size).is_ok()))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(accepted, 1);
}

#[test]
fn a_lost_emptied_or_foreign_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.redb");
    let code = |id: u8| {
        let opened = Store::open(&path, &[id; 32]);
        opened.err().map(|error| error.code().to_owned())
    };
    assert_eq!(code(7).as_deref(), Some("WITNESS_DATABASE_LOST"));
    std::fs::write(&path, b"").unwrap();
    assert_eq!(code(7).as_deref(), Some("WITNESS_DATABASE_LOST"));
    std::fs::remove_file(&path).unwrap();
    Store::create(&path, &[8; 32]).unwrap();
    assert_eq!(code(7).as_deref(), Some("WITNESS_DATABASE_LOST"));
    assert_eq!(code(8), None);
}
