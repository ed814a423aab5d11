//! Opening a stored index.

use std::collections::HashSet;
use std::sync::Arc;

use scan::Live;
use zeroize::Zeroizing;

use crate::block::{Block, OpenedSegment};
use crate::error::{HistoryError, IndexError};
use crate::index::{Fixed, Held, Index};
use crate::key::IndexKey;
use crate::map::{Map, Place, Update};
use crate::object::{Kind, Label, ObjectName, open, read_name};
use crate::proof::Head;
use crate::state::{Segment, State};

/// A state that was opened, and whose segments are to be opened.
pub struct Opening {
    fixed: Fixed,
    state: State,
    version: u64,
}

/// A segment that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentToOpen {
    /// Number of the segment in the state.
    pub number: usize,
    /// Its name.
    pub name: ObjectName,
    /// Bytes of the object.
    pub size: u64,
}

impl Opening {
    /// Opens the state that is stored as `version`.
    ///
    /// # Errors
    /// [`IndexError`] if it is not the state of that version of the key's index.
    pub fn new(key: IndexKey, version: u64, state: Vec<u8>) -> Result<Self, IndexError> {
        let label = Label {
            kind: Kind::State,
            id: key.id(),
            name: read_name(&state)?,
            version,
        };
        let state = State::decode(&open(&key, &label, state)?)?;
        if state.history.versions() != version + 1 {
            return Err(IndexError::ObjectMalformed("a history of another length"));
        }
        Ok(Self {
            fixed: Fixed::new(key, state.settings.clone()),
            state,
            version,
        })
    }

    /// Compares the state with a version that was seen, as [`Index::check`] does, without its segments.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn check(&self, seen: &Head) -> Result<Option<ObjectName>, HistoryError> {
        self.state.history.check(seen)
    }

    /// Compares an old version that was seen, as [`Index::check_older`] does.
    ///
    /// # Errors
    /// [`IndexError`] if the object is not genuine. The inner [`HistoryError`] is about a genuine one.
    pub fn check_older(
        &self,
        seen: &Head,
        name: ObjectName,
        object: Vec<u8>,
    ) -> Result<Result<(), HistoryError>, IndexError> {
        self.fixed.check_older(seen, name, object)
    }

    /// The segments to open.
    pub fn segments(&self) -> impl Iterator<Item = SegmentToOpen> {
        let segments = self.state.segments.iter().enumerate();
        segments.map(|(number, segment)| SegmentToOpen {
            number,
            name: segment.name,
            size: segment.size,
        })
    }

    /// Opens a segment. Several threads may open different ones.
    ///
    /// # Errors
    /// [`IndexError`] if `object` is not that segment.
    pub fn open_segment(
        &self,
        number: usize,
        object: Vec<u8>,
    ) -> Result<OpenedSegment, IndexError> {
        let segment = self
            .state
            .segments
            .get(number)
            .ok_or(IndexError::Segments)?;
        let observed = object.len() as u64;
        let label = self.fixed.label(Kind::Segment, segment.name, 0);
        let plaintext = open(&self.fixed.key, &label, object)?;
        let block = Block::decode(segment.name, observed, &self.fixed.settings, &plaintext)?;
        match u32::try_from(block.len()) {
            Ok(rows) if rows == segment.rows && observed == segment.size => {}
            _ => return Err(IndexError::ObjectMalformed("another number of rows")),
        }
        let live = segment.live();
        let mut leaves = Vec::with_capacity(live.count());
        // A state has fewer than 2³² segments, and a segment fewer than 2³² rows.
        for row in (0..block.len()).filter(|row| live.get(*row)) {
            let place = Place {
                block: number as u32,
                row: row as u32,
            };
            let vector = Zeroizing::new(block.vectors.row(row).unwrap_or_default());
            let row = block.row(row).ok_or(IndexError::Segments)?;
            leaves.push(self.fixed.leaf(&row, &vector, place));
        }
        Ok(OpenedSegment {
            number,
            block,
            live,
            leaves,
        })
    }

    /// The index of all segments, in any order.
    ///
    /// # Errors
    /// [`IndexError::Segments`], or [`IndexError::RootDiffers`].
    pub fn finish(self, mut segments: Vec<OpenedSegment>) -> Result<Index, IndexError> {
        segments.sort_by_key(|segment| segment.number);
        let numbers = segments.iter().map(|segment| segment.number);
        if !numbers.eq(0..self.state.segments.len()) {
            return Err(IndexError::Segments);
        }
        let mut updates = Vec::new();
        let mut blocks = Vec::with_capacity(segments.len());
        for (number, opened) in (0..).zip(segments) {
            updates.extend(opened.leaves.into_iter().map(Update::Put));
            blocks.push(Held {
                number,
                block: Arc::new(opened.block),
                live: Arc::new(opened.live),
            });
        }
        let mut keys = HashSet::with_capacity(updates.len());
        if !updates.iter().all(|update| keys.insert(update.key())) {
            return Err(IndexError::RootDiffers);
        }
        let index = Index {
            next_block: blocks.len() as u32,
            map: Map::default().update(updates),
            fixed: Arc::new(self.fixed),
            history: self.state.history,
            blocks,
        };
        let is_same = index.map.root() == self.state.map
            && index.rows() == self.state.rows
            && index.statement().version == self.version
            && index.statement().head() == index.head();
        match is_same {
            true => Ok(index),
            false => Err(IndexError::RootDiffers),
        }
    }
}

impl Segment {
    fn live(&self) -> Live {
        let mut live = Live::all(usize::try_from(self.rows).unwrap_or(0));
        for row in &self.dead {
            live.clear(usize::try_from(*row).unwrap_or(usize::MAX));
        }
        live
    }
}
