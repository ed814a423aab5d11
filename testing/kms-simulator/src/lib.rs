//! AWS KMS, simulated: one key, one operation (`Decrypt`), the same judgement.
//!
//! It is a program of its own because host-proxy must not link what can judge a document or hold a key: that one reaches
//! it over HTTP, as it reaches KMS. Whoever runs it has the key. It proves nothing, and says so when it starts.

#![forbid(unsafe_code)]

mod folder;
mod judge;
mod refusal;
mod seal;
mod wrap;

pub use folder::{Enclave, create, put_policy};
pub use judge::Simulator;
pub use refusal::Refusal;
pub use seal::Model;
pub use wrap::{Context, MasterKey};
