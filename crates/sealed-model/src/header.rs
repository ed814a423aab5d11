//! The header before the chunks.

use crate::error::ContainerError;
use crate::key::Derived;
use crate::manifest::Manifest;

/// Bytes before the manifest: enough to determine the header's length.
pub const FIXED: usize = 84;
/// Most bytes of a header.
pub const MAX_HEADER: usize = 65_536;
/// Plaintext bytes of every chunk but the last.
pub const CHUNK: usize = 1 << 20;
/// Bytes of an authentication tag.
pub const TAG: usize = 16;

/// A byte that is not text, the name, and line ends that a transfer as text would change.
const MAGIC: [u8; 8] = *b"\x89CSM\r\n\x1a\n";
const VERSION: u16 = 1;
const SUITE: u16 = 1;

/// A well-formed header. [`Opener::new`](crate::Opener::new) checks its tag.
///
/// ```text
/// magic (8) ‖ version (2) ‖ suite (2) ‖ chunk size (4) ‖ manifest length (4) ‖ salt (32) ‖ commitment (32) ‖ manifest
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    manifest: Manifest,
    salt: [u8; 32],
    commitment: [u8; 32],
    /// The authenticated bytes.
    encoded: Vec<u8>,
    pub(crate) tag: [u8; TAG],
}

impl Header {
    /// Length of the header with its tag, from its first [`FIXED`] bytes.
    ///
    /// # Errors
    /// [`ContainerError`]: not a container, or one that this program cannot read.
    pub fn length(first: &[u8]) -> Result<usize, ContainerError> {
        Fixed::decode(first).map(|fixed| FIXED + fixed.manifest_length + TAG)
    }

    /// Reads a header and its tag from the start of `bytes`; returns their length.
    ///
    /// # Errors
    /// [`ContainerError`], by cause.
    pub fn read(bytes: &[u8]) -> Result<(Self, usize), ContainerError> {
        let fixed = Fixed::decode(bytes)?;
        let end = FIXED + fixed.manifest_length;
        let truncated = ContainerError::Truncated("the header");
        let encoded = bytes.get(..end).ok_or(truncated.clone())?;
        let tag = *bytes[end..].first_chunk().ok_or(truncated)?;
        let header = Self {
            manifest: Manifest::decode(&encoded[FIXED..])?,
            salt: fixed.salt,
            commitment: fixed.commitment,
            encoded: encoded.to_vec(),
            tag,
        };
        Ok((header, end + TAG))
    }

    /// A header without its tag.
    pub(crate) fn new(
        manifest: Manifest,
        salt: &[u8; 32],
        derived: &Derived,
    ) -> Result<Self, ContainerError> {
        let body = manifest.encode();
        if FIXED + body.len() > MAX_HEADER {
            return Err(ContainerError::HeaderTooLarge((FIXED + body.len()) as u64));
        }
        let mut encoded = Vec::with_capacity(FIXED + body.len());
        encoded.extend(MAGIC);
        encoded.extend(VERSION.to_be_bytes());
        encoded.extend(SUITE.to_be_bytes());
        encoded.extend((CHUNK as u32).to_be_bytes());
        encoded.extend((body.len() as u32).to_be_bytes());
        encoded.extend(salt);
        encoded.extend(derived.commitment());
        encoded.extend(body);
        let mut commitment = [0; 32];
        commitment.copy_from_slice(derived.commitment());
        Ok(Self {
            manifest,
            salt: *salt,
            commitment,
            encoded,
            tag: [0; TAG],
        })
    }

    /// The files. Not authenticated before [`Opener::new`](crate::Opener::new) succeeds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The salt of the key derivation.
    pub fn salt(&self) -> &[u8; 32] {
        &self.salt
    }

    /// Number of chunks; at least one.
    pub fn chunks(&self) -> u64 {
        self.manifest.total().div_ceil(CHUNK as u64).max(1)
    }

    /// Bytes of a sealed chunk, tag included; `None` beyond the last.
    pub fn chunk_length(&self, index: u64) -> Option<usize> {
        let left = self
            .manifest
            .total()
            .saturating_sub(index.checked_mul(CHUNK as u64)?);
        let plain = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK);
        (index < self.chunks()).then_some(plain + TAG)
    }

    /// Offset of a chunk in the container.
    pub fn chunk_offset(&self, index: u64) -> u64 {
        (self.encoded.len() + TAG) as u64 + index.saturating_mul((CHUNK + TAG) as u64)
    }

    /// Bytes of the whole container.
    pub fn container_length(&self) -> u64 {
        // At most 2^32 chunks.
        (self.encoded.len() + TAG) as u64 + self.manifest.total() + self.chunks() * TAG as u64
    }

    pub(crate) fn commitment(&self) -> &[u8; 32] {
        &self.commitment
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

struct Fixed {
    manifest_length: usize,
    salt: [u8; 32],
    commitment: [u8; 32],
}

impl Fixed {
    fn decode(bytes: &[u8]) -> Result<Self, ContainerError> {
        let cut = bytes.len().min(MAGIC.len());
        if bytes[..cut] != MAGIC[..cut] || bytes.is_empty() {
            return Err(ContainerError::NotAContainer);
        }
        let truncated = ContainerError::Truncated("the header");
        let fixed: &[u8; FIXED] = bytes.first_chunk().ok_or(truncated)?;
        let two = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let four = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        if two(8) != VERSION {
            return Err(ContainerError::Version(two(8)));
        }
        if two(10) != SUITE {
            return Err(ContainerError::Suite(two(10)));
        }
        if four(12) as usize != CHUNK {
            return Err(ContainerError::ChunkSize(four(12)));
        }
        let manifest_length = four(16) as usize;
        if FIXED + manifest_length > MAX_HEADER {
            return Err(ContainerError::HeaderTooLarge(
                FIXED as u64 + manifest_length as u64,
            ));
        }
        let mut salt = [0; 32];
        salt.copy_from_slice(&fixed[20..52]);
        let mut commitment = [0; 32];
        commitment.copy_from_slice(&fixed[52..84]);
        Ok(Self {
            manifest_length,
            salt,
            commitment,
        })
    }
}
