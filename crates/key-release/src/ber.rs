//! A reader for the few forms of BER (X.690) that KMS writes. It borrows its input, and never allocates.

use crate::envelope::{Malformed, Part};

/// Remaining bytes, and their offset in the envelope.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    at: usize,
    /// Whether this level ends with an end-of-contents (X.690 §8.1.5) instead of with its last byte.
    indefinite: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            at: 0,
            indefinite: false,
        }
    }

    /// Whether this level has no further element.
    pub(crate) fn at_end(&self) -> bool {
        if self.indefinite {
            self.rest.starts_with(&END_OF_CONTENTS)
        } else {
            self.rest.is_empty()
        }
    }

    pub(crate) fn starts_with(&self, bytes: &[u8]) -> bool {
        self.rest.starts_with(bytes)
    }

    /// Reads exactly these bytes.
    pub(crate) fn literal(&mut self, bytes: &[u8], part: Part) -> Result<(), Malformed> {
        let found = self.take(bytes.len(), part)?;
        if found == bytes {
            Ok(())
        } else {
            self.at -= bytes.len();
            Err(self.malformed(part))
        }
    }

    /// Reads the content of a primitive element with this tag. Its length must be definite and in the shortest form.
    pub(crate) fn primitive(&mut self, tag: u8, part: Part) -> Result<&'a [u8], Malformed> {
        self.literal(&[tag], part)?;
        match self.length(part)? {
            Some(length) => self.take(length, part),
            None => Err(self.malformed(part)),
        }
    }

    /// Reads the content of a primitive element, which must have exactly `N` bytes.
    pub(crate) fn array<const N: usize>(
        &mut self,
        tag: u8,
        part: Part,
    ) -> Result<&'a [u8; N], Malformed> {
        let content = self.primitive(tag, part)?;
        content.try_into().map_err(|_| self.malformed(part))
    }

    /// Reads the content of a constructed element to its end. Both forms of length are accepted.
    pub(crate) fn constructed<T>(
        &mut self,
        tag: u8,
        part: Part,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        self.literal(&[tag], part)?;
        let length = self.length(part)?;
        let mut inner = match length {
            Some(length) => {
                let at = self.at;
                Self {
                    rest: self.take(length, part)?,
                    at,
                    indefinite: false,
                }
            }
            None => Self {
                indefinite: true,
                ..self.clone()
            },
        };
        let value = read(&mut inner)?;
        if !inner.at_end() {
            return Err(inner.malformed(part));
        }
        if length.is_none() {
            inner.literal(&END_OF_CONTENTS, part)?;
            (self.rest, self.at) = (inner.rest, inner.at);
        }
        Ok(value)
    }

    /// Reads a length; `None` where it is indefinite. Refuses forms that are longer than necessary, and more than two bytes.
    fn length(&mut self, part: Part) -> Result<Option<usize>, Malformed> {
        let [first] = *self.take_array(part)?;
        let length = match first {
            0x80 => return Ok(None),
            0x00..0x80 => usize::from(first),
            0x81 => {
                let [length] = *self.take_array(part)?;
                usize::from(length)
            }
            0x82 => usize::from(u16::from_be_bytes(*self.take_array(part)?)),
            _ => return Err(self.malformed(part)),
        };
        let shortest = match first {
            0x81 => length >= 0x80,
            0x82 => length >= 0x100,
            _ => true,
        };
        if shortest {
            Ok(Some(length))
        } else {
            Err(self.malformed(part))
        }
    }

    fn take(&mut self, length: usize, part: Part) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.malformed(part))?;
        self.rest = rest;
        self.at += length;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self, part: Part) -> Result<&'a [u8; N], Malformed> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| self.malformed(part))?;
        self.rest = rest;
        self.at += N;
        Ok(taken)
    }

    pub(crate) fn malformed(&self, part: Part) -> Malformed {
        Malformed { part, at: self.at }
    }
}

const END_OF_CONTENTS: [u8; 2] = [0, 0];
