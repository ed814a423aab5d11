//! Tiles: 256 hashes of one level of the tree in one file, so that any web server can serve a log.
//!
//! Tile `N` of level `L` holds the roots of the subtrees of 256^L leaves from number 256·N on. Level 0 holds hashes of leaves.
//! The last tile of a level is partial while it holds fewer than 256.

use merkle::tree::Position;

/// Hashes of a full tile.
pub const WIDTH: u64 = 256;
/// Levels of the tree between two levels of tiles.
pub const HEIGHT: u8 = 8;

/// A tile, full or partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Level of the tile; the level of the tree is [`HEIGHT`] times this.
    pub level: u8,
    /// Number of the tile in its level.
    pub index: u64,
    /// Hashes in it, 1 to 256.
    pub width: u16,
}

impl Tile {
    /// The tile of a tree of `size` leaves that holds the hash at `position`, and the number of the hash in it. The level of the
    /// position is a multiple of [`HEIGHT`].
    pub fn holding(position: Position, size: u64) -> (Self, usize) {
        let level = position.level / HEIGHT;
        let index = position.index / WIDTH;
        let complete = size >> position.level;
        let width = complete.saturating_sub(index * WIDTH).min(WIDTH);
        let tile = Self {
            level,
            index,
            // At most 256.
            width: width as u16,
        };
        (tile, (position.index % WIDTH) as usize)
    }

    /// Tiles that a tree of `to` leaves has, and one of `from` leaves has not.
    pub fn between(from: u64, to: u64) -> Vec<Self> {
        let mut tiles = Vec::new();
        for level in 0..8 {
            let shift = HEIGHT * level;
            let (old, new) = (from >> shift, to >> shift);
            if new == old {
                break;
            }
            for index in old / WIDTH..=(new - 1) / WIDTH {
                let width = (new - index * WIDTH).min(WIDTH) as u16;
                tiles.push(Self {
                    level,
                    index,
                    width,
                });
            }
        }
        tiles
    }

    /// Positions of the hashes in it.
    pub fn positions(self) -> impl Iterator<Item = Position> {
        let first = self.index * WIDTH;
        (first..first + u64::from(self.width)).map(move |index| Position {
            level: HEIGHT * self.level,
            index,
        })
    }

    /// Path below the log's prefix.
    pub fn path(self) -> String {
        format!("tile/{}/{}", self.level, self.name())
    }

    /// Path of the bundle of entries whose hashes a tile of level 0 holds.
    pub fn entries_path(self) -> String {
        format!("tile/entries/{}", self.name())
    }

    fn name(self) -> String {
        let mut index = self.index / 1000;
        let mut name = format!("{:03}", self.index % 1000);
        while index > 0 {
            name = format!("x{:03}/{name}", index % 1000);
            index /= 1000;
        }
        match u64::from(self.width) {
            WIDTH => name,
            width => format!("{name}.p/{width}"),
        }
    }
}
