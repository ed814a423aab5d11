//! Policies of AWS KMS keys, as data: who may use a key, and whether only attested code may decrypt with it.
//!
//! - [`KeyPolicy::parse`] reads a policy strictly: an element that is not understood refuses all of it.
//! - [`evaluate`](KeyPolicy::evaluate) answers one request as IAM does, with *maybe* where a fact is not known.
//! - [`verify`] generates, against a trust policy, the requests that must not succeed, and looks for one that could.
//! - [`write()`] makes a key policy from a trust policy, so that measurements are written once.
//!
//! *Maybe* is what makes the judgement sound: a Deny counts only where it certainly applies, an Allow wherever it may.
//! No clock, no I/O.

#![forbid(unsafe_code)]

mod accepted;
mod condition;
mod fact;
mod instance;
mod json;
mod parse;
mod policy;
mod report;
mod resource;
mod search;
mod verify;
mod way;
mod write;

pub use accepted::Accepted;
pub use fact::{Fact, Request, Truth};
pub use instance::{Instance, InstanceError};
pub use parse::{MAX_KEY_POLICY, PolicyError};
pub use policy::{Effect, KeyPolicy, Outcome};
pub use report::{Attested, Example, KeyPolicyReport, Row, RowState};
pub use verify::verify;
pub use way::{Way, WayCode};
pub use write::{Deployment, WriteError, write};
