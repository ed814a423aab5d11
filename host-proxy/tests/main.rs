//! Runs the proxy between clients and enclaves that the tests control.

mod channel;
mod check;
mod deployment;
mod fairness;
#[path = "support/log.rs"]
mod fake;
mod hostile;
mod indexes;
mod parent;
mod relay;
mod shared;
mod strangers;
mod support;
mod web;
