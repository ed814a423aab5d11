//! Simulates AWS KMS: one key, one operation (`Decrypt`), the same decision.
//!
//! It is a separate program because host-proxy must not link code that appraises a document or holds a key. host-proxy reaches it
//! over HTTP, as it reaches KMS. Anyone who runs it has the key. It proves nothing, and logs that when it starts.

#![forbid(unsafe_code)]

mod decrypt;
mod folder;
mod refusal;
mod seal;
mod wrap;

pub use decrypt::Simulator;
pub use folder::{Enclave, create, put_policy};
pub use refusal::Refusal;
pub use seal::Model;
pub use wrap::{Context, MasterKey};
