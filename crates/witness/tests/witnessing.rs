//! A witness against logs of every kind.

use crate::tree::{Log, ORIGIN, log_key, witness_key};
use merkle::verify::{ProofError, Tree};
use proptest::prelude::*;
use witness::checkpoint::Checkpoint;
use witness::key::{Signer, Use};
use witness::note::Note;
use witness::request::{AddCheckpoint, Refusal};

/// The whole decision, over the text of a request.
fn submit(request: &AddCheckpoint, stored: Option<&Tree>) -> Result<Tree, Refusal> {
    let request = AddCheckpoint::parse(request.to_text().as_bytes())?;
    let checkpoint = request.authenticate(&[log_key().verifier().clone()])?;
    request.decide(&checkpoint, stored)?;
    Ok(checkpoint.tree)
}

#[test]
fn a_growing_log_is_cosigned_from_any_size() {
    let log = Log::of(70, "");
    for from in 0..=70 {
        let stored = log.tree(from);
        for to in from..=70 {
            let request = log.request(from, to);
            assert_eq!(submit(&request, Some(&stored)), Ok(log.tree(to)));
        }
        assert_eq!(submit(&log.request(0, from), None), Ok(stored));
    }
}

#[test]
fn a_second_history_is_not_cosigned() {
    let (first, second) = (Log::of(40, "a"), Log::of(40, "b"));
    let stored = first.tree(20);
    // Of the same size, and of a later one.
    assert_eq!(
        submit(&second.request(20, 20), Some(&stored)),
        Err(Refusal::Inconsistent(ProofError::Forked))
    );
    assert_eq!(
        submit(&second.request(20, 40), Some(&stored)),
        Err(Refusal::Inconsistent(ProofError::Inconsistent))
    );
    let with_path = AddCheckpoint {
        path: second.request(10, 20).path,
        ..second.request(20, 20)
    };
    assert_eq!(
        submit(&with_path, Some(&stored)),
        Err(Refusal::Inconsistent(ProofError::Forked))
    );
    // With the honest path to a dishonest root.
    let mixed = AddCheckpoint {
        path: first.request(20, 40).path,
        ..second.request(20, 40)
    };
    assert_eq!(
        submit(&mixed, Some(&stored)),
        Err(Refusal::Inconsistent(ProofError::Inconsistent))
    );
}

#[test]
fn stale_replayed_and_ahead_requests_conflict() {
    let log = Log::of(40, "");
    let stored = log.tree(20);
    for (old, size) in [(0, 40), (10, 20), (10, 15), (30, 40)] {
        let conflict = submit(&log.request(old, size), Some(&stored));
        assert_eq!(
            conflict,
            Err(Refusal::Conflict { size: 20 }),
            "{old} {size}"
        );
    }
    assert_eq!(
        submit(&log.request(20, 40), None),
        Err(Refusal::Conflict { size: 0 })
    );
    // A tree that shrinks does not reach the comparison with the stored one.
    let shrunk = AddCheckpoint {
        old: 20,
        ..log.request(0, 15)
    };
    assert_eq!(submit(&shrunk, Some(&stored)), Err(Refusal::Malformed));
    // A repeated request is a new cosignature of the same tree.
    assert_eq!(submit(&log.request(20, 20), Some(&stored)), Ok(stored));
}

#[test]
fn paths_that_prove_nothing_are_refused() {
    let log = Log::of(40, "");
    let path = log.request(20, 40).path;
    let with = |old, size, path: &[_]| AddCheckpoint {
        path: path.to_vec(),
        ..log.request(old, size)
    };
    let long = [&path[..], &path[..1]].concat();
    for (request, stored) in [
        (with(0, 40, &path), None),
        (with(20, 20, &path), Some(log.tree(20))),
        (with(20, 40, &[]), Some(log.tree(20))),
        (with(20, 40, &path[1..]), Some(log.tree(20))),
        (with(20, 40, &long), Some(log.tree(20))),
    ] {
        let refused = submit(&request, stored.as_ref());
        assert!(
            matches!(refused, Err(Refusal::Inconsistent(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn only_the_logs_own_key_counts() {
    let log = Log::of(5, "");
    let text = log.checkpoint(5).text().to_owned();
    let key = [log_key().verifier().clone()];
    let request = |note| AddCheckpoint {
        old: 0,
        path: Vec::new(),
        note,
    };
    let signed_by = |signer: &Signer| {
        let mut note = Note::new(&text).unwrap();
        note.sign(signer.sign(&text, 7));
        note
    };
    let stranger = Signer::from_seed(ORIGIN, Use::Log, &[9; 32]).unwrap();
    for signer in [&stranger, &witness_key(1)] {
        let refused = request(signed_by(signer)).authenticate(&key);
        assert_eq!(refused, Err(Refusal::Unsigned));
    }
    // A cosignature is not a signature of the log, with the same key and name.
    let cosigner = Signer::from_seed(ORIGIN, Use::Witness, &[1; 32]).unwrap();
    let refused = request(signed_by(&cosigner)).authenticate(&key);
    assert_eq!(refused, Err(Refusal::Unsigned));
    let unknown = request(log.checkpoint(5)).authenticate(&[stranger.verifier().clone()]);
    assert_eq!(unknown, Err(Refusal::Unsigned));
    let other = Signer::from_seed("other.example", Use::Log, &[1; 32]).unwrap();
    let unknown = request(log.checkpoint(5)).authenticate(&[other.verifier().clone()]);
    assert_eq!(unknown, Err(Refusal::UnknownLog));
    // Other signatures are ignored.
    let mut many = log.checkpoint(5);
    many.sign(stranger.sign(&text, 0));
    assert!(request(many).authenticate(&key).is_ok());
    // A text that is not a checkpoint.
    let mut prose = Note::new("a\nb\n").unwrap();
    prose.sign(log_key().sign("a\nb\n", 0));
    assert_eq!(request(prose).authenticate(&key), Err(Refusal::Malformed));
}

#[test]
fn an_empty_tree_has_one_root() {
    let empty = Log::of(0, "");
    assert_eq!(submit(&empty.request(0, 0), None), Ok(empty.tree(0)));
    let wrong = Tree {
        size: 0,
        root: [1; 32],
    };
    let checkpoint = Checkpoint::new(ORIGIN, wrong).unwrap();
    let mut note = Note::new(&checkpoint.to_string()).unwrap();
    note.sign(log_key().sign(note.text(), 0));
    let request = AddCheckpoint {
        old: 0,
        path: Vec::new(),
        note,
    };
    assert!(matches!(
        submit(&request, None),
        Err(Refusal::Inconsistent(_))
    ));
}

proptest! {
    /// Submissions of two histories, in any order, lead to cosigned trees of one.
    #[test]
    fn cosigned_trees_are_one_history(steps in proptest::collection::vec((0..2_usize, 0..30_u64, 0..30_u64), 1..40)) {
        let histories = [Log::of(30, "a"), Log::of(30, "b")];
        let mut stored: Option<Tree> = None;
        let mut cosigned = Vec::new();
        for (history, old, size) in steps {
            let log = &histories[history];
            if let Ok(tree) = submit(&log.request(old.min(size), size), stored.as_ref()) {
                stored = Some(tree);
                cosigned.push(tree);
            }
        }
        let is_of = |log: &Log| cosigned.iter().all(|tree| log.tree(tree.size) == *tree);
        prop_assert!(histories.iter().any(is_of));
        prop_assert!(cosigned.is_sorted_by_key(|tree| tree.size));
    }
}
