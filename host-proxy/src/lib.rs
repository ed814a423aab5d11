//! The host's side of Clearseal: an Oblivious HTTP relay (RFC 9458) and a server of static files.
//!
//! It runs on the parent instance, which nobody needs to trust: it holds no key, depends on no code that could open a
//! sealed request, and passes bytes between a client and the enclave unchanged. What it adds is what a public endpoint
//! needs: limits, timeouts, problems that say what to do, metrics, logs without content, a graceful end.

mod body;
mod channel;
mod config;
mod connector;
mod crls;
mod fleet;
mod gather;
mod headers;
mod kms;
pub mod log;
mod metrics;
mod observe;
mod pace;
mod parent;
mod places;
mod problem;
mod rate;
mod readiness;
mod relay;
mod router;
mod server;
mod source;
#[cfg(feature = "cloud")]
mod tls;
mod turns;
mod web;

pub use config::{Config, LogForm};
pub use crls::CrlPlace;
pub use headers::CONTENT_SECURITY_POLICY;
pub use problem::Problem;
pub use server::Proxy;
