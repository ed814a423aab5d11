//! AES-256-GCM (NIST SP 800-38D), in place.

use aes_gcm::KeyInit;
use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::inout::InOutBuf;

use crate::native::{self, Native};

/// Bytes of a tag.
pub const TAG: usize = 16;

/// Longest plaintext for one key and nonce, in bytes (SP 800-38D §5.2.1.1): 2³⁶ − 32.
pub const MAX_LENGTH: u64 = (1 << 36) - 32;

/// Not sealed with this key, or changed since; or longer than [`MAX_LENGTH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AeadError;

/// An expanded key. No `Debug`, no `Clone`; wiped when dropped.
pub struct Aes256Gcm(Implementation);

enum Implementation {
    Native(native::Aes256Gcm),
    Portable(Box<aes_gcm::Aes256Gcm>),
}

impl Aes256Gcm {
    /// Expands a key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        match Native::detect() {
            Some(native) => Self(Implementation::Native(native.aes256gcm(key))),
            None => Self::portable(key),
        }
    }

    /// Like [`new`](Self::new), always with `aes-gcm`, which also runs on processors that `graviola` does not support.
    #[must_use]
    pub fn portable(key: &[u8; 32]) -> Self {
        let key = aes_gcm::Aes256Gcm::new(key.into());
        Self(Implementation::Portable(Box::new(key)))
    }

    /// Encrypts `payload` in place; returns the tag over it and `aad`.
    ///
    /// # Errors
    /// [`AeadError`] if the payload is too long.
    pub fn seal(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        payload: &mut [u8],
    ) -> Result<[u8; TAG], AeadError> {
        check_length(payload)?;
        match &self.0 {
            Implementation::Native(key) => Ok(key.seal(nonce, aad, payload)),
            Implementation::Portable(key) => key
                .encrypt_inout_detached(nonce.into(), aad, InOutBuf::from(payload))
                .map(Into::into)
                .map_err(|_| AeadError),
        }
    }

    /// Decrypts `payload` in place, if it and `aad` are unchanged.
    ///
    /// # Errors
    /// [`AeadError`]; the contents of `payload` are then unspecified.
    pub fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        payload: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), AeadError> {
        check_length(payload)?;
        match &self.0 {
            Implementation::Native(key) => key
                .open(nonce, aad, payload, tag)
                .then_some(())
                .ok_or(AeadError),
            Implementation::Portable(key) => key
                .decrypt_inout_detached(nonce.into(), aad, InOutBuf::from(payload), tag.into())
                .map_err(|_| AeadError),
        }
    }
}

fn check_length(payload: &[u8]) -> Result<(), AeadError> {
    match u64::try_from(payload.len()) {
        Ok(length) if length <= MAX_LENGTH => Ok(()),
        _ => Err(AeadError),
    }
}
