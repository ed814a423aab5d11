//! Keys that an attested enclave generates later and signs with its receipt key, for one purpose at one moment.
//!
//! A document costs the Nitro Secure Module milliseconds. A client that has already verified one, with its own nonce,
//! may accept a fresh key signed by the receipt key that the document binds: only the attested enclave holds the private
//! half of that. The context is what the client has just sent, so an old endorsement cannot be replayed.

use provider::ed25519::VerifyingKey;

use crate::binding::{SealingKey, VerifiedAttestation};
use crate::keyconfig::KeyConfig;
use crate::time::UnixMillis;

/// Longest endorsed key list, in bytes.
pub const MAX_ENDORSED: usize = 2 * 1024;

const LABEL: &[u8] = b"clearseal/1 endorsed key\0";

/// Message that the receipt key signs: label ‖ `context` ‖ `key_list`. Receipts and tree heads never begin with this label.
pub fn endorsement_message(context: &[u8; 32], key_list: &[u8]) -> Vec<u8> {
    [LABEL, context, key_list].concat()
}

/// Why an endorsed key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum EndorsementError {
    /// The attestation that the endorsement rests on has expired.
    #[error("the attestation that the key rests on is over")]
    #[coded("ENDORSEMENT_EXPIRED", remedy = "Verify a fresh document.")]
    Expired,
    /// Not signed by the attested receipt key over this context and these keys.
    #[error("the key is not signed by the attested receipt key")]
    #[coded("ENDORSEMENT_SIGNATURE", remedy = "Suspect the relay.")]
    Signature,
    /// Not a list of known key configurations, each mechanism once.
    #[error("the endorsed key list is malformed")]
    #[coded("ENDORSEMENT_MALFORMED", remedy = "Update the older side.")]
    Malformed,
}

impl VerifiedAttestation {
    /// Keys that the enclave generated after its attestation, and signed with its receipt key over `context`.
    ///
    /// `context` must make the answer fresh: a hash over the caller's own random bytes.
    ///
    /// # Errors
    /// [`EndorsementError`].
    pub fn endorsed_keys(
        &self,
        context: &[u8; 32],
        key_list: &[u8],
        signature: &[u8; 64],
        now: UnixMillis,
    ) -> Result<Vec<SealingKey>, EndorsementError> {
        if self.clock_offset().to_enclave(now) > self.valid_until() {
            return Err(EndorsementError::Expired);
        }
        if key_list.len() > MAX_ENDORSED {
            return Err(EndorsementError::Malformed);
        }
        // Check the signature first: unsigned bytes are not parsed.
        VerifyingKey::new(self.receipt_key().bytes())
            .filter(|key| key.verify(&endorsement_message(context, key_list), signature))
            .ok_or(EndorsementError::Signature)?;
        let configs = KeyConfig::decode_list(key_list).map_err(|_| EndorsementError::Malformed)?;
        let doubled = |(at, key): (usize, &KeyConfig)| {
            configs[..at].iter().any(|before| before.kem == key.kem)
        };
        if configs.is_empty() || configs.iter().enumerate().any(doubled) {
            return Err(EndorsementError::Malformed);
        }
        Ok(configs.into_iter().map(SealingKey::attested).collect())
    }
}
