//! Searches compared with a naive reference.

#![allow(clippy::unwrap_used)]

mod search;
mod vectors;
