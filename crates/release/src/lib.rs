//! Release manifests: the enclave image, the page and the npm package that were built from a commit, file by file.
//!
//! A manifest connects the code in the browser with the code in the enclave: its measurements are those that the page's built-in
//! policy demands, and it lists the page by hash. It is a JSON file with a separate signature in minisign's format.
//!
//! | module | answers the question |
//! | --- | --- |
//! | [`manifest`] | what was built |
//! | [`minisign`] | who signed it |
//! | [`freshness`] | whether the publisher still supports it |
//! | [`browsers`] | the page's files, for browsers that check them |
//!
//! Why minisign: it has one Ed25519 key, and signatures are verified offline, with a page of code or with existing tools. A bundle
//! of a transparency service would also state the builder's identity, but would need that service's roots and their renewal.
//!
//! The library uses no clock, network or file.
#![forbid(unsafe_code)]

pub mod browsers;
pub mod freshness;
pub mod manifest;
pub mod minisign;

pub use freshness::{MAX_AGE_SECONDS, NotFresh};
pub use manifest::{FileHash, Manifest, ManifestError};
pub use minisign::{PublicKey, SecretKey, Signature, SignatureError, Signed};
