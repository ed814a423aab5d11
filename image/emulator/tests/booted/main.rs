//! Booted enclave images: the NSM's answers, the traffic over vsock, and a client's view.
//!
//! `cargo xtask test --only emulator` builds the images and programs, and passes their paths.

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
