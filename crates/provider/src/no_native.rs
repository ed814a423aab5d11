//! Processors that `graviola` does not support: `detect` returns `None`, and the type has no values, so
//! the other methods can never be called.

#[cfg(not(target_family = "wasm"))]
use zeroize::Zeroizing;

#[derive(Clone, Copy)]
pub(crate) enum Native {}

impl Native {
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    pub(crate) fn verifies_es384(self, _: &[u8], _: &[u8], _: &[u8]) -> bool {
        match self {}
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn x25519_public_key(self, _: &[u8; 32]) -> [u8; 32] {
        match self {}
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn x25519(self, _: &[u8; 32], _: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        match self {}
    }

    pub(crate) fn ed25519(self, _: &[u8; 32]) -> Option<Ed25519> {
        match self {}
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn aes256gcm(self, _: &[u8; 32]) -> Aes256Gcm {
        match self {}
    }
}

pub(crate) enum Ed25519 {}

impl Ed25519 {
    pub(crate) fn public_key(&self) -> [u8; 32] {
        match *self {}
    }

    pub(crate) fn sign(&self, _: &[u8]) -> [u8; 64] {
        match *self {}
    }
}

#[cfg(not(target_family = "wasm"))]
pub(crate) enum Aes256Gcm {}

#[cfg(not(target_family = "wasm"))]
impl Aes256Gcm {
    pub(crate) fn seal(&self, _: &[u8; 12], _: &[u8], _: &mut [u8]) -> [u8; 16] {
        match *self {}
    }

    pub(crate) fn open(&self, _: &[u8; 12], _: &[u8], _: &mut [u8], _: &[u8; 16]) -> bool {
        match *self {}
    }
}
