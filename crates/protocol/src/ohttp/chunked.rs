//! Chunked encapsulation (draft-ietf-ohai-chunked-ohttp-08): a message is sealed and opened in parts, while it is made and while it
//! arrives.
//!
//! ```text
//! info        = "message/bhttp chunked request" ‖ 0x00 ‖ hdr                                   §6.1
//! enc_request = hdr ‖ enc ‖ (varint(length) ‖ sctxt.Seal("", chunk))* ‖ 0x00 ‖ sctxt.Seal("final", chunk)
//! secret      = context.Export("message/bhttp chunked response", max(Nn, Nk))                  §6.2
//! chunk_nonce = aead_nonce XOR counter                      key and aead_nonce as in RFC 9458 §4.4
//! response    = response_nonce ‖ (varint(length) ‖ Seal("", chunk))* ‖ 0x00 ‖ Seal("final", chunk)
//! ```
//!
//! The place of a chunk is part of its nonce, and the last one has other associated data. So a chunk that was left out, repeated or
//! moved does not open, and a message without its last chunk is not complete. Only the last chunk may be empty.

use attestation::{Aead, SealingKey};
use rand_core::CryptoRng;
use zeroize::{Zeroize as _, Zeroizing};

use super::response::{self, ChunkCipher};
use super::suite::{self, ChunkReceiver, Suite};
use super::{HEADER_LEN, MAX_ENCAPSULATED, SealError, TAG_LEN, info};
use crate::inner::{MAX_REQUEST, MAX_RESPONSE};

/// Media type of a request in chunks.
pub const REQUEST_MEDIA_TYPE: &str = "message/ohttp-chunked-req";
/// Media type of a response in chunks.
pub const RESPONSE_MEDIA_TYPE: &str = "message/ohttp-chunked-res";
/// Longest chunk that is sealed here, in bytes before sealing. Every receiver has to support it (§3).
pub const MAX_CHUNK: usize = 1 << 14;

pub(super) const REQUEST_LABEL: &[u8] = b"message/bhttp chunked request\0";
pub(super) const RESPONSE_LABEL: &[u8] = b"message/bhttp chunked response";
const FINAL: &[u8] = b"final";

/// Why a chunked message could not be sealed or opened. Reveals nothing about its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ChunkError {
    /// The last chunk is missing.
    #[error("the sealed message ended before its last chunk")]
    #[coded(
        "CHUNKS_CUT_OFF",
        remedy = "Use nothing that needs the whole message, and send it again."
    )]
    CutOff,
    /// A chunk was changed, left out, repeated or moved, or belongs to another exchange.
    #[error("chunk {0} (counted from 0) of the sealed message cannot be opened")]
    #[coded(
        "CHUNK_OPEN_FAILED",
        remedy = "Discard the message and ask again; a chunk was changed, left out, repeated or moved."
    )]
    OpenFailed(u64),
    /// A chunk without content before the last one (§6).
    #[error("chunk {0} (counted from 0) of the sealed message is empty")]
    #[coded(
        "CHUNK_EMPTY",
        remedy = "Update the sender: only the last chunk may be empty."
    )]
    Empty(u64),
    /// A chunk of more than 16 KiB, or a message over the limit of this protocol.
    #[error("chunk {0} (counted from 0) exceeds the limit on a chunk or on the whole message")]
    #[coded(
        "CHUNK_TOO_LARGE",
        remedy = "Send chunks of at most 16,384 bytes, and less in one message."
    )]
    TooLarge(u64),
    /// The head of the message is unusable.
    #[error(transparent)]
    #[coded(transparent)]
    Seal(#[from] SealError),
}

/// Seals `inner` to `key` in chunks, under the first encryption of `preference` that the key offers. Returns the encapsulated
/// request and the only object that can open its answer.
///
/// # Errors
/// Those of [`encapsulate`](super::encapsulate).
pub fn encapsulate(
    key: &SealingKey,
    preference: &[Aead],
    inner: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, ChunkOpener), SealError> {
    let config = key.config();
    let suite = Suite::choose(config, preference).ok_or(SealError::UnsupportedSuite)?;
    let header = suite.header(config.key_id);
    let info = info(REQUEST_LABEL, &header);
    let (enc, mut sender) = suite::encapsulate_chunks(suite, &config.public_key, &info, rng)?;
    if inner.len() > MAX_REQUEST {
        return Err(SealError::TooLarge);
    }
    let chunks = inner.len() / MAX_CHUNK + 1;
    let mut sealed =
        Vec::with_capacity(HEADER_LEN + enc.len() + inner.len() + chunks * (TAG_LEN + 8));
    sealed.extend_from_slice(&header);
    sealed.extend_from_slice(&enc);
    let (whole, last) = split_last_chunk(inner);
    for chunk in whole.chunks(MAX_CHUNK) {
        append_chunk(chunk, false, &mut sealed, |aad, body| {
            sender.seal(aad, body)
        })?;
    }
    append_chunk(last, true, &mut sealed, |aad, body| sender.seal(aad, body))?;
    let secret = sender.export(response::secret_len(suite.aead))?;
    Ok((sealed, ChunkOpener::new(suite.aead, enc, secret)))
}

/// Splits off the last chunk, which is empty only if everything is.
fn split_last_chunk(bytes: &[u8]) -> (&[u8], &[u8]) {
    let last = bytes.len().saturating_sub(1) / MAX_CHUNK * MAX_CHUNK;
    bytes.split_at(last)
}

fn append_chunk(
    chunk: &[u8],
    is_last: bool,
    out: &mut Vec<u8>,
    seal: impl FnOnce(&[u8], &mut [u8]) -> Result<[u8; TAG_LEN], SealError>,
) -> Result<(), SealError> {
    let (length, aad) = match is_last {
        true => (0, FINAL),
        false => (chunk.len() + TAG_LEN, &b""[..]),
    };
    append_varint(length, out);
    let start = out.len();
    out.extend_from_slice(chunk);
    let tag = seal(aad, &mut out[start..])?;
    out.extend_from_slice(&tag);
    Ok(())
}

/// Appends a variable-length integer of QUIC (RFC 9000 §16) in its shortest form.
pub(crate) fn append_varint(value: usize, out: &mut Vec<u8>) {
    let value = value as u64;
    let (prefix, bytes) = match value {
        0..0x40 => (0, 1),
        0x40..0x4000 => (0x40, 2),
        0x4000..0x4000_0000 => (0x80, 4),
        _ => (0xc0, 8),
    };
    let encoded = value.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&encoded[encoded.len() - bytes..]);
    out[start] |= prefix;
}

/// Reads a variable-length integer at the start of `bytes`; `None` if it is not complete. Returns its value and its length.
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1usize << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    Some((value, length))
}

/// The length prefix and the chunk that `bytes` begin with.
enum Next {
    /// More bytes are needed.
    Incomplete,
    /// A chunk that is not the last one: where it begins and ends.
    Chunk(usize, usize),
    /// The last chunk, which extends to the end of the message: where it begins.
    Last(usize),
}

/// `most` bounds a sealed chunk.
fn next_chunk(bytes: &[u8], most: usize, count: u64) -> Result<Next, ChunkError> {
    let Some((length, start)) = read_varint(bytes) else {
        return Ok(Next::Incomplete);
    };
    if length == 0 {
        return Ok(Next::Last(start));
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > most {
        return Err(ChunkError::TooLarge(count));
    }
    Ok(match bytes.len() >= start + length {
        true => Next::Chunk(start, start + length),
        false => Next::Incomplete,
    })
}

/// Opens the answer to one request while it arrives.
pub struct ChunkOpener {
    aead: Aead,
    enc: Vec<u8>,
    secret: Zeroizing<Vec<u8>>,
    /// Known from the response nonce on.
    cipher: Option<ChunkCipher>,
    /// Sealed bytes that are not opened yet: at most one chunk.
    pending: Vec<u8>,
    is_last: bool,
    opened: usize,
}

impl ChunkOpener {
    pub(super) fn new(aead: Aead, enc: Vec<u8>, secret: Zeroizing<Vec<u8>>) -> Self {
        Self {
            aead,
            enc,
            secret,
            cipher: None,
            pending: Vec::new(),
            is_last: false,
            opened: 0,
        }
    }

    /// Takes sealed bytes as they arrive, in pieces of any length, and appends what they open to to `opened`.
    ///
    /// # Errors
    /// [`ChunkError`]. What was opened before is genuine, but the message will not be complete.
    pub fn push(&mut self, sealed: &[u8], opened: &mut Vec<u8>) -> Result<(), ChunkError> {
        let mut rest = sealed;
        while !rest.is_empty() {
            // Copies a chunk at a time, so that a large piece takes no more memory than one chunk.
            let (now, later) = rest.split_at(rest.len().min(MAX_CHUNK));
            self.pending.extend_from_slice(now);
            self.open_pending(opened)?;
            rest = later;
        }
        Ok(())
    }

    fn open_pending(&mut self, opened: &mut Vec<u8>) -> Result<(), ChunkError> {
        let mut at = 0;
        if self.cipher.is_none() {
            let length = response::secret_len(self.aead);
            let Some(nonce) = self.pending.get(..length) else {
                return Ok(());
            };
            let cipher = ChunkCipher::new(self.aead, &self.enc, &self.secret, nonce)?;
            self.cipher = Some(cipher);
            at = length;
        }
        let Some(cipher) = &mut self.cipher else {
            return Ok(());
        };
        while !self.is_last {
            let number = cipher.count();
            match next_chunk(&self.pending[at..], MAX_CHUNK + TAG_LEN, number)? {
                Next::Incomplete => break,
                Next::Last(start) => {
                    self.is_last = true;
                    at += start;
                }
                Next::Chunk(start, end) => {
                    let before = opened.len();
                    open_chunk(cipher, b"", &self.pending[at + start..at + end], opened)?;
                    if opened.len() == before {
                        return Err(ChunkError::Empty(number));
                    }
                    self.opened += opened.len() - before;
                    at += end;
                }
            }
            if self.opened > MAX_RESPONSE {
                return Err(ChunkError::TooLarge(number));
            }
        }
        self.pending.drain(..at);
        // The length of the last chunk is known only at its end.
        if self.is_last && self.pending.len() > MAX_CHUNK + TAG_LEN {
            return Err(ChunkError::TooLarge(cipher.count()));
        }
        Ok(())
    }

    /// Opens the last chunk at the end of the message, and appends it to `opened`.
    ///
    /// # Errors
    /// [`ChunkError::CutOff`] if it did not arrive, [`ChunkError::OpenFailed`] if it is not the last chunk of this message.
    pub fn finish(mut self, opened: &mut Vec<u8>) -> Result<(), ChunkError> {
        let Some(cipher) = self.cipher.as_mut().filter(|_| self.is_last) else {
            return Err(ChunkError::CutOff);
        };
        if self.pending.len() < TAG_LEN {
            return Err(ChunkError::CutOff);
        }
        let before = opened.len();
        open_chunk(cipher, FINAL, &self.pending, opened)?;
        match self.opened + opened.len() - before > MAX_RESPONSE {
            true => Err(ChunkError::TooLarge(cipher.count())),
            false => Ok(()),
        }
    }
}

fn open_chunk(
    cipher: &mut ChunkCipher,
    aad: &[u8],
    sealed: &[u8],
    opened: &mut Vec<u8>,
) -> Result<(), ChunkError> {
    let refused = ChunkError::OpenFailed(cipher.count());
    let (body, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(refused)?;
    let start = opened.len();
    opened.extend_from_slice(body);
    cipher
        .open(aad, &mut opened[start..], tag)
        .map_err(|_| refused)
        .inspect_err(|_| {
            opened[start..].zeroize();
            opened.truncate(start);
        })
}

/// Seals the answer to one request while it is made. Begins with [`begin`](Self::begin).
pub struct ChunkSealer {
    pub(super) aead: Aead,
    pub(super) enc: Vec<u8>,
    pub(super) secret: Zeroizing<Vec<u8>>,
}

/// Seals the parts of one answer. Holds its key: no `Debug`, no `Clone`.
pub struct ChunkWriter {
    cipher: ChunkCipher,
    sealed: usize,
}

impl ChunkSealer {
    /// Begins the answer; returns the bytes that come first.
    ///
    /// # Errors
    /// [`SealError::Internal`].
    pub fn begin(self, rng: &mut impl CryptoRng) -> Result<(Vec<u8>, ChunkWriter), SealError> {
        let mut nonce = vec![0; response::secret_len(self.aead)];
        rng.fill_bytes(&mut nonce);
        let cipher = ChunkCipher::new(self.aead, &self.enc, &self.secret, &nonce)?;
        Ok((nonce, ChunkWriter { cipher, sealed: 0 }))
    }
}

impl ChunkWriter {
    /// Seals `part`, in chunks of at most [`MAX_CHUNK`] bytes, and appends them to `sealed`. An empty part changes nothing.
    ///
    /// # Errors
    /// [`SealError::TooLarge`].
    pub fn write(&mut self, part: &[u8], sealed: &mut Vec<u8>) -> Result<(), SealError> {
        for chunk in part.chunks(MAX_CHUNK) {
            self.seal(chunk, false, sealed)?;
        }
        Ok(())
    }

    /// Seals the end of the answer, which may be empty, and appends it to `sealed`.
    ///
    /// # Errors
    /// [`SealError::TooLarge`].
    pub fn finish(mut self, end: &[u8], sealed: &mut Vec<u8>) -> Result<(), SealError> {
        let (whole, last) = split_last_chunk(end);
        self.write(whole, sealed)?;
        self.seal(last, true, sealed)
    }

    pub(super) fn seal(
        &mut self,
        chunk: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        self.sealed += chunk.len();
        if self.sealed > MAX_RESPONSE {
            return Err(SealError::TooLarge);
        }
        let cipher = &mut self.cipher;
        append_chunk(chunk, is_last, out, |aad, body| cipher.seal(aad, body))
    }
}

/// Opens all chunks of a request that has arrived as a whole. Chunks may be longer than [`MAX_CHUNK`].
pub(super) fn open_request(
    receiver: &mut dyn ChunkReceiver,
    chunks: &[u8],
) -> Result<Vec<u8>, ChunkError> {
    let mut inner = Vec::with_capacity(chunks.len());
    let (mut rest, mut count) = (chunks, 0);
    loop {
        let (aad, sealed, is_last) = match next_chunk(rest, MAX_ENCAPSULATED, count)? {
            Next::Incomplete => return Err(ChunkError::CutOff),
            Next::Last(start) => (FINAL, &rest[start..], true),
            Next::Chunk(start, end) => {
                let sealed = &rest[start..end];
                rest = &rest[end..];
                (&b""[..], sealed, false)
            }
        };
        let (body, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(match is_last {
            true => ChunkError::CutOff,
            false => ChunkError::OpenFailed(count),
        })?;
        let start = inner.len();
        inner.extend_from_slice(body);
        if receiver.open(aad, &mut inner[start..], tag).is_err() {
            inner.zeroize();
            // Nothing tells a key of another process under the same identifier from a change, as in RFC 9458.
            return Err(match count {
                0 => SealError::OpenFailed.into(),
                _ => ChunkError::OpenFailed(count),
            });
        }
        if is_last {
            return Ok(inner);
        }
        if body.is_empty() {
            return Err(ChunkError::Empty(count));
        }
        count += 1;
    }
}
