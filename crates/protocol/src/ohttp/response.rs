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
