//! The messages between a client and the enclave: each layout and each limit in one place.
//!
//! | module | holds |
//! | --- | --- |
//! | [`ohttp`] | sealing of requests and responses (RFC 9458) |
//! | [`inner`], [`padme`] | the HTTP message inside the seal (RFC 9292) and its padding |
//! | [`terms`] | the fields that the protocol adds inside the seal |
//! | [`commitment`] | salted hashes of request and response |
//! | [`items`] | the tree over the items of an answer, and the proof of one of them |
//! | [`receipt`] | Attested Inference Receipts: signing, verification in layers |
//! | [`log`] | the transparency log of receipts: signed heads, inclusion, one history |
//! | [`channel`] | the attested channel: sessions of frames and tensors over any byte stream |
//! | [`exchange`] | a client's whole exchange: seal, open, verify the receipt |
//! | `candidates` | one request sealed to several enclaves; not available to pages yet |
//! | [`bundle`] | receipt and evidence as JSON, appraised as one chain |
//! | `x_wing` | the post-quantum KEM of the seal; pages use that of `hpke` |
//!
//! Every length is checked before memory is allocated for it: reading an inner message of n bytes takes 64 KiB + 2 n bytes, an
//! audit bundle 8 KiB + 2 n, a receipt none; input that declares a false length takes none (`tests/bounds.rs`).
//!
//! Time and randomness are inputs: nothing here has a clock, does I/O, or logs. Keys have neither `Debug` nor
//! `Clone`, and are wiped when dropped. Decoded texts and salts ([`inner`], [`terms`], [`items`]) must be wiped by their owner:
//!
//! ```compile_fail,E0277
//! fn print(keys: &protocol::ohttp::GatewayKeys) {
//!     println!("{keys:?}");
//! }
//! ```
//!
//! ```compile_fail,E0277
//! fn copied<T: Clone>(_: &T) {}
//! fn copy(signer: &protocol::receipt::ReceiptSigner) {
//!     copied(signer);
//! }
//! ```
//!
//! Sealing to an unattested key requires an explicit `dangerous` call:
//!
//! ```compile_fail,E0308
//! # fn example(config: &attestation::KeyConfig, rng: &mut rand_chacha::ChaCha20Rng) {
//! protocol::ohttp::encapsulate(config, &[attestation::Aead::Aes256Gcm], b"", rng);
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod bundle;
#[cfg(not(target_family = "wasm"))]
pub mod candidates;
pub mod channel;
pub mod commitment;
pub mod exchange;
pub mod inner;
pub mod items;
pub mod json;
pub mod log;
pub mod media_type;
pub mod ohttp;
pub mod padme;
pub mod receipt;
pub mod terms;
pub mod vectors;
#[cfg(not(target_family = "wasm"))]
pub mod x25519;
#[cfg(not(target_family = "wasm"))]
pub mod x_wing;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
