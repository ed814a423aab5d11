//! Searches compared with a naive reference.

mod search;
mod vectors;
