//! Policies of AWS KMS keys, as data: who may use a key, and whether only an attested enclave may decrypt with it.
//!
//! - [`KeyPolicy::parse`] reads a policy strictly: an element that is not understood refuses all of it.
//! - [`evaluate`](KeyPolicy::evaluate) answers one request as IAM does, with *maybe* where a fact is not known.
//! - [`verify`] asks, against a trust policy, for every request that must not succeed whether it could.
//! - [`write()`] makes a key policy from a trust policy, so that measurements are written once.
//!
//! *Maybe* is what makes the judgement sound: a Deny counts only where it certainly applies, an Allow wherever it may.
//! No clock, no I/O.

#![forbid(unsafe_code)]

mod condition;
mod fact;
mod json;
mod parse;
mod policy;
mod verify;
mod way;
mod write;

pub use fact::{Fact, Request, Truth};
pub use parse::{MAX_KEY_POLICY, PolicyError};
pub use policy::{Effect, KeyPolicy, Outcome};
pub use verify::{KeyPolicyReport, Row, RowState, verify};
pub use way::{Way, WayCode};
pub use write::{Deployment, WriteError, write};
