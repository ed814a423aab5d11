//! Enclave images, booted: what the NSM answers, what leaves through vsock, and what a client makes of it.
//!
//! `cargo xtask test --only emulator` builds the images and the programs, and says where they are.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a fixture that cannot be made is a failed test"
)]

mod altered;
mod hostile;
mod module;
mod released;
mod sealed;
mod support;
