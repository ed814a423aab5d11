//! Tests through the public interface.

mod common;
mod filters;
mod histories;
mod hostile;
mod proofs;
mod random_changes;
