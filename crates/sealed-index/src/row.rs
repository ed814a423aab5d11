//! Rows: as a client writes them, as a segment stores them, and what commits to them.
//!
//! ```text
//! record = version (8) ‖ 1 if the index computed the vector, otherwise 0 ‖ length (2) ‖ id ‖ length (2) ‖ metadata
//!          ‖ 0, or 1 ‖ length (4) ‖ text
//! ```

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::Hash;
use crate::codec::{Reader, malformed, put_count, put_short};
use crate::error::IndexError;
use crate::metadata::{Metadata, MetadataRef};

/// Longest id of a row in bytes.
pub const MAX_ID: usize = 256;
/// Longest text of a row in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// A row to write. Zeroized when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Row {
    /// Name of the row, chosen by the client.
    pub id: String,
    /// The vector, before it is rounded to the index's precision.
    pub vector: Vec<f32>,
    /// The text, if the index keeps it.
    pub text: Option<String>,
    /// Small values to filter by.
    #[zeroize(skip)]
    pub metadata: Metadata,
    /// Whether the enclave computed the vector from the text, with the index's model and prompt. The row's proof states it.
    pub computed: bool,
}

impl Row {
    /// The row as version `version` stores it.
    pub(crate) fn as_stored(&self, version: u64) -> RowRef<'_> {
        RowRef {
            id: &self.id,
            text: self.text.as_deref(),
            computed: self.computed,
            version,
            metadata: self.metadata.as_ref(),
        }
    }
}

/// A change of one row.
pub enum Change {
    /// Writes a row, in place of the one with the same id if there is one.
    Put(Row),
    /// Removes the row with this id, if there is one.
    Delete(Zeroizing<String>),
}

impl Change {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Put(row) => &row.id,
            Self::Delete(id) => id,
        }
    }
}

/// A row in an opened index.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    /// Name of the row.
    pub id: &'a str,
    /// The text, if the index has it.
    pub text: Option<&'a str>,
    /// Whether the enclave computed the vector from the text.
    pub computed: bool,
    /// Version of the index that wrote the row.
    pub version: u64,
    pub(crate) metadata: MetadataRef<'a>,
}

impl<'a> RowRef<'a> {
    /// A copy of the metadata.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        self.metadata.to_owned()
    }

    /// Reads a record, and leaves the reader behind it.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, IndexError> {
        let version = reader.u64()?;
        let computed = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return malformed("a source"),
        };
        let id = reader.short_text()?;
        if id.is_empty() || id.len() > MAX_ID {
            return malformed("an id");
        }
        let metadata = MetadataRef::read(reader.short()?)?;
        let text = match reader.u8()? {
            0 => None,
            1 => {
                let length = reader.u32()?;
                let text = reader.take(usize::try_from(length).unwrap_or(usize::MAX))?;
                Some(str::from_utf8(text).or_else(|_| malformed("a text"))?)
            }
            _ => return malformed("a text"),
        };
        Ok(Self {
            id,
            text,
            computed,
            version,
            metadata,
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.version.to_be_bytes());
        out.push(self.computed.into());
        put_short(out, self.id.as_bytes());
        put_short(out, self.metadata.as_bytes());
        out.push(self.text.is_some().into());
        if let Some(text) = self.text {
            put_count(out, text.len());
            out.extend(text.as_bytes());
        }
    }

    /// Bytes of the record.
    pub(crate) fn size(&self) -> usize {
        let text = self.text.map_or(0, |text| 4 + text.len());
        8 + 1 + 2 + self.id.len() + 2 + self.metadata.as_bytes().len() + 1 + text
    }
}

/// Salted hashes of the parts of a row. One part can be disclosed without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commitments {
    pub(crate) text: Option<Hash>,
    pub(crate) vector: Hash,
    pub(crate) metadata: Hash,
}

impl Commitments {
    pub(crate) fn of(salt: &Hash, row: &RowRef<'_>, vector: &[f32]) -> Self {
        Self {
            text: row.text.map(|text| hash_text(salt, text)),
            vector: hash_vector(salt, vector),
            metadata: hash_metadata(salt, row.metadata.as_bytes()),
        }
    }

    /// The value of the row's leaf: SHA-256("clearseal/1 index row" ‖ 0x00 ‖ version (8) ‖ computed (1) ‖ 0x01 ‖ text hash, or 0x00 ‖
    /// zeros (32) ‖ vector hash ‖ metadata hash).
    pub(crate) fn value(&self, version: u64, computed: bool) -> Hash {
        Sha256::new()
            .chain_update(b"clearseal/1 index row\0")
            .chain_update(version.to_be_bytes())
            .chain_update([u8::from(computed), self.text.is_some().into()])
            .chain_update(self.text.unwrap_or_default())
            .chain_update(self.vector)
            .chain_update(self.metadata)
            .finalize()
            .into()
    }
}

/// SHA-256("clearseal/1 index text" ‖ 0x00 ‖ row salt ‖ text).
pub(crate) fn hash_text(salt: &Hash, text: &str) -> Hash {
    Sha256::new()
        .chain_update(b"clearseal/1 index text\0")
        .chain_update(salt)
        .chain_update(text)
        .finalize()
        .into()
}

/// SHA-256("clearseal/1 index vector" ‖ 0x00 ‖ row salt ‖ the stored values, float32, little-endian).
pub(crate) fn hash_vector(salt: &Hash, vector: &[f32]) -> Hash {
    let bytes: Zeroizing<Vec<u8>> = Zeroizing::new(
        vector
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
    );
    Sha256::new()
        .chain_update(b"clearseal/1 index vector\0")
        .chain_update(salt)
        .chain_update(&*bytes)
        .finalize()
        .into()
}

/// SHA-256("clearseal/1 index metadata" ‖ 0x00 ‖ row salt ‖ encoded metadata).
pub(crate) fn hash_metadata(salt: &Hash, metadata: &[u8]) -> Hash {
    Sha256::new()
        .chain_update(b"clearseal/1 index metadata\0")
        .chain_update(salt)
        .chain_update(metadata)
        .finalize()
        .into()
}
