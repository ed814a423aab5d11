//! Leaves, heads and proofs as JSON. Hashes are lowercase hex, all longer values base64url without padding; unknown
//! members are refused. A head's contents (size, root, time) are read only from its signed bytes.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Hash;

/// Longest JSON of a proof or a head with its evidence, in bytes.
pub const MAX_JSON: usize = 256 * 1024;

/// A message that names its format.
pub trait Message: Serialize + DeserializeOwned {
    /// Value of the member `format`.
    const FORMAT: &'static str;
    /// Longest JSON in bytes.
    const LIMIT: usize = MAX_JSON;
}

/// JSON of another format than expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error("this is not JSON of format {0}")]
#[coded(
    "LOG_JSON_MALFORMED",
    remedy = "Check that all of it was copied, and nothing else."
)]
pub struct FormatError(pub &'static str);

/// Member `format`, the first of every message: writes the format's name, and accepts no other.
pub struct Format<T>(PhantomData<fn() -> T>);

impl<T> Format<T> {
    /// The only value.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Format<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Format<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Format<T> {}

impl<T> PartialEq for Format<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Format<T> {}

impl<T: Message> fmt::Debug for Format<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::FORMAT)
    }
}

impl<T: Message> Serialize for Format<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(T::FORMAT)
    }
}

impl<'de, T: Message> Deserialize<'de> for Format<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if String::deserialize(deserializer)? == T::FORMAT {
            Ok(Self::new())
        } else {
            Err(serde::de::Error::custom("another format"))
        }
    }
}

/// Reads a message.
///
/// # Errors
/// [`FormatError`].
pub fn from_json<T: Message>(json: &[u8]) -> Result<T, FormatError> {
    if json.len() > T::LIMIT {
        return Err(FormatError(T::FORMAT));
    }
    // An editor may have written a byte order mark.
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    serde_json::from_slice(json).map_err(|_| FormatError(T::FORMAT))
}

/// Writes a message.
///
/// # Errors
/// [`FormatError`]; never for the types of this module.
pub fn to_json<T: Message>(message: &T) -> Result<String, FormatError> {
    serde_json::to_string(message).map_err(|_| FormatError(T::FORMAT))
}

/// Proof that a receipt, or the log's keys, are in a tree: a host's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inclusion {
    /// See [`Message::FORMAT`].
    pub format: Format<Self>,
    /// Number of the leaf: the receipt's sequence number, 0 for the keys.
    pub index: u64,
    /// Path from the leaf to the root (RFC 9162 §2.1.3.1).
    #[serde(with = "hex_list")]
    pub path: Vec<Hash>,
    /// The signed head of the tree.
    #[serde(with = "base64url")]
    pub head: Vec<u8>,
}

/// Proof that one tree is the start of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consistency {
    /// See [`Message::FORMAT`].
    pub format: Format<Self>,
    /// Size of the earlier tree.
    pub from: u64,
    /// Size of the later tree.
    pub to: u64,
    /// RFC 9162 §2.1.4.1.
    #[serde(with = "hex_list")]
    pub path: Vec<Hash>,
}

/// A signed head with the evidence for the key that signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedHead {
    /// See [`Message::FORMAT`].
    pub format: Format<Self>,
    /// The head.
    #[serde(with = "base64url")]
    pub head: Vec<u8>,
    /// The attestation document that it names.
    #[serde(with = "base64url")]
    pub document: Vec<u8>,
    /// The service manifest that the document binds; holds the key.
    #[serde(with = "base64url")]
    pub manifest: Vec<u8>,
}

/// The logs that an enclave keeps, sent to its host: one for each receipt key in use, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// See [`Message::FORMAT`].
    pub format: Format<Self>,
    /// Names of the logs.
    #[serde(with = "hex_list")]
    pub logs: Vec<Hash>,
}

/// A part of a log, sent to the host by the enclave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaves {
    /// See [`Message::FORMAT`].
    pub format: Format<Self>,
    /// Number of the first leaf.
    pub from: u64,
    /// Data of the leaves, one after the other.
    #[serde(with = "hash_run")]
    pub leaves: Vec<Hash>,
    /// The head of the whole log, and its evidence.
    pub head: SignedHead,
}

/// Most leaves in one answer.
pub const MAX_LEAVES: usize = 8192;

impl Message for Inclusion {
    const FORMAT: &'static str = "clearseal-log-inclusion/1";
}
impl Message for Consistency {
    const FORMAT: &'static str = "clearseal-log-consistency/1";
}
impl Message for SignedHead {
    const FORMAT: &'static str = "clearseal-log-head/1";
}
impl Message for Logs {
    const FORMAT: &'static str = "clearseal-logs/1";
}
impl Message for Leaves {
    const FORMAT: &'static str = "clearseal-log-leaves/1";
    // Leaves are 43 characters each.
    const LIMIT: usize = MAX_JSON + MAX_LEAVES * 43;
}

/// A hash in lowercase hex, as in the names of logs.
pub fn hex(hash: &Hash) -> String {
    base16ct::lower::encode_string(hash)
}

/// Reverse of [`hex`]; lowercase only.
pub fn from_hex(text: &str) -> Option<Hash> {
    // The length is checked before anything is decoded.
    (text.len() == 64).then(|| base16ct::lower::decode_vec(text).ok()?.try_into().ok())?
}

mod hex_list {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Hash;
    use crate::MAX_PATH;

    pub(super) fn serialize<S: Serializer>(
        hashes: &[Hash],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(hashes.iter().map(super::hex))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Hash>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        if texts.len() > MAX_PATH {
            return Err(D::Error::custom("too many hashes"));
        }
        let hash = |text: &String| super::from_hex(text).ok_or_else(|| D::Error::custom("no hash"));
        texts.iter().map(hash).collect()
    }
}

mod base64url {
    use base64ct::{Base64UrlUnpadded, Encoding};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Base64UrlUnpadded::encode_string(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Base64UrlUnpadded::decode_vec(&text).map_err(|_| D::Error::custom("no base64url"))
    }
}

mod hash_run {
    use serde::{Deserializer, Serializer, de::Error};

    use super::Hash;

    pub(super) fn serialize<S: Serializer>(
        hashes: &[Hash],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::base64url::serialize(hashes.as_flattened(), serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Hash>, D::Error> {
        let bytes = super::base64url::deserialize(deserializer)?;
        match bytes.as_chunks() {
            (hashes, []) => Ok(hashes.to_vec()),
            _ => Err(D::Error::custom("not a whole number of hashes")),
        }
    }
}
