//! The enclave's side of a key release: an RSA key, and the envelope that AWS KMS encrypts to it.
//!
//! KMS answers `Decrypt` with a `Recipient` by an envelope (`CiphertextForRecipient`) that only the holder of the RSA key in
//! the attestation document can open. The untrusted host relays it, so **an envelope proves nothing about its sender**: the
//! host can encrypt a data key that it chose. The protection is the pinned hash of the model in the enclave.
//!
//! Three rules follow from that, and types enforce them:
//!
//! 1. [`RecipientKey::open`] consumes the key: one attempt, then the key is destroyed, on success and on failure.
//! 2. [`KeyReleaseRefused`] is one value without a cause, so that it does not distinguish failures.
//! 3. A [`DataKey`] has no `Debug` and no `Clone`, and is zeroized when it is dropped.
//!
//! A second attempt with the same key does not compile:
//!
//! ```compile_fail,E0382
//! # fn example(key: key_release::RecipientKey, first: &[u8], second: &[u8], rng: &mut impl rand_core::CryptoRng) {
//! let _ = key.open(first, rng);
//! let _ = key.open(second, rng);
//! # }
//! ```
//!
//! Neither does a copy of the key:
//!
//! ```compile_fail,E0599
//! # fn example(key: key_release::RecipientKey) {
//! let copy = key.clone();
//! # }
//! ```
//!
//! Randomness is an argument. This crate has no I/O, clock or logging.

#![forbid(unsafe_code)]

mod ber;
mod envelope;
mod recipient;

pub use envelope::{Envelope, MAX_ENVELOPE, Malformed, Part};
pub use recipient::{KeyReleaseRefused, RecipientKey};
pub use sealed_model::DataKey;
