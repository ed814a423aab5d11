//! X25519 (RFC 7748 §5).

use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::native::Native;

/// Points of low order (RFC 7748 §6.1 and its references), including non-canonical encodings: the shared secret with each is
/// all zeros for every scalar.
pub const LOW_ORDER: [[u8; 32]; 5] = {
    let mut one = [0; 32];
    one[0] = 1;
    let mut prime = [0xff; 32];
    prime[0] = 0xed;
    prime[31] = 0x7f;
    let mut after = prime;
    after[0] = 0xee;
    let mut before = prime;
    before[0] = 0xec;
    [[0; 32], one, prime, after, before]
};

/// A scalar: clamped when used, and wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl Secret {
    /// The scalar of these bytes.
    #[must_use]
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    /// The bytes, as given.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The scalar times the base point.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        match Native::detect() {
            Some(native) => native.x25519_public_key(&self.0),
            None => self.portable_public_key(),
        }
    }

    /// The shared point; zeros if `point` is of low order.
    #[must_use]
    pub fn agree(&self, point: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        match Native::detect() {
            Some(native) => native.x25519(&self.0, point),
            None => self.portable_agree(point),
        }
    }

    /// Like [`public_key`](Self::public_key), always with `x25519-dalek`.
    #[must_use]
    pub fn portable_public_key(&self) -> [u8; 32] {
        PublicKey::from(&StaticSecret::from(*self.0)).to_bytes()
    }

    /// Like [`agree`](Self::agree), always with `x25519-dalek`.
    #[must_use]
    pub fn portable_agree(&self, point: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        let shared = StaticSecret::from(*self.0).diffie_hellman(&PublicKey::from(*point));
        Zeroizing::new(*shared.as_bytes())
    }
}
