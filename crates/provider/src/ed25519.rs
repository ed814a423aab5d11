//! Ed25519 (RFC 8032 §5.1), verified strictly.
//!
//! `graviola` signs twice as fast, and gives the same bytes: the scheme is deterministic. It would not verify faster: with the
//! additional strict checks, verification takes as long there as here.

use ed25519_dalek::{Signature, Signer};

use crate::native::{self, Native};

/// A public key: a canonical point (RFC 8032 §5.1.3: a coordinate of p or more is not an encoding), not of small order
/// (RFC 7748 §7 explains why).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// `None` if the bytes are not such a point.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Option<Self> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).ok()?;
        let canonical = key.to_edwards().compress().as_bytes() == bytes;
        (canonical && !key.is_weak()).then_some(Self(key))
    }

    /// Whether this key signed `message`. Strict: canonical S, no point of small order, no cofactor, so that two verifiers
    /// never disagree. Anything but 64 bytes is refused.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }
}

/// A private key. No `Debug`, no `Clone`; wiped when dropped.
pub struct SigningKey(Implementation);

enum Implementation {
    Native(native::Ed25519),
    Portable(Box<ed25519_dalek::SigningKey>),
}

impl SigningKey {
    /// The key of RFC 8032's 32 secret bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        match Native::detect().and_then(|native| native.ed25519(seed)) {
            Some(key) => Self(Implementation::Native(key)),
            None => Self::portable(seed),
        }
    }

    /// Like [`from_seed`](Self::from_seed), always with `ed25519-dalek`, which also runs on processors that `graviola` does not support.
    #[must_use]
    pub fn portable(seed: &[u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(seed);
        Self(Implementation::Portable(Box::new(key)))
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        match &self.0 {
            Implementation::Native(key) => key.public_key(),
            Implementation::Portable(key) => key.verifying_key().to_bytes(),
        }
    }

    /// Signs `message`.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        match &self.0 {
            Implementation::Native(key) => key.sign(message),
            Implementation::Portable(key) => key.sign(message).to_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    fn wipes<T: zeroize::ZeroizeOnDrop>() {}

    #[test]
    fn the_portable_key_wipes_itself() {
        wipes::<ed25519_dalek::SigningKey>();
    }
}
