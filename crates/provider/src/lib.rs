//! The arithmetic that all of a request's cryptography spends its time in, by the fastest implementation that the processor
//! runs: one choice for all of it.
//!
//! | module | what | `graviola` | elsewhere, and in wasm |
//! | --- | --- | --- | --- |
//! | [`es384`] | ECDSA on P-384, verified | always | `p384` |
//! | [`ed25519`] | Ed25519 | signs | `ed25519-dalek`, which verifies everywhere |
//! | [`x25519`] | X25519, not in wasm | always | `x25519-dalek` |
//! | [`aes256gcm`] | AES-256-GCM, not in wasm | always | `aes-gcm` |
//!
//! `graviola` needs no C, and its curves are verified assembly. It runs on x86-64 and aarch64 with the instructions that it asks
//! for; it panics where one is missing, so the proof that they are there is a type, and its only constructor asks the
//! processor. What a key, a point or a signature is, the portable crates decide everywhere: both sides of the choice accept and
//! refuse alike, which the tests hold them to, over Wycheproof's vectors and the edges of their formulas.
//!
//! `p384` is generic: the compiler makes its machine code in the crate that calls it. For a browser this crate is compiled for
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

/// Whether this processor runs `graviola`.
#[must_use]
pub fn is_native() -> bool {
    native::Native::detect().is_some()
}
