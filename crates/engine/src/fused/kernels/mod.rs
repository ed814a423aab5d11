//! The arithmetic, written once over [`Simd`](super::isa::Simd), in safe Rust.
//!
//! Every output row is computed by the same operations in the same order wherever it stands in a
//! batch and however many rows are computed with it. That is what makes an embedding a function of
//! its text alone, to the bit.

mod attention;
mod elementary;
mod matrix;
mod rows;
mod tile;

pub(super) use attention::{AttentionHead, AttentionScratch};
pub(super) use matrix::{Finish, Left, Product, Widened};
pub(super) use rows::{Embed, Norm, Normalise, Pool, Quantise, Round};
pub(super) use tile::QuantisedRows;

#[cfg(test)]
pub(super) use elementary::{exp, gelu};
