//! Runs the client against hosts that the tests control.

mod candidates;
mod client;
mod policy;
mod renewal;
mod revocation;
mod tls;
mod witnesses;
