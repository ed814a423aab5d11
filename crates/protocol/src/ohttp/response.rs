//! Response encryption (RFC 9458 §4.4).
//!
//! ```text
//! secret         = context.Export("message/bhttp response", max(Nn, Nk))
//! response_nonce = random(max(Nn, Nk))
//! prk            = Extract(salt = enc ‖ response_nonce, secret)
//! aead_key       = Expand(prk, "key", Nk)
//! aead_nonce     = Expand(prk, "nonce", Nn)
//! enc_response   = response_nonce ‖ Seal(aead_key, aead_nonce, aad = "", response)
//! ```

#[cfg(not(target_family = "wasm"))]
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use attestation::Aead;
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::consts::{U12, U16};
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::aead::{AeadCore, AeadInOut, Key, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use rand_core::CryptoRng;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{MAX_ENCAPSULATED_RESPONSE, SealError, TAG_LEN};

pub(super) const LABEL: &[u8] = b"message/bhttp response";

/// max(Nn, Nk) in bytes: the length of the exported secret and of the response nonce.
pub(super) const fn secret_len(aead: Aead) -> usize {
    match aead {
        Aead::Aes128Gcm => 16,
        Aead::Aes256Gcm | Aead::ChaCha20Poly1305 => 32,
    }
}

pub(super) fn seal(
    aead: Aead,
    enc: &[u8],
    secret: &[u8],
    plaintext: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<Vec<u8>, SealError> {
    if plaintext.len() > crate::inner::MAX_RESPONSE {
        return Err(SealError::TooLarge);
    }
    let start = secret_len(aead);
    let mut sealed = Vec::with_capacity(start + plaintext.len() + TAG_LEN);
    sealed.resize(start, 0);
    rng.fill_bytes(&mut sealed);
    let schedule = Schedule::new(enc, secret, &sealed);
    sealed.extend_from_slice(plaintext);
    let body = &mut sealed[start..];
    let tag = match aead {
        #[cfg(not(target_family = "wasm"))]
        Aead::Aes128Gcm => seal_as::<Aes128Gcm>(&schedule, body),
        #[cfg(not(target_family = "wasm"))]
        Aead::Aes256Gcm => seal_as::<Aes256Gcm>(&schedule, body),
        Aead::ChaCha20Poly1305 => seal_as::<ChaCha20Poly1305>(&schedule, body),
        #[cfg(target_family = "wasm")]
        Aead::Aes128Gcm | Aead::Aes256Gcm => Err(SealError::UnsupportedSuite),
    }?;
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

pub(super) fn open(
    aead: Aead,
    enc: &[u8],
    secret: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, SealError> {
    if sealed.len() > MAX_ENCAPSULATED_RESPONSE {
        return Err(SealError::TooLarge);
    }
    let (response_nonce, rest) = sealed
        .split_at_checked(secret_len(aead))
        .ok_or(SealError::Truncated)?;
    let (ciphertext, tag) = rest
        .split_last_chunk::<TAG_LEN>()
        .ok_or(SealError::Truncated)?;
    let schedule = Schedule::new(enc, secret, response_nonce);
    let mut body = ciphertext.to_vec();
    match aead {
        #[cfg(not(target_family = "wasm"))]
        Aead::Aes128Gcm => open_as::<Aes128Gcm>(&schedule, &mut body, tag),
        #[cfg(not(target_family = "wasm"))]
        Aead::Aes256Gcm => open_as::<Aes256Gcm>(&schedule, &mut body, tag),
        Aead::ChaCha20Poly1305 => open_as::<ChaCha20Poly1305>(&schedule, &mut body, tag),
        #[cfg(target_family = "wasm")]
        Aead::Aes128Gcm | Aead::Aes256Gcm => Err(SealError::UnsupportedSuite),
    }?;
    Ok(body)
}

/// `prk` of the pseudocode above.
struct Schedule(Hkdf<Sha256>);

impl Schedule {
    fn new(enc: &[u8], secret: &[u8], response_nonce: &[u8]) -> Self {
        Self(Hkdf::new(Some(&[enc, response_nonce].concat()), secret))
    }

    /// `aead_key` and `aead_nonce`. Used for one message only.
    fn cipher<C: KeyInit + AeadCore<NonceSize = U12>>(&self) -> Result<(C, Nonce<C>), SealError> {
        let mut key = Zeroizing::new(Key::<C>::default());
        let mut nonce = Nonce::<C>::default();
        self.0
            .expand(b"key", &mut key)
            .map_err(|_| SealError::Internal)?;
        self.0
            .expand(b"nonce", &mut nonce)
            .map_err(|_| SealError::Internal)?;
        Ok((C::new(&key), nonce))
    }
}

trait Cipher: KeyInit + AeadInOut + AeadCore<NonceSize = U12, TagSize = U16> {}
impl<C: KeyInit + AeadInOut + AeadCore<NonceSize = U12, TagSize = U16>> Cipher for C {}

fn seal_as<C: Cipher>(schedule: &Schedule, body: &mut [u8]) -> Result<[u8; TAG_LEN], SealError> {
    let (cipher, nonce) = schedule.cipher::<C>()?;
    let tag = cipher
        .encrypt_inout_detached(&nonce, b"", InOutBuf::from(body))
        .map_err(|_| SealError::Internal)?;
    Ok(tag.into())
}

fn open_as<C: Cipher>(
    schedule: &Schedule,
    body: &mut [u8],
    tag: &[u8; TAG_LEN],
) -> Result<(), SealError> {
    let (cipher, nonce) = schedule.cipher::<C>()?;
    let tag: &Tag<C> = tag.into();
    cipher
        .decrypt_inout_detached(&nonce, b"", InOutBuf::from(body), tag)
        .map_err(|_| SealError::OpenFailed)
}

/// The key of a response in chunks, and the number of the next one.
#[cfg(not(target_family = "wasm"))]
pub(super) struct ChunkCipher {
    cipher: Box<dyn NonceCipher>,
    nonce: [u8; NONCE_LEN],
    count: u64,
}

#[cfg(not(target_family = "wasm"))]
const NONCE_LEN: usize = 12;

#[cfg(not(target_family = "wasm"))]
impl ChunkCipher {
    pub(super) fn new(
        aead: Aead,
        enc: &[u8],
        secret: &[u8],
        response_nonce: &[u8],
    ) -> Result<Self, SealError> {
        let schedule = Schedule::new(enc, secret, response_nonce);
        match aead {
            Aead::Aes128Gcm => Self::of::<Aes128Gcm>(&schedule),
            Aead::Aes256Gcm => Self::of::<Aes256Gcm>(&schedule),
            Aead::ChaCha20Poly1305 => Self::of::<ChaCha20Poly1305>(&schedule),
        }
    }

    fn of<C: Cipher + Send + 'static>(schedule: &Schedule) -> Result<Self, SealError> {
        let (cipher, nonce) = schedule.cipher::<C>()?;
        Ok(Self {
            cipher: Box::new(cipher),
            nonce: nonce.into(),
            count: 0,
        })
    }

    /// Number of chunks so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// `aead_nonce` XOR the counter, which fills its last eight bytes.
    fn next_nonce(&mut self) -> Result<[u8; NONCE_LEN], SealError> {
        let mut nonce = self.nonce;
        for (byte, count) in nonce.iter_mut().rev().zip(self.count.to_le_bytes()) {
            *byte ^= count;
        }
        self.count = self.count.checked_add(1).ok_or(SealError::Internal)?;
        Ok(nonce)
    }

    pub(super) fn seal(
        &mut self,
        aad: &[u8],
        chunk: &mut [u8],
    ) -> Result<[u8; TAG_LEN], SealError> {
        let nonce = self.next_nonce()?;
        self.cipher.seal(&nonce, aad, chunk)
    }

    pub(super) fn open(
        &mut self,
        aad: &[u8],
        chunk: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), SealError> {
        let nonce = self.next_nonce()?;
        self.cipher.open(&nonce, aad, chunk, tag)
    }
}

/// A cipher whose nonce is given.
#[cfg(not(target_family = "wasm"))]
trait NonceCipher: Send {
    fn seal(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        chunk: &mut [u8],
    ) -> Result<[u8; TAG_LEN], SealError>;

    fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        chunk: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), SealError>;
}

#[cfg(not(target_family = "wasm"))]
impl<C: Cipher + Send> NonceCipher for C {
    fn seal(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        chunk: &mut [u8],
    ) -> Result<[u8; TAG_LEN], SealError> {
        let nonce: &Nonce<C> = nonce.into();
        let tag = self.encrypt_inout_detached(nonce, aad, InOutBuf::from(chunk));
        Ok(tag.map_err(|_| SealError::Internal)?.into())
    }

    fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        chunk: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), SealError> {
        let (nonce, tag): (&Nonce<C>, &Tag<C>) = (nonce.into(), tag.into());
        self.decrypt_inout_detached(nonce, aad, InOutBuf::from(chunk), tag)
            .map_err(|_| SealError::OpenFailed)
    }
}
