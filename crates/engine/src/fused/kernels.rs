//! The kernels, written once over [`Simd`](super::isa::Simd), in safe Rust.
//!
//! Every output row is computed by the same operations in the same order, wherever it is in a batch and however many rows are
//! computed with it. This makes an embedding a function of its text only, to the bit.

mod attention;
mod elementary;
mod matrix;
mod rows;
mod tile;

pub(super) use attention::{AttentionHead, AttentionScratch, Mask};
#[cfg(test)]
pub(super) use elementary::{exp, gelu, gelu_tanh, silu};
pub(super) use matrix::{Finish, Left, Product, Widened};
pub(super) use rows::{
    Activate, AddNormalised, Embed, Norm, Normalise, NormaliseInto, Pool, Quantise, Rotate, Round,
};
pub(super) use tile::QuantisedRows;
