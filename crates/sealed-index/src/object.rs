//! Sealed objects: STREAM (Hoang, Reyhanitabar, Rogaway, Vizár, CRYPTO 2015) over AES-256-GCM.
//!
//! ```text
//! header  = "clrsidx1" ‖ kind (1) ‖ id (16) ‖ name (32) ‖ version (8) ‖ length of the plaintext (8)
//! key     = HKDF-SHA256(name, index key, "clearseal/1 index object" ‖ kind)
//! nonce i = 0 (7) ‖ i (4) ‖ 1 for the last chunk, otherwise 0 (1)
//! object  = header ‖ chunk 0 ‖ … ‖ chunk n−1      chunk: AES-256-GCM(key, nonce i, associated data = header, i-th MiB) ‖ tag (16)
//! ```
//!
//! A name is random and used once, so each object has a key that no other object has, and a name is as good as a digest:
//! only one object was ever sealed under it.

use std::fmt;

use provider::aes256gcm::{Aes256Gcm, TAG};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::Hash;
use crate::codec::Reader;
use crate::error::IndexError;
use crate::key::{IndexId, IndexKey};

/// Largest object in bytes.
pub const MAX_OBJECT: u64 = 128 << 20;

const MAGIC: &[u8; 8] = b"clrsidx1";
const HEADER: usize = 8 + 1 + 16 + 32 + 8 + 8;
const CHUNK: usize = 1 << 20;

/// Name of a segment or of a part of the history, 64 hexadecimal digits. States have their version as name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName(pub(crate) Hash);

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base16ct::lower::encode_string(&self.0))
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names for the objects of one change, from random bytes that are used for nothing else.
pub(crate) struct Names<'a> {
    random: &'a [u8; 32],
    next: u32,
}

impl<'a> Names<'a> {
    pub(crate) fn new(random: &'a [u8; 32]) -> Self {
        Self { random, next: 0 }
    }

    pub(crate) fn make(&mut self) -> ObjectName {
        let hash = Sha256::new()
            .chain_update(b"clearseal/1 index name\0")
            .chain_update(self.random)
            .chain_update(self.next.to_be_bytes())
            .finalize();
        self.next += 1;
        ObjectName(hash.into())
    }
}

/// Content of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    State = 0,
    Segment = 1,
    History = 2,
}

/// Identity of an object: all of it is authenticated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) kind: Kind,
    pub(crate) id: IndexId,
    pub(crate) name: ObjectName,
    /// Version of a state; 0 for other objects.
    pub(crate) version: u64,
}

impl Label {
    fn header(&self, length: u64) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let parts: [&[u8]; 6] = [
            MAGIC,
            &[self.kind as u8],
            self.id.as_bytes(),
            &self.name.0,
            &self.version.to_be_bytes(),
            &length.to_be_bytes(),
        ];
        header.copy_from_slice(&parts.concat());
        header
    }

    fn cipher(&self, key: &IndexKey) -> Aes256Gcm {
        let label = [b"clearseal/1 index object".as_slice(), &[self.kind as u8]].concat();
        Aes256Gcm::new(&key.derive(&self.name.0, &label))
    }
}

fn nonce(chunk: usize, is_last: bool) -> [u8; 12] {
    let mut nonce = [0; 12];
    // An object has at most 128 chunks.
    nonce[7..11].copy_from_slice(&u32::try_from(chunk).unwrap_or(u32::MAX).to_be_bytes());
    nonce[11] = is_last.into();
    nonce
}

/// Chunks of a plaintext: an empty one has one, so that its length is authenticated.
fn count_chunks(length: usize) -> usize {
    length.div_ceil(CHUNK).max(1)
}

fn sealed_length(length: usize) -> usize {
    HEADER + length + count_chunks(length) * TAG
}

/// Seals `plaintext` as the object `label`.
pub(crate) fn seal(key: &IndexKey, label: &Label, plaintext: &[u8]) -> Result<Vec<u8>, IndexError> {
    let sealed = sealed_length(plaintext.len());
    let too_large = IndexError::ObjectTooLarge(sealed as u64);
    if sealed as u64 > MAX_OBJECT {
        return Err(too_large);
    }
    let header = label.header(plaintext.len() as u64);
    let cipher = label.cipher(key);
    let mut object = Vec::with_capacity(sealed);
    object.extend(header);
    let last = count_chunks(plaintext.len()) - 1;
    for chunk in 0..=last {
        let start = object.len();
        let from = chunk * CHUNK;
        let to = plaintext.len().min(from + CHUNK);
        object.extend(&plaintext[from..to]);
        let tag = cipher.seal(&nonce(chunk, chunk == last), &header, &mut object[start..]);
        object.extend(tag.map_err(|_| too_large.clone())?);
    }
    Ok(object)
}

/// The name in the header of a state, which says it only there. Not authenticated before the state is opened under it.
pub(crate) fn read_name(object: &[u8]) -> Result<ObjectName, IndexError> {
    let mut reader = Reader(object.get(..HEADER).ok_or(IndexError::ObjectUnknown)?);
    reader.take(8 + 1 + 16)?;
    reader.hash().map(ObjectName)
}

/// Opens the object `label`.
pub(crate) fn open(
    key: &IndexKey,
    label: &Label,
    mut object: Vec<u8>,
) -> Result<Zeroizing<Vec<u8>>, IndexError> {
    let observed = object.len() as u64;
    let Some((header, body)) = object.split_first_chunk_mut::<HEADER>() else {
        return Err(IndexError::ObjectUnknown);
    };
    if !header.starts_with(MAGIC) {
        return Err(IndexError::ObjectUnknown);
    }
    let mut length = [0; 8];
    length.copy_from_slice(&header[HEADER - 8..]);
    let length = u64::from_be_bytes(length);
    if *header != label.header(length) {
        return Err(IndexError::ObjectSwapped);
    }
    let length = match usize::try_from(length) {
        Ok(size) if length <= MAX_OBJECT && sealed_length(size) as u64 == observed => size,
        _ => {
            let size = usize::try_from(length.min(MAX_OBJECT)).unwrap_or(usize::MAX);
            return Err(IndexError::ObjectLength {
                expected: sealed_length(size) as u64,
                observed,
            });
        }
    };
    let header = *header;
    let cipher = label.cipher(key);
    let last = count_chunks(length) - 1;
    for (number, chunk) in body.chunks_mut(CHUNK + TAG).enumerate() {
        let opened = chunk
            .split_last_chunk_mut::<TAG>()
            .ok_or(IndexError::ObjectAltered)
            .and_then(|(text, tag)| {
                cipher
                    .open(&nonce(number, number == last), &header, text, tag)
                    .map_err(|_| IndexError::ObjectAltered)
            });
        if opened.is_err() {
            // The chunks before this one are plaintext already.
            zeroize::Zeroize::zeroize(&mut object);
            return Err(IndexError::ObjectAltered);
        }
    }
    for number in 0..=last {
        let from = HEADER + number * (CHUNK + TAG);
        let to = number * CHUNK;
        let size = (length - to).min(CHUNK);
        object.copy_within(from..from + size, to);
    }
    let mut plaintext = Zeroizing::new(object);
    // The bytes behind the plaintext repeat its end.
    plaintext[length..].fill(0);
    plaintext.truncate(length);
    Ok(plaintext)
}
