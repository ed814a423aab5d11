//! A segment in memory, and its stored form.
//!
//! ```text
//! segment = dimensions (4) ‖ precision (1) ‖ rows (4) ‖ length (4) ‖ records ‖ vectors in the stored form of crate `scan`
//! ```

use scan::{Live, Vectors};
use zeroize::Zeroizing;

use crate::codec::{Reader, malformed, put_count};
use crate::error::IndexError;
use crate::map::Leaf;
use crate::object::{MAX_OBJECT, ObjectName};
use crate::row::RowRef;
use crate::settings::Settings;

/// Bytes before the records.
const FIXED: usize = 4 + 1 + 4 + 4;

/// Rows that were stored together. Never changes.
pub(crate) struct Block {
    pub(crate) name: ObjectName,
    /// Bytes of the object.
    pub(crate) size: u64,
    pub(crate) vectors: Vectors,
    records: Zeroizing<Vec<u8>>,
    /// Where the record of each row starts.
    starts: Vec<u32>,
}

/// A segment that was opened and checked, for [`Opening::finish`](crate::Opening::finish).
pub struct OpenedSegment {
    pub(crate) number: usize,
    pub(crate) block: Block,
    /// Rows that are in the index.
    pub(crate) live: Live,
    /// Their leaves.
    pub(crate) leaves: Vec<Leaf>,
}

/// Records of the rows of a block that is being made.
pub(crate) struct Records {
    bytes: Zeroizing<Vec<u8>>,
    starts: Vec<u32>,
}

impl Records {
    /// For records of `bytes` bytes altogether: a buffer that grows would leave copies in freed memory.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bytes: Zeroizing::new(Vec::with_capacity(bytes)),
            starts: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, row: &RowRef<'_>) -> Result<(), IndexError> {
        let start = u32::try_from(self.bytes.len())
            .map_err(|_| IndexError::ObjectTooLarge(self.bytes.len() as u64))?;
        self.starts.push(start);
        row.write(&mut self.bytes);
        Ok(())
    }
}

impl Block {
    /// A block of as many records as vectors. Its object does not exist yet: `size` is 0.
    pub(crate) fn new(name: ObjectName, records: Records, vectors: Vectors) -> Self {
        Self {
            name,
            size: 0,
            vectors,
            records: records.bytes,
            starts: records.starts,
        }
    }

    pub(crate) fn encode(&self) -> Result<Zeroizing<Vec<u8>>, IndexError> {
        let dimensions = self.vectors.dimensions();
        let row = self.vectors.precision().row_bytes(dimensions);
        let size = FIXED + self.records.len() + row * self.len();
        if size as u64 > MAX_OBJECT {
            return Err(IndexError::ObjectTooLarge(size as u64));
        }
        let mut out = Zeroizing::new(Vec::with_capacity(size));
        put_count(&mut out, dimensions);
        out.push(self.vectors.precision().code());
        put_count(&mut out, self.len());
        put_count(&mut out, self.records.len());
        out.extend(&*self.records);
        self.vectors.to_bytes(&mut out);
        Ok(out)
    }

    pub(crate) fn decode(
        name: ObjectName,
        size: u64,
        settings: &Settings,
        plaintext: &[u8],
    ) -> Result<Self, IndexError> {
        let mut reader = Reader(plaintext);
        let form = (reader.u32()?, reader.u8()?);
        if form != (settings.dimensions, settings.precision.code()) {
            return malformed("vectors of another form");
        }
        let rows = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
        let length = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
        let records = reader.take(length)?;
        let mut rest = Reader(records);
        let mut starts = Vec::new();
        for _ in 0..rows {
            // Shorter than an object, so it fits.
            starts.push((records.len() - rest.0.len()) as u32);
            RowRef::read(&mut rest)?;
        }
        rest.end()?;
        let vectors = Vectors::from_bytes(settings.size(), settings.precision, rows, reader.0)
            .or_else(|_| malformed("vectors"))?;
        Ok(Self {
            name,
            size,
            vectors,
            records: Zeroizing::new(records.to_vec()),
            starts,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.vectors.len()
    }

    /// The row with this number.
    pub(crate) fn row(&self, number: usize) -> Option<RowRef<'_>> {
        let start = *self.starts.get(number)?;
        let record = self.records.get(usize::try_from(start).ok()?..)?;
        RowRef::read(&mut Reader(record)).ok()
    }

    pub(crate) fn memory(&self) -> usize {
        self.records.len() + self.starts.len() * size_of::<u32>() + self.vectors.memory()
    }
}
