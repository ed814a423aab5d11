//! One request sealed to several enclaves: any of them with free capacity can answer it, and a fail-over needs no new attestation.
//!
//! ```text
//! ┌──────────┬──────────┬─────────┬──────────────────────────────────────────────┬─────────────┐
//! │ version 1│ AEAD u16 │ count u8│ count × (name 8 bytes, length u16, sealed head)│ sealed rest │   integers big-endian
//! └──────────┴──────────┴─────────┴──────────────────────────────────────────────┴─────────────┘
//! ```
//!
//! A candidate's *name* is the first 8 bytes of SHA-256 of its manifest. Its *sealed head* is an encapsulated request (RFC 9458
//! §4.3) under a separate label, so that it is never mistaken for an ordinary one. It contains the 32-byte key of the
//! content, and the beginning of the inner request: the fields that differ between candidates, including each one's
//! document. The *rest* of the inner request is equal for all, and sealed once under the content's key, with
//! everything before it as associated data. The key seals one message, so its nonce is zero.
//!
//! A candidate opens head ‖ rest: the inner request that would have been sealed to it alone. Terms, replay
//! window, receipt and commitments therefore stay the ordinary ones. The answer is the candidate's name and an encapsulated response
//! (RFC 9458 §4.4). A host can have each candidate compute a request once, just as it could repeat a request whose
//! answer was lost. It learns the number and the names of the candidates.

use aes_gcm::Aes256Gcm;
use attestation::{Aead, SealingKey};
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::consts::{U12, U16, U32};
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::aead::{AeadCore, AeadInOut, Key, KeyInit, KeySizeUser, Nonce, Tag};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::ohttp::{Envelope, GatewayKeys, Opened, ResponseOpener, ResponseSealer, SealError};

/// Media type of such a request.
pub const REQUEST_MEDIA_TYPE: &str = "message/clearseal-candidates-req";
/// Media type of its answer.
pub const RESPONSE_MEDIA_TYPE: &str = "message/clearseal-candidates-res";
/// Most candidates of one request.
pub const MAX_CANDIDATES: usize = 8;

/// First bytes of SHA-256 of a manifest. Identifies an enclave without authenticating it.
pub type Name = [u8; 8];

const VERSION: u8 = 1;
const HEAD: usize = 4;
const KEY: usize = 32;
const TAG: usize = 16;
/// Label that replaces RFC 9458's.
const LABEL: &[u8] = b"message/clearseal-candidates request\0";

/// An enclave that may answer.
pub struct Candidate<'a> {
    /// Its name.
    pub name: Name,
    /// Its key.
    pub key: &'a SealingKey,
    /// Beginning of the inner request for it.
    pub head: &'a [u8],
}

/// Seals `rest` once, and its key and each head to their candidates; returns an opener for each one's answer, in order.
///
/// # Errors
/// [`SealError::Malformed`] if there is no candidate, or more than [`MAX_CANDIDATES`]; otherwise those of
/// [`encapsulate`](crate::ohttp::encapsulate).
pub fn seal(
    candidates: &[Candidate<'_>],
    preference: &[Aead],
    rest: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, Vec<ResponseOpener>), SealError> {
    let aead = preference
        .iter()
        .copied()
        .find(|aead| Content::of(*aead).is_some())
        .ok_or(SealError::UnsupportedSuite)?;
    let content = Content::of(aead).ok_or(SealError::UnsupportedSuite)?;
    let count = u8::try_from(candidates.len()).map_err(|_| SealError::Malformed)?;
    if !(1..=MAX_CANDIDATES).contains(&candidates.len()) {
        return Err(SealError::Malformed);
    }
    let mut key = Zeroizing::new([0; KEY]);
    rng.fill_bytes(key.as_mut_slice());
    let [high, low] = aead.id().to_be_bytes();
    let mut sealed = vec![VERSION, high, low, count];
    let mut openers = Vec::with_capacity(candidates.len());
    for Candidate {
        name,
        key: to,
        head,
    } in candidates
    {
        let envelope = Envelope::labelled(to, preference, LABEL, rng)?;
        let mut plain = Zeroizing::new(Vec::with_capacity(KEY + head.len()));
        plain.extend_from_slice(key.as_slice());
        plain.extend_from_slice(head);
        let (entry, opener) = envelope.seal(&plain)?;
        let length = u16::try_from(entry.len()).map_err(|_| SealError::TooLarge)?;
        sealed.extend_from_slice(name);
        sealed.extend_from_slice(&length.to_be_bytes());
        sealed.extend_from_slice(&entry);
        openers.push(opener);
    }
    let start = sealed.len();
    sealed.extend_from_slice(rest);
    let (before, body) = sealed.split_at_mut(start);
    let tag = content.seal(&key, before, body)?;
    sealed.extend_from_slice(&tag);
    match sealed.len() > crate::ohttp::MAX_ENCAPSULATED {
        true => Err(SealError::TooLarge),
        false => Ok((sealed, openers)),
    }
}

/// A sealed request, parsed but not opened.
pub struct Sealed<'a> {
    content: Content,
    entries: Vec<(Name, &'a [u8])>,
    /// Everything before the rest.
    before: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Sealed<'a> {
    /// Parses a request. All lengths are checked against the available bytes.
    ///
    /// # Errors
    /// [`SealError::Malformed`], [`SealError::Truncated`], [`SealError::TooLarge`], [`SealError::UnsupportedSuite`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SealError> {
        if bytes.len() > crate::ohttp::MAX_ENCAPSULATED {
            return Err(SealError::TooLarge);
        }
        let (&[version, high, low, count], mut left) = bytes
            .split_first_chunk::<HEAD>()
            .ok_or(SealError::Truncated)?;
        let count = usize::from(count);
        if version != VERSION || !(1..=MAX_CANDIDATES).contains(&count) {
            return Err(SealError::Malformed);
        }
        let aead = Aead::from_id(u16::from_be_bytes([high, low]));
        let content = aead
            .and_then(Content::of)
            .ok_or(SealError::UnsupportedSuite)?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let (name, rest) = left.split_first_chunk().ok_or(SealError::Truncated)?;
            let (length, rest) = rest.split_first_chunk().ok_or(SealError::Truncated)?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (entry, rest) = rest.split_at_checked(length).ok_or(SealError::Truncated)?;
            // Two entries with one name could be opened to two different requests.
            if entries.iter().any(|(known, _)| known == name) {
                return Err(SealError::Malformed);
            }
            entries.push((*name, entry));
            left = rest;
        }
        let (before, rest) = bytes.split_at(bytes.len() - left.len());
        Ok(Self {
            content,
            entries,
            before,
            rest,
        })
    }

    /// The candidates' names, in the sender's order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.entries.iter().map(|(name, _)| name)
    }

    /// Opens the inner request with the keys of the enclave named `name`.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] if it is not a candidate; otherwise those of [`GatewayKeys::open`].
    pub fn open(
        &self,
        name: &Name,
        keys: &GatewayKeys,
    ) -> Result<(Opened, ResponseSealer), SealError> {
        let entry = self.entry(name).ok_or(SealError::UnknownKey(0))?;
        let (opened, sealer) = keys.open_labelled(entry, LABEL)?;
        let Opened { inner, enc } = opened;
        let plain = Zeroizing::new(inner);
        let (key, head) = plain
            .split_first_chunk::<KEY>()
            .ok_or(SealError::Malformed)?;
        let (body, tag) = self
            .rest
            .split_last_chunk::<TAG>()
            .ok_or(SealError::Truncated)?;
        if head.len() + body.len() > crate::inner::MAX_REQUEST {
            return Err(SealError::TooLarge);
        }
        // Allocated at its full length: growing would leave copies in freed memory.
        let mut inner = Vec::with_capacity(head.len() + body.len());
        inner.extend_from_slice(head);
        inner.extend_from_slice(body);
        self.content
            .open(key, self.before, &mut inner[head.len()..], tag)?;
        Ok((Opened { inner, enc }, sealer))
    }

    fn entry(&self, name: &Name) -> Option<&'a [u8]> {
        let found = self.entries.iter().find(|(known, _)| known == name);
        found.map(|(_, entry)| *entry)
    }
}

/// Encodes an answer: the candidate's name, and the encapsulated response.
pub fn answer(name: &Name, response: &[u8]) -> Vec<u8> {
    [&name[..], response].concat()
}

/// The unverified name of the answering candidate, and the encapsulated response.
///
/// # Errors
/// [`SealError::Truncated`].
pub fn split_answer(bytes: &[u8]) -> Result<(&Name, &[u8]), SealError> {
    bytes.split_first_chunk().ok_or(SealError::Truncated)
}

/// The cipher of the rest.
#[derive(Clone, Copy)]
enum Content {
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Content {
    /// Only ciphers with keys of 32 bytes.
    fn of(aead: Aead) -> Option<Self> {
        match aead {
            Aead::Aes256Gcm => Some(Self::Aes256Gcm),
            Aead::ChaCha20Poly1305 => Some(Self::ChaCha20Poly1305),
            Aead::Aes128Gcm => None,
        }
    }

    fn seal(self, key: &[u8; KEY], aad: &[u8], body: &mut [u8]) -> Result<[u8; TAG], SealError> {
        match self {
            Self::Aes256Gcm => seal_as::<Aes256Gcm>(key, aad, body),
            Self::ChaCha20Poly1305 => seal_as::<ChaCha20Poly1305>(key, aad, body),
        }
    }

    fn open(
        self,
        key: &[u8; KEY],
        aad: &[u8],
        body: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), SealError> {
        match self {
            Self::Aes256Gcm => open_as::<Aes256Gcm>(key, aad, body, tag),
            Self::ChaCha20Poly1305 => open_as::<ChaCha20Poly1305>(key, aad, body, tag),
        }
    }
}

trait Cipher:
    KeyInit + KeySizeUser<KeySize = U32> + AeadInOut + AeadCore<NonceSize = U12, TagSize = U16>
{
}
impl<C> Cipher for C where
    C: KeyInit + KeySizeUser<KeySize = U32> + AeadInOut + AeadCore<NonceSize = U12, TagSize = U16>
{
}

fn seal_as<C: Cipher>(
    key: &[u8; KEY],
    aad: &[u8],
    body: &mut [u8],
) -> Result<[u8; TAG], SealError> {
    let key: &Key<C> = key.into();
    let tag = C::new(key)
        .encrypt_inout_detached(&Nonce::<C>::default(), aad, InOutBuf::from(body))
        .map_err(|_| SealError::Internal)?;
    Ok(tag.into())
}

fn open_as<C: Cipher>(
    key: &[u8; KEY],
    aad: &[u8],
    body: &mut [u8],
    tag: &[u8; TAG],
) -> Result<(), SealError> {
    let (key, tag): (&Key<C>, &Tag<C>) = (key.into(), tag.into());
    C::new(key)
        .decrypt_inout_detached(&Nonce::<C>::default(), aad, InOutBuf::from(body), tag)
        .map_err(|_| SealError::OpenFailed)
}
