//! A log of 20 entries, for tests of a witness.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses a part; a fixture that cannot be made is a failed test"
)]

use ::witness::checkpoint::Checkpoint;
use ::witness::key::{Signer, Use};
use ::witness::note::Note;
use ::witness::record::{Kind, entry, write};
use ::witness::request::AddCheckpoint;
use merkle::Hash;
use merkle::prove::{Nodes, consistency, inclusion};
use merkle::tree::{Frontier, Position};
use merkle::verify::Tree;
use std::collections::BTreeMap;
use std::convert::Infallible;

pub const ORIGIN: &str = "log.example";
pub const SIZE: u64 = 20;

#[derive(Default)]
pub struct SmallLog {
    nodes: BTreeMap<Position, Hash>,
    roots: Vec<Hash>,
    history: u8,
}

impl Nodes for SmallLog {
    type Error = Infallible;

    fn node(&self, position: Position) -> Result<Hash, Infallible> {
        Ok(self.nodes[&position])
    }
}

impl SmallLog {
    /// Another number is another history of the same log.
    pub fn new(history: u8) -> Self {
        let mut log = Self {
            history,
            ..Self::default()
        };
        let mut frontier = Frontier::new();
        log.roots.push(frontier.root());
        for number in 0..SIZE {
            let leaf = entry(&log.record(number));
            frontier.append(&leaf, |position, hash| {
                log.nodes.insert(position, hash);
            });
            log.roots.push(frontier.root());
        }
        log
    }

    pub fn key() -> Signer {
        Signer::from_seed(ORIGIN, Use::Log, &[1; 32]).unwrap()
    }

    pub fn record(&self, number: u64) -> Vec<u8> {
        write(Kind::Keys, format!("{}/{number}", self.history).as_bytes())
    }

    pub fn checkpoint(&self, size: u64) -> Checkpoint {
        let root = self.roots[usize::try_from(size).unwrap()];
        Checkpoint::new(ORIGIN, Tree { size, root }).unwrap()
    }

    pub fn note(&self, size: u64) -> Note {
        let mut note = Note::new(&self.checkpoint(size).to_string()).unwrap();
        note.sign(Self::key().sign(note.text(), 0));
        note
    }

    pub fn path(&self, index: u64, size: u64) -> Vec<Hash> {
        inclusion(self, index, size).unwrap()
    }

    pub fn request(&self, old: u64, size: u64) -> AddCheckpoint {
        AddCheckpoint {
            old,
            path: consistency(self, old, size).unwrap(),
            note: self.note(size),
        }
    }
}
