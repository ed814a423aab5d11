//! Judges formats, witnesses and policies.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod formats;
mod interop;
mod quorum;
mod tree;
mod witnessing;
