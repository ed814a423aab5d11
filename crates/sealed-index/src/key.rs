//! The client's secret, and what is derived from it.

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64UrlUnpadded, Encoding};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::Hash;
use crate::error::IndexError;

/// 32 random bytes that a client makes for one index. Zeroized when dropped; no `Debug`, no `Clone`.
///
/// It lives on the heap: moving it copies a pointer, and leaves no copy of the secret on the stack.
pub struct IndexKey(Box<Zeroizing<[u8; 32]>>);

impl IndexKey {
    /// Copies a key; the caller wipes its own copy.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        let mut key = Box::new(Zeroizing::new([0; 32]));
        key.copy_from_slice(bytes);
        Self(key)
    }

    /// Reads a key from base64url without padding, 43 characters.
    ///
    /// # Errors
    /// [`IndexError::KeyMalformed`].
    pub fn from_base64url(text: &str) -> Result<Self, IndexError> {
        let mut key = Box::new(Zeroizing::new([0; 32]));
        match Base64UrlUnpadded::decode(text, &mut **key) {
            Ok(bytes) if bytes.len() == 32 => Ok(Self(key)),
            _ => Err(IndexError::KeyMalformed),
        }
    }

    /// The key in base64url without padding.
    #[must_use]
    pub fn to_base64url(&self) -> Zeroizing<String> {
        Zeroizing::new(Base64UrlUnpadded::encode_string(&**self.0))
    }

    /// The public name of the index.
    #[must_use]
    pub fn id(&self) -> IndexId {
        let derived = self.derive(&[], b"clearseal/1 index id");
        let mut id = [0; 16];
        id.copy_from_slice(&derived[..16]);
        IndexId(id)
    }

    /// HKDF-SHA256(salt, key, label), 32 bytes.
    pub(crate) fn derive(&self, salt: &[u8], label: &[u8]) -> Zeroizing<[u8; 32]> {
        expand(&Hkdf::new(Some(salt), self.0.as_slice()), &[label])
    }

    pub(crate) fn row_secrets(&self) -> RowSecrets {
        RowSecrets {
            id_salt: *self.derive(&[], b"clearseal/1 index ids"),
            rows: self.derive(&[], b"clearseal/1 index rows"),
        }
    }
}

fn expand(hkdf: &Hkdf<Sha256>, label: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut bytes = Zeroizing::new([0; 32]);
    // Fails only for more than 255 hash lengths of output.
    if hkdf.expand_multi_info(label, &mut *bytes).is_err() {
        bytes.fill(0);
    }
    bytes
}

/// Salts of the commitments to rows, so that a root reveals nothing about them.
pub(crate) struct RowSecrets {
    /// Of all ids. Part of every proof.
    pub(crate) id_salt: Hash,
    /// From which the salt of each row is derived.
    rows: Zeroizing<[u8; 32]>,
}

impl RowSecrets {
    /// Of the row `id` as version `version` wrote it.
    pub(crate) fn row_salt(&self, version: u64, id: &str) -> Zeroizing<Hash> {
        let rows = Hkdf::new(None, self.rows.as_slice());
        expand(&rows, &[&version.to_be_bytes(), id.as_bytes()])
    }
}

/// The public name of an index: 16 bytes that are derived from its key, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId([u8; 16]);

impl IndexId {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for IndexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base16ct::lower::encode_string(&self.0))
    }
}

impl fmt::Debug for IndexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for IndexId {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        let mut id = [0; 16];
        match base16ct::lower::decode(text, &mut id) {
            Ok(bytes) if bytes.len() == 16 => Ok(Self(id)),
            _ => Err(IndexError::IdMalformed),
        }
    }
}

impl serde::Serialize for IndexId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for IndexId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
