//! ECDSA on P-384 with SHA-384 (FIPS 186-5 §6.4.2), the one signature of a Nitro attestation.
//!
//! Nearly all the time of a verification is spent here, five times a document, and nearly all the bytes of the verifier
//! are elsewhere. The curve's generic code is compiled in the crate that calls it: a crate of its own lets a browser
//! have this part compiled for speed and the rest for size.

#![forbid(unsafe_code)]

pub use p384::ecdsa::{DerSignature, Signature, VerifyingKey};

use p384::ecdsa::signature::Verifier;

/// Whether `signature` is by `key` over `message`, which is hashed here.
///
/// High-S signatures are accepted: Nitro makes them, and RFC 9053 §2.1 does not forbid them. Zero and values from the
/// group's order on cannot be expressed by [`Signature`].
#[inline(never)]
pub fn verify(key: &VerifyingKey, message: &[u8], signature: &Signature) -> bool {
    key.verify(message, signature).is_ok()
}
