//! The secret that a release is about.

use zeroize::Zeroizing;

/// 32 bytes from which the keys of a sealed model are derived. Zeroized when dropped.
///
/// It lives on the heap: moving it copies a pointer, and leaves no copy of the secret on the stack.
pub struct DataKey(Box<Zeroizing<[u8; 32]>>);

impl DataKey {
    /// Copies a key; the caller clears its own copy.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let mut key = Box::new(Zeroizing::new([0; 32]));
        key.copy_from_slice(bytes);
        Self(key)
    }

    /// The key itself, to derive others from.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}
