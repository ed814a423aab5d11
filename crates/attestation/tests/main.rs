//! Judges documents, chains, policies and vectors. Tests with a separate process: `bounds` and `revocation` count allocations,
//! `reference` writes a page.

mod boundaries;
mod checks;
mod common;
mod differential;
mod memory;
mod moments;
mod policy;
mod properties;
mod vectors;
