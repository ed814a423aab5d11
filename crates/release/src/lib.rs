//! Release manifests: which commit gave which enclave image, which page and which npm package, file by file.
//!
//! A manifest joins what a browser runs and what an enclave runs: its measurements are those that the page's built-in policy
//! demands, and the page is listed in it by hash. It is a plain JSON file with a signature in minisign's form beside it.
//!
//! | module | answers |
//! | --- | --- |
//! | [`manifest`] | what was built |
//! | [`minisign`] | who says so |
//! | [`freshness`] | whether the publisher still says so |
//!
//! Why minisign: one Ed25519 key, verified offline with a page of code, and by tools that others wrote. A bundle of a
//! transparency service would name the builder's identity too, and would need that service's roots and their renewal.
//!
//! Pure: no clock, no network, no file.
#![forbid(unsafe_code)]

pub mod freshness;
pub mod manifest;
pub mod minisign;

pub use freshness::{MAX_AGE_SECONDS, NotFresh};
pub use manifest::{FileHash, Manifest, ManifestError};
pub use minisign::{PublicKey, SecretKey, Signature, SignatureError, Signed};
