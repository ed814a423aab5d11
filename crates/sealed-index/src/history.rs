//! Heads of all versions. The newest are in the state, older ones in parts of [`PART`] heads that never change.

use crate::Hash;
use crate::codec::{Reader, malformed, put_count};
use crate::error::{HistoryError, IndexError};
use crate::object::ObjectName;
use crate::proof::Head;

/// Heads of a part.
const PART: usize = 1024;

/// The heads of versions 0 to the newest.
#[derive(Clone, Default)]
pub(crate) struct History {
    parts: Vec<ObjectName>,
    /// Heads after the parts: at least one, fewer than two parts.
    recent: Vec<Hash>,
}

impl History {
    /// Adds the head of the next version. Returns the part that became old, which the caller stores under `name`.
    pub(crate) fn push(
        &mut self,
        head: Hash,
        name: impl FnOnce() -> ObjectName,
    ) -> Option<OldPart> {
        self.recent.push(head);
        if self.recent.len() < 2 * PART {
            return None;
        }
        let heads: Vec<Hash> = self.recent.drain(..PART).collect();
        let name = name();
        self.parts.push(name);
        Some(OldPart { name, heads })
    }

    /// Compares a head that a client remembers. `Ok(Some(name))` says in which part it is.
    pub(crate) fn check(&self, seen: &Head) -> Result<Option<ObjectName>, HistoryError> {
        let index = usize::try_from(seen.version).unwrap_or(usize::MAX);
        if let Some(name) = self.parts.get(index / PART) {
            return Ok(Some(*name));
        }
        match self.recent.get(index - self.parts.len() * PART) {
            Some(head) if *head == seen.head => Ok(None),
            Some(_) => Err(HistoryError::Forked { seen: seen.version }),
            None => Err(HistoryError::RolledBack {
                seen: seen.version,
                newest: self.versions().saturating_sub(1),
            }),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        (self.parts.len() + self.recent.len()) * size_of::<Hash>()
    }

    /// Number of versions, version 0 included.
    pub(crate) fn versions(&self) -> u64 {
        (self.parts.len() * PART + self.recent.len()) as u64
    }

    pub(crate) fn newest(&self) -> Option<&Hash> {
        self.recent.last()
    }

    /// The head before the newest; zeros if there is none.
    pub(crate) fn previous(&self) -> Hash {
        // A part became old while as many heads followed it, so the head before the newest is always among the recent ones.
        let before = self.recent.iter().rev().nth(1);
        before.copied().unwrap_or_default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.parts.len());
        out.extend(self.parts.iter().flat_map(|part| part.0));
        put_count(out, self.recent.len());
        out.extend(self.recent.as_flattened());
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, IndexError> {
        let parts = reader.list(|reader| reader.hash().map(ObjectName))?;
        let recent = reader.list(Reader::hash)?;
        match (parts.len(), recent.len()) {
            (0, 1..) | (1.., PART..) if recent.len() < 2 * PART => Ok(Self { parts, recent }),
            _ => malformed("a history"),
        }
    }
}

/// A part that is to be stored.
pub(crate) struct OldPart {
    pub(crate) name: ObjectName,
    heads: Vec<Hash>,
}

impl OldPart {
    pub(crate) fn encode(&self) -> &[u8] {
        self.heads.as_flattened()
    }

    /// Compares a head that a client remembers with the opened part that holds it.
    pub(crate) fn check(plaintext: &[u8], seen: &Head) -> Result<(), HistoryError> {
        let (heads, _) = plaintext.as_chunks::<32>();
        let at = usize::try_from(seen.version % PART as u64).unwrap_or(usize::MAX);
        match heads.get(at) {
            Some(head) if *head == seen.head => Ok(()),
            _ => Err(HistoryError::Forked { seen: seen.version }),
        }
    }
}
