//! Files of `tests/go`, which Go's `golang.org/x/mod/sumdb` (note, tlog) and `github.com/transparency-dev/formats` v0.1.1 wrote.
//!
//! `tests/python` has a cosignature of PyPI's `aics-witness` 0.1.0, which accepted the request that Go wrote.
//!
//! Ed25519 is deterministic. So equal bytes show both directions: we read Go's files, and Go reads ours.

use crate::tree::{Log, ORIGIN, log_key, record_entry, witness_key};
use merkle::prove;
use witness::key::Verifier;
use witness::note::Note;
use witness::policy::Policy;
use witness::proof::TlogProof;
use witness::request::AddCheckpoint;
use witness::tiles::Tile;

const POLICY: &str = include_str!("go/policy.txt");
const CHECKPOINT: &str = include_str!("go/checkpoint.txt");
const CHECKPOINT_120: &str = include_str!("go/checkpoint-120.txt");
const REQUEST: &str = include_str!("go/request.txt");
const PROOF: &str = include_str!("go/entry-7.tlog-proof");
const TILES: &str = include_str!("go/tiles.txt");

#[test]
fn keys_and_policy_are_those_of_go() {
    let policy = Policy::parse(POLICY.as_bytes()).unwrap();
    assert_eq!(policy.logs(), [log_key().verifier().clone()]);
    assert_eq!(policy.logs()[0].name(), ORIGIN);
    for (number, witness) in (1..).zip(policy.witnesses()) {
        assert_eq!(&witness.key, witness_key(number).verifier());
        let url = format!("http://127.0.0.1:1/{number}");
        assert_eq!(witness.url.as_deref(), Some(&*url));
    }
}

#[test]
fn a_cosigned_checkpoint_of_go_is_ours_byte_for_byte() {
    let policy = Policy::parse(POLICY.as_bytes()).unwrap();
    let read = Note::parse(CHECKPOINT.as_bytes()).unwrap();
    let time = witness_key(1).verifier().verify(&read).unwrap();
    let judged = policy.judge(&read, time, 10).unwrap();
    assert_eq!(judged.cosigned.len(), 2);
    let log = Log::of(300, "");
    assert_eq!(judged.checkpoint.tree, log.tree(300));
    let mut written = log.checkpoint(300);
    for number in 1..=2 {
        let key = witness_key(number);
        let time = key.verifier().verify(&read).unwrap();
        written.sign(key.sign(written.text(), time));
    }
    assert_eq!(written.to_string(), CHECKPOINT);
}

#[test]
fn a_cosignature_of_a_python_witness_verifies() {
    let key = "w1.example+dc4d434e+BK9Bfce6iEn/UFldBErnBhvO8T2uy7lE1fclA2E9TTWz";
    let key = Verifier::parse(key).unwrap();
    let note = include_str!("python/checkpoint-120.txt");
    let note = Note::parse(note.as_bytes()).unwrap();
    assert_eq!(note.text(), Log::of(300, "").checkpoint(120).text());
    assert_eq!(key.verify(&note), Ok(1_795_857_329));
    assert_eq!(log_key().verifier().verify(&note), Ok(0));
}

#[test]
fn proofs_of_go_are_ours_byte_for_byte() {
    let log = Log::of(300, "");
    assert_eq!(log.checkpoint(120).to_string(), CHECKPOINT_120);
    assert_eq!(log.request(120, 300).to_text(), REQUEST);
    let request = AddCheckpoint::parse(REQUEST.as_bytes()).unwrap();
    let checkpoint = request.authenticate(&[log_key().verifier().clone()]);
    let stored = log.tree(120);
    request.decide(&checkpoint.unwrap(), Some(&stored)).unwrap();

    let proof = TlogProof::parse(PROOF.as_bytes()).unwrap();
    proof.verify(&record_entry("7"), &log.tree(300)).unwrap();
    assert!(proof.verify(&record_entry("8"), &log.tree(300)).is_err());
    assert_eq!(proof.path, prove::inclusion(&log, 7, 300).unwrap());
    assert_eq!(proof.to_string(), PROOF);
}

#[test]
fn paths_of_tiles_are_those_of_go() {
    for line in TILES.lines() {
        let words: Vec<_> = line.split(' ').collect();
        if let ["between", from, to, paths @ ..] = &words[..] {
            let tiles = Tile::between(from.parse().unwrap(), to.parse().unwrap());
            let ours: Vec<_> = tiles.into_iter().map(Tile::path).collect();
            assert_eq!(ours, paths, "{from} {to}");
            continue;
        }
        let [level, index, width, path] = words[..] else {
            panic!("{line}");
        };
        let tile = Tile {
            level: level.parse().unwrap(),
            index: index.parse().unwrap(),
            width: width.parse().unwrap(),
        };
        assert_eq!(tile.path(), path);
    }
}
