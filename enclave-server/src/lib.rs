//! The service inside the enclave: attests itself, opens sealed requests, embeds text, signs receipts.
//!
//! | module | answers the question |
//! | --- | --- |
//! | [`config`], [`server`] | how the process starts and stops |
//! | [`stages`] | how long each stage of the start took |
//! | [`hardening`] | how the process protects its memory |
//! | [`clock`] | what time it is, and how much time has passed |
//! | [`listener`] | where connections come from: vsock, Unix or TCP |
//! | [`nsm`] | who signs attestation documents |
//! | [`serve`] | how HTTP is served on the listener, and how long a head may take |
//! | [`parent`] | how the enclave sends requests to its host: bounded HTTP/1.1 |
//! | [`release`] | how the enclave gets the key of its sealed model from KMS |
//! | [`provision`] | where the model of this start comes from |
//! | [`model`] | which files the model consists of, and whether they are the pinned ones |
//! | [`check`] | what is wrong with a model's folder |
//! | [`engine`], a separate crate | text in, vectors out |
//! | [`maintenance`] | which tasks recur |
//! | [`keys`] | which keys are attested now |
//! | [`log`] | which receipts were signed with a key, as a tree that only grows |
//! | [`indexes`] | how private indexes are opened, changed and kept in memory |
//! | [`api`] | the outer endpoints, and the private ones behind the seal |

pub mod allocator;
pub mod api;
pub mod check;
pub mod clock;
pub mod config;
pub mod hardening;
pub mod indexes;
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
