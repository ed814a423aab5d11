//! Policies of AWS KMS keys as data: who may use a key, and whether only attested code can decrypt with it.
//!
//! - [`KeyPolicy::parse`] reads a policy strictly: one unknown element, and the whole policy is refused.
//! - [`evaluate`](KeyPolicy::evaluate) answers one request as IAM does, with *maybe* where a fact is unknown.
//! - [`verify`] generates the requests that must not succeed under a trust policy, and searches for one that could.
//! - [`write()`] derives a key policy from a trust policy, so that measurements are written once.
//!
//! *Maybe* makes the verdict sound: a Deny counts only where it certainly applies, an Allow wherever it may.
//! No clock, no I/O.

#![forbid(unsafe_code)]

mod accepted;
mod bypass;
mod condition;
mod example;
mod fact;
mod instance;
mod json;
mod parse;
mod policy;
mod report;
mod resource;
mod search;
mod verify;
mod write;

pub use accepted::Accepted;
pub use bypass::{Bypass, BypassCode};
pub use fact::{Fact, Request, Truth};
pub use instance::{Instance, InstanceError};
pub use parse::{MAX_KEY_POLICY, PolicyError};
pub use policy::{Effect, KeyPolicy, Outcome};
pub use report::{Attested, Example, KeyPolicyReport, Row, RowState};
pub use verify::verify;
pub use write::{Deployment, WriteError, write};
