//! Logs whose heads independent witnesses cosign, in the formats of C2SP.
//!
//! | module | holds | specification |
//! | --- | --- | --- |
//! | [`note`] | texts with signature lines | c2sp.org/signed-note |
//! | [`key`] | keys of logs and witnesses, Ed25519 | c2sp.org/signed-note, c2sp.org/tlog-cosignature |
//! | [`checkpoint`] | origin, size and root of a log | c2sp.org/tlog-checkpoint |
//! | [`request`] | a request to a witness, and its decision | c2sp.org/tlog-witness |
//! | [`proof`] | an entry's place in a checkpoint | c2sp.org/tlog-proof |
//! | [`policy`] | logs, witnesses and the quorum; judges a checkpoint | c2sp.org/tlog-policy |
//! | [`tiles`] | paths and contents of tiles | c2sp.org/tlog-tiles |
//! | [`record`] | the entries of a deployment's log | |
//! | [`evidence`] | evidence and the proof of its keys in one answer | RFC 8949 |
//!
//! The Merkle tree is that of the crate `merkle`. An entry of a log has 32 bytes here: the SHA-256 of a record.
//!
//! Of the two algorithms of c2sp.org/tlog-cosignature only Ed25519 (`cosignature/v1`) is implemented, not ML-DSA-44.
//!
//! No clock, no I/O and no randomness.

#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod evidence;
pub mod key;
pub mod note;
pub mod policy;
pub mod proof;
pub mod record;
pub mod request;
pub mod tiles;

mod lines;
