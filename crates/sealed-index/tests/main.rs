//! Tests through the public interface.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod filters;
mod histories;
mod hostile;
mod proofs;
mod random_changes;
