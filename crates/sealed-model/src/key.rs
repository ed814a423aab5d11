//! Secrets: the data key, and the keys derived from it for one container.

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

/// 32 bytes from which the keys of a sealed model are derived. Zeroized when dropped; no `Debug`, no `Clone`.
///
/// It lives on the heap: moving it copies a pointer, and leaves no copy of the secret on the stack.
pub struct DataKey(Box<Zeroizing<[u8; 32]>>);

impl DataKey {
    /// Copies a key; the caller wipes its own copy.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let mut key = Box::new(Zeroizing::new([0; 32]));
        key.copy_from_slice(bytes);
        Self(key)
    }

    /// The secret bytes, for key derivation.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Label of the derivation (RFC 5869, `info`).
const LABEL: &[u8] = b"clearseal/1 model";

/// ```text
/// key (32) ‖ nonce prefix (7) ‖ commitment (32) = HKDF-SHA256(salt, data key, "clearseal/1 model", 71)
/// ```
pub(crate) struct Derived(Zeroizing<[u8; 71]>);

impl Derived {
    pub(crate) fn new(key: &DataKey, salt: &[u8; 32]) -> Self {
        let mut bytes = Zeroizing::new([0; 71]);
        // Fails only for more than 255 hash lengths of output. Zeros would then match no commitment of a real container.
        if Hkdf::<Sha256>::new(Some(salt), key.expose())
            .expand(LABEL, &mut *bytes)
            .is_err()
        {
            bytes.fill(0);
        }
        Self(bytes)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.0[..32]
    }

    pub(crate) fn prefix(&self) -> &[u8] {
        &self.0[32..39]
    }

    /// Public: another output of HKDF reveals nothing about the key.
    pub(crate) fn commitment(&self) -> &[u8] {
        &self.0[39..]
    }
}
