//! The tree of a transparency log (RFC 9162 §2.1): the enclave grows it, the host stores it and anyone can check it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`tree`] | hashing of leaves and nodes; the [`Frontier`](tree::Frontier) that gives a growing tree's root |
//! | [`prove`] | inclusion and consistency paths from stored nodes |
//! | [`verify`] | verification of these paths |
//! | [`head`] | tree heads that an enclave signs |
//! | [`json`] | heads and proofs as JSON, between host and verifier |
//! | [`nonces`] | another tree: the nonces that share an attestation document |
//!
//! A log is the list of receipts that were signed with one receipt key, and the key is its name. Leaf 0 is the configuration of the
//! keys. Any other leaf `n` is the receipt whose `sequence_number` is `n`: its data is SHA-256 of the receipt's bytes, so that the log
//! does not contain any user's text.
//!
//! No clock, no I/O, and no secret: the caller supplies the signing function.

#![forbid(unsafe_code)]

pub mod head;
pub mod json;
pub mod nonces;
pub mod prove;
pub mod tree;
pub mod verify;

mod cbor;

/// SHA-256, which RFC 9162 §2.1.1 calls HASH.
pub type Hash = [u8; 32];

/// Longest path: a tree of 2^63 leaves is 63 levels high, and a consistency path has one node more.
pub const MAX_PATH: usize = 64;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
