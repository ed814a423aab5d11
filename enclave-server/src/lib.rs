//! The service inside the enclave: attests itself, opens sealed requests, embeds text, signs receipts.
//!
//! | module | answers |
//! | --- | --- |
//! | [`config`], [`server`] | how the process starts and stops |
//! | [`stages`] | how long a start took, and what of it |
//! | [`hardening`] | what a process with keys in its memory does first |
//! | [`clock`] | what time it is, and how much has passed |
//! | [`listener`] | where connections come from: vsock, Unix or TCP |
//! | [`nsm`] | who signs attestation documents |
//! | [`serve`] | how HTTP is served on the listener, and how long a head may take |
//! | [`parent`] | how the enclave asks its host for what it has not: bounded HTTP/1.1 |
//! | [`release`] | how the enclave gets the key of its sealed model: once, from KMS |
//! | [`provision`] | where the model of this start comes from |
//! | [`model`] | which files the model is, and that it is these |
//! | [`engine`], a crate of its own | text in, vectors out |
//! | [`maintenance`] | what has to be done from time to time |
//! | [`keys`] | which keys are attested now |
//! | [`log`] | which receipts were signed with a key, as a tree that only grows |
//! | [`api`] | the outer endpoints, and the private ones behind the seal |

pub mod allocator;
pub mod api;
pub mod clock;
pub mod config;
pub mod hardening;
pub mod keys;
pub mod listener;
pub mod log;
pub mod logging;
pub mod maintenance;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod nsm;
pub mod parent;
pub mod provision;
pub mod release;
pub mod serve;
pub mod server;
pub mod stages;

pub use clock::{Clock, Moment};
