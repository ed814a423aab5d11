//! The verifier and the client side of the protocol, for browsers and Node.
//!
//! JavaScript gets reports, which are plain data, and opaque handles: keys, salts and the state of an exchange stay in this
//! module's memory. A refusal is a result, never an exception; exceptions are for errors of the caller, such as using a
//! handle twice.

#![forbid(unsafe_code)]
// wasm-bindgen passes arguments by value.
#![allow(clippy::needless_pass_by_value)]

mod accelerate;
mod audit;
mod challenge;
mod channel;
mod exchange;
mod offline;
mod policy;
mod stopwatch;
mod vector;

pub use accelerate::forget_signatures;
pub use audit::{
    AuditAppraisal, AuditBasis, AuditIntake, AuditPolicy, AuditSummary, Auditor, OpenedContent,
};
pub use challenge::{Challenge, TrustedEnclave, Verification};
pub use channel::{Channel, ChannelBytes, ChannelEvent, ChannelOutcome};
pub use exchange::{
    ExchangeOutcome, OpenedAnswer, SealedRequest, TensorLayout, bundle_with_content,
    bundle_with_salt,
};
pub use offline::{
    BundleAppraisal, LoggedAppraisal, inspect_document, inspect_document_fast, judge_evidence,
    questions, verify_bundle, verify_logged, verify_receipt,
};
pub use policy::{BuildInfo, build_info};
pub use vector::{VectorAppraisal, verify_vector};
