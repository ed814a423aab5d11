//! A log for tests, and the tiles of trees.

use merkle::Hash;
use merkle::prove::Nodes;
use merkle::tree::{Frontier, Position};
use merkle::verify::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use witness::checkpoint::Checkpoint;
use witness::key::{Signer, Use};
use witness::note::Note;
use witness::record::{Kind, entry, write};
use witness::request::AddCheckpoint;
use witness::tiles::{HEIGHT, Tile, bundle};

pub(crate) const ORIGIN: &str = "log.example/deployment";

/// A log in memory. Another seed is another history of the same log.
#[derive(Default)]
pub(crate) struct Log {
    frontier: Frontier,
    nodes: BTreeMap<Position, Hash>,
    roots: Vec<Hash>,
}

impl Log {
    pub(crate) fn new(entries: impl IntoIterator<Item = Hash>) -> Self {
        let mut log = Self {
            roots: vec![Frontier::new().root()],
            ..Self::default()
        };
        for entry in entries {
            let nodes = &mut log.nodes;
            log.frontier.append(&entry, |position, hash| {
                nodes.insert(position, hash);
            });
            log.roots.push(log.frontier.root());
        }
        log
    }

    pub(crate) fn of(size: u64, history: &str) -> Self {
        Self::new((0..size).map(|number| record_entry(&format!("{history}{number}"))))
    }

    pub(crate) fn tree(&self, size: u64) -> Tree {
        let root = self.roots[usize::try_from(size).unwrap()];
        Tree { size, root }
    }

    pub(crate) fn checkpoint(&self, size: u64) -> Note {
        let checkpoint = Checkpoint::new(ORIGIN, self.tree(size)).unwrap();
        let mut note = Note::new(&checkpoint.to_string()).unwrap();
        note.sign(log_key().sign(note.text(), 0));
        note
    }

    pub(crate) fn request(&self, old: u64, size: u64) -> AddCheckpoint {
        AddCheckpoint {
            old,
            path: merkle::prove::consistency(self, old, size).unwrap(),
            note: self.checkpoint(size),
        }
    }
}

impl Nodes for Log {
    type Error = Infallible;

    fn node(&self, position: Position) -> Result<Hash, Infallible> {
        Ok(self.nodes[&position])
    }
}

pub(crate) fn record_entry(body: &str) -> Hash {
    entry(&write(Kind::Keys, body.as_bytes()))
}

pub(crate) fn log_key() -> Signer {
    Signer::from_seed(ORIGIN, Use::Log, &[1; 32]).unwrap()
}

pub(crate) fn witness_key(number: u8) -> Signer {
    let name = format!("w{number}.example");
    Signer::from_seed(&name, Use::Witness, &[10 + number; 32]).unwrap()
}

#[test]
fn tiles_of_a_growing_tree_are_those_of_a_tree_made_at_once() {
    let sizes = [
        0, 1, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000,
    ];
    let full = |tiles: Vec<Tile>| -> BTreeSet<_> {
        tiles.into_iter().filter(|tile| tile.width == 256).collect()
    };
    let mut grown = BTreeSet::new();
    for pair in sizes.windows(2) {
        grown.extend(full(Tile::between(pair[0], pair[1])));
        assert_eq!(grown, full(Tile::between(0, pair[1])), "{}", pair[1]);
    }
    // The example of the specification.
    let tiles = Tile::between(0, 70_000);
    let widths = |level| -> Vec<_> {
        let of_level = tiles.iter().filter(|tile| tile.level == level);
        of_level.map(|tile| tile.width).collect()
    };
    assert_eq!(widths(0).len(), 274);
    assert_eq!(widths(0)[273], 112);
    assert_eq!(widths(1), [256, 17]);
    assert_eq!(widths(2), [1]);
    assert!(Tile::between(9, 9).is_empty());
}

#[test]
fn a_tile_holds_the_hashes_that_it_names() {
    for size in [1, 255, 256, 257, 65_536, 70_000_u64] {
        for tile in Tile::between(0, size) {
            for (at, position) in tile.positions().enumerate() {
                assert_eq!(position.level % HEIGHT, 0);
                assert_eq!(Tile::holding(position, size), (tile, at));
            }
        }
    }
}

#[test]
fn a_path_of_a_tile_has_one_form() {
    for size in [1, 255, 256, 257, 65_536, 70_000, 1 << 40] {
        for tile in [0, 1, 2, 3, 4].map(|level| Tile {
            level,
            index: size >> 8,
            width: 1 + (size % 256) as u16,
        }) {
            assert_eq!(Tile::parse_path(&tile.path()), Some((tile, false)));
            let entries = (Tile { level: 0, ..tile }, true);
            assert_eq!(Tile::parse_path(&tile.entries_path()), Some(entries));
        }
    }
    for bad in [
        "tile/0/1",
        "tile/00/001",
        "tile/8/001",
        "tile/0/x001",
        "tile/0/001/002",
        "tile/0/x000/002",
        "tile/0/001.p/0",
        "tile/0/001.p/256",
        "tile/0/001.p/300",
        "tile/0/001.p/07",
        "tile/0/+01",
        "tile/entries/001/",
        "tile/0/x018/x446/x744/x073/x709/x551/616",
        // Its last position, and all of them, would exceed 64 bits.
        "tile/0/x072/x057/x594/x037/x927/935",
        "tile/0/x072/x057/x594/x037/x927/936",
        "checkpoint",
    ] {
        assert_eq!(Tile::parse_path(bad), None, "{bad}");
    }
    let last = Tile::parse_path("tile/0/x072/x057/x594/x037/x927/934").unwrap();
    assert_eq!(last.0.positions().count(), 256);
    let entries = bundle(&[[7; 32], [8; 32]]);
    assert_eq!(entries.len(), 68);
    assert_eq!(
        (&entries[..3], &entries[34..37]),
        (&[0, 32, 7][..], &[0, 32, 8][..])
    );
}
