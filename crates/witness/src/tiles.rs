//! Tiles: 256 hashes of one level of the tree in one file, so that any web server can serve a log.
//!
//! Tile `N` of level `L` holds the roots of the subtrees of 256^L leaves from number 256·N on. Level 0 holds hashes of leaves.
//! The last tile of a level is partial while it holds fewer than 256.

use merkle::Hash;
use merkle::tree::Position;

use crate::lines::number;

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

    /// Reads a [`path`](Self::path), or an [`entries_path`](Self::entries_path) and then returns true too.
    pub fn parse_path(path: &str) -> Option<(Self, bool)> {
        let (level, name) = path.strip_prefix("tile/")?.split_once('/')?;
        let (level, is_entries) = match level {
            "entries" => (0, true),
            level => (u8::try_from(number(level)?).ok()?, false),
        };
        let (name, width) = match name.split_once(".p/") {
            Some((name, width)) => (name, u16::try_from(number(width)?).ok()?),
            // At most 256.
            None => (name, WIDTH as u16),
        };
        let mut index = 0_u64;
        for part in name.split('/') {
            let digits = part.strip_prefix('x').unwrap_or(part);
            let is_group = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
            let group = digits.parse::<u64>().ok().filter(|_| is_group)?;
            index = index.checked_mul(1000)?.checked_add(group)?;
        }
        let tile = Self {
            level,
            index,
            width,
        };
        let written = match is_entries {
            true => tile.entries_path(),
            false => tile.path(),
        };
        // No tree has so many leaves, and the positions would exceed 64 bits.
        let is_in_range = level < 8 && index < u64::MAX / WIDTH;
        // Only the form that this module writes: level and width in range, and `x` before every group but the last.
        let is_possible = is_in_range && (1..=WIDTH).contains(&u64::from(width)) && written == path;
        is_possible.then_some((tile, is_entries))
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

/// Writes a bundle of entries: each with its length of 16 bits before it.
pub fn bundle(entries: &[Hash]) -> Vec<u8> {
    let entries = entries.iter();
    entries
        .flat_map(|entry| [&[0, 32][..], entry].concat())
        .collect()
}
