//! The enclave's side of a key release: an RSA key, and what AWS KMS encrypted to it.
//!
//! KMS answers `Decrypt` with a `Recipient` by an envelope (`CiphertextForRecipient`) that only the holder of the RSA key in
//! the attestation document can open. The untrusted host relays it, so **an envelope proves nothing about its sender**: the
//! host can encrypt a data key that it chose. What protects is the hash of the model that the enclave has pinned.
//!
//! Three rules follow from that, and types hold them:
//!
//! 1. [`RecipientKey::open`] consumes the key: one attempt, then the key is destroyed, whatever the outcome.
//! 2. [`KeyReleaseRefused`] is one value without a cause. What differs between failures is not observable by it.
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
//! Nor does keeping a copy for one:
//!
//! ```compile_fail,E0599
//! # fn example(key: key_release::RecipientKey) {
//! let copy = key.clone();
//! # }
//! ```
//!
//! Randomness is an argument. There is no I/O, no clock and no logging here.

#![forbid(unsafe_code)]

mod ber;
mod envelope;
mod recipient;

pub use envelope::{Envelope, MAX_ENVELOPE, Malformed, Part};
pub use recipient::{KeyReleaseRefused, RecipientKey};
pub use sealed_model::DataKey;
