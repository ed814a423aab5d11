//! Commitments of a receipt to a request and its response, which do not disclose their contents.
//!
//! The plain hash of a short text can be found by trying texts. Both commitments are therefore salted with 32 random bytes
//! that travel inside the seal and that only the client keeps: in the request they are the field `clearseal-salt`,
//! and the response's commitment hashes them first.
//!
//! The commitment to a list of embeddings also covers the root of a tree over its [items], so that one of them can
//! be disclosed without the others.

use sha2::{Digest, Sha256};

use crate::items;
use crate::terms::SALT_LEN;

const RESPONSE_LABEL: &[u8] = b"clearseal/1 response\0";
const WITH_ITEMS_LABEL: &[u8] = b"clearseal/1 response with items\0";

/// Commitment to a request: SHA-256 of the inner Binary HTTP message without its padding.
pub fn request_hash(unpadded_inner: &[u8]) -> [u8; 32] {
    Sha256::digest(unpadded_inner).into()
}

/// Commitment to a response: [`with_items`] if its content begins with a root ([`items::stated_root`]), otherwise
/// [`content_hash`].
pub fn response_hash(salt: &[u8; SALT_LEN], content: &[u8]) -> [u8; 32] {
    let content_hash = content_hash(salt, content);
    match items::stated_root(content) {
        Some(root) => with_items(&content_hash, &root),
        None => content_hash,
    }
}

/// SHA-256("clearseal/1 response" ‖ 0x00 ‖ salt ‖ content).
pub fn content_hash(salt: &[u8; SALT_LEN], content: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(RESPONSE_LABEL)
        .chain_update(salt)
        .chain_update(content)
        .finalize()
        .into()
}

/// [`content_hash`] of a content that is hashed while it is made.
#[cfg(not(target_family = "wasm"))]
pub struct ContentHash(Sha256);

#[cfg(not(target_family = "wasm"))]
impl ContentHash {
    /// The hash of an empty content.
    pub fn new(salt: &[u8; SALT_LEN]) -> Self {
        Self(
            Sha256::new()
                .chain_update(RESPONSE_LABEL)
                .chain_update(salt),
        )
    }

    /// Appends a part of the content.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The hash of the whole content.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// SHA-256("clearseal/1 response with items" ‖ 0x00 ‖ content hash ‖ root).
pub fn with_items(content_hash: &[u8; 32], root: &[u8; 32]) -> [u8; 32] {
    Sha256::new()
        .chain_update(WITH_ITEMS_LABEL)
        .chain_update(content_hash)
        .chain_update(root)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_commitment_is_the_hash_that_the_protocol_page_states() {
        let mut bytes = b"clearseal/1 response".to_vec();
        bytes.push(0);
        bytes.extend_from_slice(&[7; 32]);
        bytes.extend_from_slice(b"content");
        assert_eq!(response_hash(&[7; 32], b"content"), request_hash(&bytes));
    }

    #[test]
    fn guessing_a_short_response_fails_without_the_salt() {
        let salt = [0x5a; 32];
        let committed = response_hash(&salt, b"yes");
        let guesses: [&[u8]; 3] = [b"yes", b"no", b"maybe"];
        for guess in guesses {
            assert_ne!(
                request_hash(guess),
                committed,
                "an unsalted hash of the content must not match"
            );
            assert_ne!(
                response_hash(&[0; 32], guess),
                committed,
                "another salt must not match"
            );
        }
        assert_eq!(
            response_hash(&salt, b"yes"),
            committed,
            "who holds the salt can open it"
        );
    }
}
