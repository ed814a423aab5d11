//! What a receipt says about a request and its response without saying what was in them.
//!
//! A plain hash of a short text can be found by trying texts. Both commitments are therefore salted with 32 random bytes
//! that travel inside the seal and that only the client keeps: as the field `clearseal-salt` they are a part of the request,
//! and they come first in what the response's commitment hashes.

use sha2::{Digest, Sha256};

/// Length of a salt in bytes.
pub const SALT_LEN: usize = 32;

const RESPONSE_LABEL: &[u8] = b"clearseal/1 response\0";

/// Commitment to a request: SHA-256 of the inner Binary HTTP message without its padding.
pub fn request_hash(unpadded_inner: &[u8]) -> [u8; 32] {
    Sha256::digest(unpadded_inner).into()
}

/// Commitment to a response: SHA-256("clearseal/1 response" ‖ 0x00 ‖ salt ‖ content).
pub fn response_hash(salt: &[u8; SALT_LEN], content: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(RESPONSE_LABEL)
        .chain_update(salt)
        .chain_update(content)
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
