//! The host's side of Clearseal: an Oblivious HTTP relay (RFC 9458) and a server of static files.
//!
//! It runs on the parent instance, which no client needs to trust: it holds no key that opens a request, depends on no code that could open a
//! sealed request, and passes bytes between a client and the enclave unchanged. It adds the parts of a public endpoint:
//! limits, timeouts, problem documents with remedies, metrics, logs without content, and a graceful stop.

mod admission;
mod body;
mod channel;
mod config;
mod connector;
mod crls;
pub mod deployment;
mod fleet;
mod headers;
mod kms;
pub mod log;
mod metrics;
mod observe;
mod openai;
mod pace;
mod parent;
mod problem;
mod rate;
mod relay;
mod router;
mod server;
mod source;
#[cfg(feature = "cloud")]
mod tls;
mod web;

pub use config::{Config, LogForm};
pub use crls::CrlPlace;
pub use headers::CONTENT_SECURITY_POLICY;
pub use problem::Problem;
pub use server::Proxy;
