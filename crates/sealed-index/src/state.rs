//! The state of one version, as it is stored.
//!
//! ```text
//! state   = settings ‖ rows (8) ‖ map (32) ‖ list of segments ‖ list of parts of the history, names (32) ‖ list of newer heads (32)
//! segment = name (32) ‖ bytes of the object (8) ‖ rows (4) ‖ list of its dead rows (4)
//! list    = number of elements (4) ‖ elements
//! ```

use zeroize::Zeroizing;

use crate::Hash;
use crate::codec::{Reader, malformed, put_count};
use crate::error::IndexError;
use crate::history::History;
use crate::object::ObjectName;
use crate::settings::Settings;

/// A state, read or to be written.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) rows: u64,
    pub(crate) map: Hash,
    pub(crate) segments: Vec<Segment>,
    pub(crate) history: History,
}

/// A segment that a state names.
pub(crate) struct Segment {
    pub(crate) name: ObjectName,
    pub(crate) size: u64,
    pub(crate) rows: u32,
    /// Rows that were replaced or deleted, rising.
    pub(crate) dead: Vec<u32>,
}

impl State {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Vec::new();
        self.settings.encode(&mut out);
        out.extend(self.rows.to_be_bytes());
        out.extend(self.map);
        put_count(&mut out, self.segments.len());
        for segment in &self.segments {
            out.extend(segment.name.0);
            out.extend(segment.size.to_be_bytes());
            out.extend(segment.rows.to_be_bytes());
            put_count(&mut out, segment.dead.len());
            out.extend(segment.dead.iter().flat_map(|row| row.to_be_bytes()));
        }
        self.history.encode(&mut out);
        Zeroizing::new(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let mut reader = Reader(bytes);
        let state = Self {
            settings: Settings::decode(&mut reader)?,
            rows: reader.u64()?,
            map: reader.hash()?,
            segments: reader.list(Segment::decode)?,
            history: History::decode(&mut reader)?,
        };
        reader.end()?;
        Ok(state)
    }
}

impl Segment {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, IndexError> {
        let segment = Self {
            name: reader.hash().map(ObjectName)?,
            size: reader.u64()?,
            rows: reader.u32()?,
            dead: reader.list(Reader::u32)?,
        };
        let is_rising = segment.dead.is_sorted_by(|a, b| a < b);
        let is_inside = segment.dead.last().is_none_or(|row| *row < segment.rows);
        match is_rising && is_inside {
            true => Ok(segment),
            false => malformed("a list of dead rows"),
        }
    }
}
