//! Oblivious HTTP encapsulation (RFC 9458 §4): one request, one response, each sealed.
//!
//! ```text
//! hdr         = key_id (1) ‖ kem_id (2) ‖ kdf_id (2) ‖ aead_id (2)
//! info        = "message/bhttp request" ‖ 0x00 ‖ hdr
//! enc, sctxt  = SetupBaseS(pkR, info)
//! enc_request = hdr ‖ enc ‖ sctxt.Seal(aad = "", request)                                    §4.3
//! ```
//!
//! The client ([`encapsulate`]) gets the sealed bytes and the only object that can open the answer; the gateway
//! ([`GatewayKeys::open`]) gets the request and the only object that can seal the answer. Keys come only from a
//! `VerifiedAttestation`.

#[cfg(not(target_family = "wasm"))]
pub mod chunked;
mod gateway;
mod response;
mod suite;
#[cfg(test)]
mod tests;

use attestation::{Aead, SealingKey};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

// Both give the same bytes (`tests/x_wing.rs`); pages use the one that loads faster.
#[cfg(not(target_family = "wasm"))]
use crate::{x_wing::XWing, x25519::X25519};
#[cfg(target_family = "wasm")]
use hpke::kem::{X25519HkdfSha256 as X25519, XWing};

pub use gateway::{GatewayKeys, Opened, ResponseSealer};
use suite::Suite;

/// Media type of an encapsulated request.
pub const REQUEST_MEDIA_TYPE: &str = "message/ohttp-req";
/// Media type of an encapsulated response.
pub const RESPONSE_MEDIA_TYPE: &str = "message/ohttp-res";
/// Problem type of a request under a key that the gateway does not hold (RFC 9458 §5.3).
pub const KEY_PROBLEM_TYPE: &str = "https://iana.org/assignments/http-problem-types#ohttp-key";
/// Longest encapsulated request in bytes.
pub const MAX_ENCAPSULATED: usize = HEADER_LEN + LONGEST_ENC + crate::inner::MAX_REQUEST + TAG_LEN;
/// Longest encapsulated response in bytes: a nonce as long as the longest key, the response, the tag.
pub const MAX_ENCAPSULATED_RESPONSE: usize = 32 + crate::inner::MAX_RESPONSE + TAG_LEN;

// RFC 9458 §4.3: key identifier, then KEM, KDF and AEAD identifiers of two bytes each.
const HEADER_LEN: usize = 7;
const LONGEST_ENC: usize = 1120;
const TAG_LEN: usize = 16;
const REQUEST_LABEL: &[u8] = b"message/bhttp request\0";

/// Why a message could not be sealed or opened. Reveals nothing about its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum SealError {
    /// The key identifier names no key of this gateway.
    #[error("no key has the identifier {0}")]
    #[coded("KEY_UNKNOWN", remedy = "Fetch fresh evidence and seal again.")]
    UnknownKey(u8),
    /// Key encapsulation, derivation or encryption that the key does not offer.
    #[error("the key does not offer this suite")]
    #[coded(
        "SEAL_UNSUPPORTED_SUITE",
        remedy = "Use a suite that the key configuration lists."
    )]
    UnsupportedSuite,
    /// A key that is not a curve point or an ML-KEM key, or whose shared secret would be all zero.
    #[error("the key is not usable for encapsulation")]
    #[coded(
        "SEAL_BAD_KEY",
        remedy = "Fetch fresh evidence, and suspect the party that relays it."
    )]
    BadKey,
    /// Parts that do not belong together.
    #[error("the sealed message is malformed")]
    #[coded("SEAL_MALFORMED", remedy = "Update the older side.")]
    Malformed,
    /// Too few bytes.
    #[error("the sealed message is cut off")]
    #[coded("SEAL_TRUNCATED", remedy = "Send the message again.")]
    Truncated,
    /// Over [`MAX_ENCAPSULATED`] or [`MAX_ENCAPSULATED_RESPONSE`].
    #[error("the sealed message is over the limit of 4 MiB")]
    #[coded("SEAL_TOO_LARGE", remedy = "Send less in one request.")]
    TooLarge,
    /// The authentication tag is wrong: changed, for another key, or of another exchange.
    #[error("the sealed message cannot be opened")]
    #[coded(
        "SEAL_OPEN_FAILED",
        remedy = "Discard the message and ask again; it was changed or belongs to another exchange."
    )]
    OpenFailed,
    /// A primitive refused lengths that it always accepts.
    #[error("sealing failed inside a cryptographic primitive")]
    #[coded("SEAL_INTERNAL", remedy = "Report this as a defect.")]
    Internal,
}

/// Seals `inner` to `key`, under the first encryption of `preference` that the key offers.
///
/// Returns the encapsulated request (RFC 9458 §4.3) and the only object that can open its answer.
///
/// # Errors
/// [`SealError::TooLarge`], [`SealError::UnsupportedSuite`] if the key offers nothing in `preference`,
/// [`SealError::BadKey`] for low-order points and malformed keys.
pub fn encapsulate(
    key: &SealingKey,
    preference: &[Aead],
    inner: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, ResponseOpener), SealError> {
    Envelope::new(key, preference, rng)?.seal(inner)
}

/// A key that was encapsulated ahead of its message: the slowest step does not depend on the message.
///
/// Good for one message. Holds that message's key: no `Debug`, no `Clone`.
pub struct Envelope {
    header: [u8; HEADER_LEN],
    aead: Aead,
    enc: Vec<u8>,
    sender: Box<dyn suite::Sender>,
}

impl Envelope {
    /// Encapsulates a fresh key to `key`, for the first encryption of `preference` that it offers.
    ///
    /// # Errors
    /// [`SealError::UnsupportedSuite`] if the key offers nothing in `preference`, [`SealError::BadKey`] for low-order
    /// points and malformed keys.
    pub fn new(
        key: &SealingKey,
        preference: &[Aead],
        rng: &mut impl CryptoRng,
    ) -> Result<Self, SealError> {
        Self::labelled(key, preference, REQUEST_LABEL, rng)
    }

    /// Like [`new`](Self::new), under another label: the message opens under that label only.
    pub(crate) fn labelled(
        key: &SealingKey,
        preference: &[Aead],
        label: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<Self, SealError> {
        let config = key.config();
        let suite = Suite::choose(config, preference).ok_or(SealError::UnsupportedSuite)?;
        let header = suite.header(config.key_id);
        let info = info(label, &header);
        let (enc, sender) = suite::encapsulate(suite, &config.public_key, &info, rng)?;
        Ok(Self {
            header,
            aead: suite.aead,
            enc,
            sender,
        })
    }

    /// Seals `inner`; returns the encapsulated request (RFC 9458 §4.3) and the only object that can open its answer.
    ///
    /// # Errors
    /// [`SealError::TooLarge`].
    pub fn seal(self, inner: &[u8]) -> Result<(Vec<u8>, ResponseOpener), SealError> {
        let Self {
            header,
            aead,
            enc,
            sender,
        } = self;
        if inner.len() > crate::inner::MAX_REQUEST {
            return Err(SealError::TooLarge);
        }
        let mut sealed = Vec::with_capacity(HEADER_LEN + enc.len() + inner.len() + TAG_LEN);
        sealed.extend_from_slice(&header);
        sealed.extend_from_slice(&enc);
        let start = sealed.len();
        sealed.extend_from_slice(inner);
        let (tag, secret) = sender.seal(aead, &mut sealed[start..])?;
        sealed.extend_from_slice(&tag);
        Ok((sealed, ResponseOpener { aead, enc, secret }))
    }
}

/// Opens the answer to one request; made by [`Envelope::seal`].
pub struct ResponseOpener {
    aead: Aead,
    enc: Vec<u8>,
    secret: Zeroizing<Vec<u8>>,
}

impl ResponseOpener {
    /// Opens an encapsulated response (RFC 9458 §4.4).
    ///
    /// # Errors
    /// [`SealError::Truncated`], [`SealError::TooLarge`], or [`SealError::OpenFailed`] for everything that this
    /// exchange's gateway did not seal.
    pub fn open(self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        response::open(self.aead, &self.enc, &self.secret, sealed)
    }
}

/// RFC 9458 §4.3: info = "message/bhttp request" ‖ 0x00 ‖ header. Binds key identifier and suite to the seal.
fn info(label: &[u8], header: &[u8; HEADER_LEN]) -> Vec<u8> {
    [label, header].concat()
}
