//! Sealing and opening of chunks: STREAM over AES-256-GCM.
//!
//! ```text
//! nonce(i, flag) = prefix (7) ‖ i (4, big-endian) ‖ flag (1)      flag: 0 a chunk, 1 the last chunk, 2 the header
//! header tag     = AES-256-GCM(key, nonce(0, 2), associated data = header, plaintext = "")
//! chunk i        = AES-256-GCM(key, nonce(i, i = n − 1), associated data = header, plaintext = i-th MiB) ‖ tag
//! ```

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit, Nonce, Tag};
use subtle::ConstantTimeEq;

use crate::error::ContainerError;
use crate::header::{Header, TAG};
use crate::key::{DataKey, Derived};
use crate::manifest::Manifest;

/// Number of positions tried to find where a misplaced chunk belongs. A match only improves the error message; the chunk is refused.
const TRIED: u64 = 512;

#[derive(Clone, Copy)]
enum Flag {
    Chunk = 0,
    Last = 1,
    Header = 2,
}

struct Stream {
    cipher: Aes256Gcm,
    prefix: [u8; 7],
}

impl Stream {
    fn new(derived: &Derived) -> Result<Self, ContainerError> {
        let cipher =
            Aes256Gcm::new_from_slice(derived.key()).map_err(|_| ContainerError::WrongKey)?;
        let mut prefix = [0; 7];
        prefix.copy_from_slice(derived.prefix());
        Ok(Self { cipher, prefix })
    }

    fn nonce(&self, counter: u32, flag: Flag) -> Nonce<aes_gcm::aead::consts::U12> {
        let mut nonce = [0; 12];
        nonce[..7].copy_from_slice(&self.prefix);
        nonce[7..11].copy_from_slice(&counter.to_be_bytes());
        nonce[11] = flag as u8;
        nonce.into()
    }

    fn seal(&self, counter: u32, flag: Flag, header: &[u8], text: &mut [u8]) -> Option<[u8; TAG]> {
        let nonce = self.nonce(counter, flag);
        let tag = self
            .cipher
            .encrypt_inout_detached(&nonce, header, text.into());
        tag.ok().map(Into::into)
    }

    /// Leaves `text` unchanged if the tag is wrong.
    fn open(
        &self,
        counter: u32,
        flag: Flag,
        header: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG],
    ) -> bool {
        let nonce = self.nonce(counter, flag);
        let tag = Tag::from(*tag);
        self.cipher
            .decrypt_inout_detached(&nonce, header, text.into(), &tag)
            .is_ok()
    }
}

/// The chunk's counter and flag; `None` beyond the last.
fn chunk_position(header: &Header, index: u64) -> Option<(u32, Flag)> {
    let last = header.chunks() - 1;
    let flag = if index == last {
        Flag::Last
    } else {
        Flag::Chunk
    };
    u32::try_from(index)
        .ok()
        .filter(|_| index <= last)
        .map(|counter| (counter, flag))
}

/// Makes a container: the header first, then one chunk after another.
pub struct Sealer {
    stream: Stream,
    header: Header,
    first: Vec<u8>,
    next: u64,
}

impl Sealer {
    /// Derives the keys and writes the header. Use a salt for one container only: a second one with the same data key would repeat
    /// nonces.
    ///
    /// # Errors
    /// [`ContainerError::HeaderTooLarge`].
    pub fn new(manifest: Manifest, salt: &[u8; 32], key: &DataKey) -> Result<Self, ContainerError> {
        let derived = Derived::new(key, salt);
        let stream = Stream::new(&derived)?;
        let mut header = Header::new(manifest, salt, &derived)?;
        header.tag = stream
            .seal(0, Flag::Header, header.encoded(), &mut [])
            .ok_or(ContainerError::HeaderAltered)?;
        let first = [header.encoded(), &header.tag].concat();
        Ok(Self {
            stream,
            header,
            first,
            next: 0,
        })
    }

    /// The container's first bytes: header and tag.
    pub fn header(&self) -> &[u8] {
        &self.first
    }

    /// Plaintext bytes of the next chunk; `None` after the last.
    pub fn wants(&self) -> Option<usize> {
        self.header
            .chunk_length(self.next)
            .map(|length| length - TAG)
    }

    /// Length of the complete container.
    pub fn container_length(&self) -> u64 {
        self.header.container_length()
    }

    /// Seals the next chunk in place, and appends its tag.
    ///
    /// # Errors
    /// [`ContainerError::ChunkLength`] if its length is not [`wants`](Self::wants).
    pub fn seal(&mut self, chunk: &mut Vec<u8>) -> Result<(), ContainerError> {
        let expected = self.wants().unwrap_or(0);
        let wrong = ContainerError::ChunkLength {
            index: self.next,
            expected,
            observed: chunk.len(),
        };
        let Some((counter, flag)) = chunk_position(&self.header, self.next) else {
            return Err(wrong);
        };
        if chunk.len() != expected {
            return Err(wrong);
        }
        let tag = self
            .stream
            .seal(counter, flag, self.header.encoded(), chunk)
            .ok_or(wrong)?;
        chunk.extend(tag);
        self.next += 1;
        Ok(())
    }
}

/// Opens the chunks of one container; may be shared by threads.
pub struct Opener {
    stream: Stream,
    header: Header,
}

impl Opener {
    /// Derives the keys, and compares commitment and header tag: from then on the manifest is authenticated.
    ///
    /// # Errors
    /// [`ContainerError::WrongKey`], or [`ContainerError::HeaderAltered`].
    pub fn new(header: Header, key: &DataKey) -> Result<Self, ContainerError> {
        let derived = Derived::new(key, header.salt());
        if !bool::from(derived.commitment().ct_eq(header.commitment())) {
            return Err(ContainerError::WrongKey);
        }
        let stream = Stream::new(&derived)?;
        match stream.open(0, Flag::Header, header.encoded(), &mut [], &header.tag) {
            true => Ok(Self { stream, header }),
            false => Err(ContainerError::HeaderAltered),
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Opens chunk `index` in place; returns its plaintext, a prefix of the same memory.
    ///
    /// # Errors
    /// [`ContainerError`]: too short, too long, altered, or another chunk. `chunk` is then unchanged.
    pub fn open<'a>(
        &self,
        index: u64,
        chunk: &'a mut [u8],
    ) -> Result<&'a mut [u8], ContainerError> {
        let (Some((counter, flag)), Some(length)) = (
            chunk_position(&self.header, index),
            self.header.chunk_length(index),
        ) else {
            return Err(ContainerError::TrailingBytes);
        };
        if chunk.len() > length {
            return Err(ContainerError::TrailingBytes);
        }
        let truncated = ContainerError::Truncated("a chunk");
        if chunk.len() < length {
            return Err(truncated);
        }
        let (text, tag) = chunk.split_last_chunk_mut::<TAG>().ok_or(truncated)?;
        if self
            .stream
            .open(counter, flag, self.header.encoded(), text, tag)
        {
            return Ok(text);
        }
        Err(self.misplaced(index, text, tag))
    }

    /// Finds the position that a misplaced chunk was sealed for.
    fn misplaced(&self, at: u64, text: &mut [u8], tag: &[u8; TAG]) -> ContainerError {
        let from = at.saturating_sub(TRIED / 2);
        for other in (from..from + TRIED).filter(|other| *other != at) {
            if self.header.chunk_length(other) != Some(text.len() + TAG) {
                continue;
            }
            let Some((counter, flag)) = chunk_position(&self.header, other) else {
                continue;
            };
            if self
                .stream
                .open(counter, flag, self.header.encoded(), text, tag)
            {
                // Wipe it: it was decrypted only to find its position.
                text.fill(0);
                return ContainerError::ChunkOrder {
                    at,
                    sealed_as: other,
                };
            }
        }
        ContainerError::ChunkAltered(at)
    }
}
