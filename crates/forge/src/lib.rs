//! Attestation documents in exactly the form of AWS's Nitro hypervisor, under a root that is not AWS's.
//!
//! [`Issuer`] creates valid ones for a simulated enclave; trusting its root means trusting this process. [`Forgery`] opens one
//! up, so that a test can change one thing with everything else signed properly; [`vectors`] is a catalogue of such changes.
//!
//! Time and randomness are arguments. The crate has its own encoders, so that a verifier is not tested with its own code.
//!
//! ```
//! use rand_core::SeedableRng;
//!
//! let mut rng = rand_chacha::ChaCha20Rng::from_seed([7; 32]);
//! let now = 1_800_000_000_000;
//! let root = forge::DevelopmentRoot::generate(&mut rng, now);
//! let mut issuer = forge::Issuer::new(root, &mut rng, now);
//! let contents = forge::Contents { nonce: Some(vec![1; 32]), ..forge::Contents::example() };
//! let document = issuer.document(&contents, now, &mut rng);
//! assert_eq!(document[..7], [0x84, 0x44, 0xa1, 0x01, 0x38, 0x22, 0xa0]);
//! ```

#![forbid(unsafe_code)]

pub mod cbor;
pub mod der;
#[cfg(feature = "kms")]
pub mod envelope;

mod certificate;
mod crl;
mod document;
mod issuer;
mod registers;
#[cfg(feature = "shared-vectors")]
mod shared;
mod vectors;

pub use certificate::{CertificateSpec, Hash};
pub use crl::{CrlSpec, reason, revoked};
pub use document::{Contents, Fields, Forgery, Link};
pub use issuer::{DevelopmentRoot, GENUINE_CHAIN, Issuer, SHARED_ROOT_MADE_AT};
pub use registers::simulated_registers;
#[cfg(feature = "shared-vectors")]
pub use shared::{hex_of, shared_json, shared_vectors, tell_skipped};
pub use vectors::{CrlVector, Vector, crl_vectors, vectors};
