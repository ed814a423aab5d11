//! Compaction: rows of several segments in fewer new ones, without the dead.

use scan::Vectors;
use zeroize::Zeroizing;

use crate::block::{Block, Records};
use crate::error::IndexError;
use crate::index::{Held, Index, Writes};
use crate::map::{Place, Update};
use crate::object::Names;

/// Most rows of a segment that compaction writes.
const MAX_ROWS: usize = 65_536;
/// Most bytes of records and vectors in it, unless a single row is larger.
const MAX_BYTES: usize = 32 << 20;
/// Segments of about the same size before they are merged. Each row is then written again once for every factor of this size.
const SIMILAR: usize = 8;

/// Which segments are written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Many small ones of similar size, and those of which more than half the rows are dead. To be called after changes.
    Small,
    /// All that have a dead row, so that nothing is left of replaced and deleted rows once the obsolete objects are deleted.
    Forget,
}

impl Index {
    /// The index in fewer segments, as a version with the same rows and the same root of the map; `None` if there is nothing to
    /// do. `random` is used for nothing else.
    ///
    /// # Errors
    /// [`IndexError::ObjectTooLarge`].
    pub fn compact(
        &self,
        scope: Scope,
        random: &[u8; 32],
    ) -> Result<Option<(Self, Writes)>, IndexError> {
        let chosen = match scope {
            Scope::Small => choose_small(&self.blocks),
            Scope::Forget => choose_with_dead(&self.blocks),
        };
        if chosen.is_empty() {
            return Ok(None);
        }
        let mut names = Names::new(random);
        let mut next = self.clone();
        let old: Vec<Held> = {
            let is_chosen = |held: &Held| chosen.contains(&held.number);
            let (old, kept) = next.blocks.drain(..).partition(is_chosen);
            next.blocks = kept;
            old
        };
        let mut objects = Vec::new();
        let mut updates = Vec::new();
        for rows in divide(&old) {
            let block = self.merge(&rows, next.next_block, &mut names, &mut updates)?;
            objects.push(next.add_block(block)?);
        }
        next.map = next.map.update(updates);
        let obsolete = old.iter().map(|held| held.block.name).collect();
        let (index, writes) = next.publish(&mut names, objects, obsolete)?;
        Ok(Some((index, writes)))
    }

    fn merge(
        &self,
        rows: &[(&Held, usize)],
        number: u32,
        names: &mut Names<'_>,
        updates: &mut Vec<Update>,
    ) -> Result<Block, IndexError> {
        let settings = &self.fixed.settings;
        let sizes = rows.iter().filter_map(|(held, row)| held.block.row(*row));
        let mut records = Records::new(sizes.map(|row| row.size()).sum());
        let row_bytes = settings.precision.row_bytes(settings.size());
        let mut numbers = Zeroizing::new(Vec::with_capacity(rows.len() * row_bytes));
        for (place, (held, row)) in (0..).zip(rows) {
            let vectors = &held.block.vectors;
            let vector = Zeroizing::new(vectors.row(*row).ok_or(IndexError::Segments)?);
            let stored = Zeroizing::new(vectors.row_bytes(*row).ok_or(IndexError::Segments)?);
            let row = held.block.row(*row).ok_or(IndexError::Segments)?;
            records.push(&row)?;
            numbers.extend(&*stored);
            let place = Place {
                block: number,
                row: place,
            };
            updates.push(Update::Put(self.fixed.leaf(&row, &vector, place)));
        }
        let vectors =
            Vectors::from_bytes(settings.size(), settings.precision, rows.len(), &numbers)
                .map_err(|_| IndexError::ObjectMalformed("vectors"))?;
        Ok(Block::new(names.make(), records, vectors))
    }
}

/// Live rows of `blocks`, divided into new segments.
fn divide(blocks: &[Held]) -> Vec<Vec<(&Held, usize)>> {
    let mut segments = Vec::new();
    let mut segment = Vec::new();
    let mut bytes = 0;
    for held in blocks {
        let vectors = &held.block.vectors;
        let vector = vectors.precision().row_bytes(vectors.dimensions());
        for number in (0..held.block.len()).filter(|row| held.live.get(*row)) {
            let size = vector + held.block.row(number).map_or(0, |row| row.size());
            if !segment.is_empty() && (segment.len() == MAX_ROWS || bytes + size > MAX_BYTES) {
                segments.push(std::mem::take(&mut segment));
                bytes = 0;
            }
            bytes += size;
            segment.push((held, number));
        }
    }
    if !segment.is_empty() {
        segments.push(segment);
    }
    segments
}

fn choose_with_dead(blocks: &[Held]) -> Vec<u32> {
    let with_dead = blocks
        .iter()
        .filter(|held| held.live.count() < held.block.len());
    with_dead.map(|held| held.number).collect()
}

fn choose_small(blocks: &[Held]) -> Vec<u32> {
    let mut chosen: Vec<u32> = blocks
        .iter()
        .filter(|held| held.live.count() * 2 < held.block.len())
        .map(|held| held.number)
        .collect();
    for size in 0..=MAX_ROWS.ilog(SIMILAR) {
        let similar = blocks.iter().filter(|held| {
            let rows = held.live.count().max(1);
            rows < MAX_ROWS / 2
                && held.block.size < MAX_BYTES as u64 / 2
                && rows.ilog(SIMILAR) == size
        });
        let similar: Vec<u32> = similar.map(|held| held.number).collect();
        if similar.len() >= SIMILAR {
            chosen.extend(similar);
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}
