//! The arithmetic that dominates a request's cryptography, by the fastest implementation for the processor;
//! one choice for all of it.
//!
//! | module | algorithm | `graviola` | elsewhere, and in wasm |
//! | --- | --- | --- | --- |
//! | [`es384`] | ECDSA on P-384, verified | always | `p384` |
//! | [`ed25519`] | Ed25519 | signs | `ed25519-dalek`, which verifies everywhere |
//! | [`x25519`] | X25519, not in wasm | always | `x25519-dalek` |
//! | [`aes256gcm`] | AES-256-GCM, not in wasm | always | `aes-gcm` |
//!
//! `graviola` needs no C, and its curves are verified assembly. It runs on x86-64 and aarch64 with certain instructions,
//! and panics if one is missing. Therefore a type proves that they are present, and its only constructor checks the
//! processor. The portable crates decide on every platform which bytes are a key, a point or a signature. Both implementations
//! accept and refuse the same inputs; the tests check that with Wycheproof's vectors and the edge cases of the formulas.
//!
//! `p384` is generic: its machine code is generated in the crate that calls it. For a browser this crate is compiled for
//! speed, and the others for size.
//!
//! ```
//! use provider::ed25519::{SigningKey, VerifyingKey};
//!
//! let key = SigningKey::from_seed(&[7; 32]);
//! let signature = key.sign(b"message");
//! let public = VerifyingKey::new(&key.public_key()).expect("a point of the curve");
//! assert!(public.verify(b"message", &signature));
//! ```

#![forbid(unsafe_code)]

#[cfg(not(target_family = "wasm"))]
pub mod aes256gcm;
pub mod ed25519;
pub mod es384;
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    path = "no_native.rs"
)]
mod native;
#[cfg(not(target_family = "wasm"))]
pub mod x25519;

/// Whether this processor supports `graviola`.
#[must_use]
pub fn is_native() -> bool {
    native::Native::detect().is_some()
}
