//! Numbers and lengths in stored objects: big-endian, lengths before what they measure.

use crate::Hash;
use crate::error::IndexError;

/// Reads from the front of bytes that were authenticated.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

/// The form is not one that this program writes.
pub(crate) fn malformed<T>(part: &'static str) -> Result<T, IndexError> {
    Err(IndexError::ObjectMalformed(part))
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], IndexError> {
        match self.0.split_at_checked(length) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => malformed("a length"),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        match self.0.split_first_chunk() {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(*taken)
            }
            None => malformed("a length"),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, IndexError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, IndexError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn hash(&mut self) -> Result<Hash, IndexError> {
        self.array()
    }

    /// Bytes after their length, two bytes.
    pub(crate) fn short(&mut self) -> Result<&'a [u8], IndexError> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// A text after its length, two bytes.
    pub(crate) fn short_text(&mut self) -> Result<&'a str, IndexError> {
        str::from_utf8(self.short()?).or_else(|_| malformed("a text"))
    }

    /// A list after the number of its elements, four bytes.
    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, IndexError>,
    ) -> Result<Vec<T>, IndexError> {
        let count = self.u32()?;
        // Without reserving for the number: the bytes bound the list.
        (0..count).map(|_| read(self)).collect()
    }

    pub(crate) fn end(self) -> Result<(), IndexError> {
        match self.0 {
            [] => Ok(()),
            _ => malformed("an end"),
        }
    }
}

/// Appends bytes after their length, two bytes. The caller has checked the length.
pub(crate) fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(bytes);
}

/// Appends a number as four bytes. The caller has checked its size.
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}
