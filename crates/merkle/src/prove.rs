//! Proofs from stored nodes. Only complete subtrees are stored, because they never change. The incomplete right edge is
//! computed from them for any size that the tree ever had.
//!
//! RFC 9162 §2.1.1, §2.1.3.1 and §2.1.4.1, with k the largest power of two smaller than n:
//!
//! ```text
//! MTH(D[n])              = HASH(0x01 ‖ MTH(D[0:k]) ‖ MTH(D[k:n]));  MTH({d}) = HASH(0x00 ‖ d);  MTH({}) = HASH("")
//! PATH(m, D[n])          = PATH(m, D[0:k]) : MTH(D[k:n])                     if m < k
//!                        = PATH(m − k, D[k:n]) : MTH(D[0:k])                 otherwise;  PATH(0, {d}) = {}
//! PROOF(m, D[n])         = SUBPROOF(m, D[n], true)
//! SUBPROOF(m, D[m], b)   = {} if b, otherwise {MTH(D[m])}
//! SUBPROOF(m, D[n], b)   = SUBPROOF(m, D[0:k], b) : MTH(D[k:n])              if m ≤ k
//!                        = SUBPROOF(m − k, D[k:n], false) : MTH(D[0:k])      otherwise
//! ```

use crate::Hash;
use crate::tree::{Position, node_hash};

/// Returns the hash of a complete subtree.
pub trait Nodes {
    /// Why a hash could not be read.
    type Error;

    /// The hash at `position`.
    ///
    /// # Errors
    /// If it is missing, or the store fails.
    fn node(&self, position: Position) -> Result<Hash, Self::Error>;
}

/// Leaves from `start` on, `size` of them. `start` is a multiple of every power of two that `size` does not exceed.
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    size: u64,
}

impl Range {
    /// RFC 9162 §2.1.1: split at the largest power of two smaller than the size.
    fn split(self) -> (Self, Self) {
        let left = 1 << (self.size - 1).ilog2();
        let Self { start, size } = self;
        (
            Self { start, size: left },
            Self {
                start: start + left,
                size: size - left,
            },
        )
    }
}

/// MTH of a range.
fn root<N: Nodes>(nodes: &N, range: Range) -> Result<Hash, N::Error> {
    if range.size.is_power_of_two() {
        let level = range.size.trailing_zeros();
        return nodes.node(Position {
            // At most 63: the size has 64 bits.
            level: level as u8,
            index: range.start >> level,
        });
    }
    let (left, right) = range.split();
    Ok(node_hash(&root(nodes, left)?, &root(nodes, right)?))
}

/// Inclusion path of leaf `index` in the tree of the first `size` leaves (RFC 9162 §2.1.3.1), from the leaf to the root.
/// Empty if `index` is not in the tree: no path then verifies.
///
/// # Errors
/// Those of `nodes`.
pub fn inclusion<N: Nodes>(nodes: &N, index: u64, size: u64) -> Result<Vec<Hash>, N::Error> {
    let mut path = Vec::new();
    let mut range = Range { start: 0, size };
    while index < size && range.size > 1 {
        let (left, right) = range.split();
        let inside_left = index < right.start;
        path.push(root(nodes, if inside_left { right } else { left })?);
        range = if inside_left { left } else { right };
    }
    path.reverse();
    Ok(path)
}

/// Consistency path from the tree of the first `from` leaves to that of the first `to` (RFC 9162 §2.1.4.1).
/// Empty if there is nothing to prove: `from` is 0, `to`, or more than `to`.
///
/// # Errors
/// Those of `nodes`.
pub fn consistency<N: Nodes>(nodes: &N, from: u64, to: u64) -> Result<Vec<Hash>, N::Error> {
    let mut path = Vec::new();
    if from == 0 || from >= to {
        return Ok(path);
    }
    let mut range = Range { start: 0, size: to };
    // SUBPROOF: descend until the range is exactly the end of the old tree.
    while range.start + range.size != from {
        let (left, right) = range.split();
        let ends_left = from <= right.start;
        path.push(root(nodes, if ends_left { right } else { left })?);
        range = if ends_left { left } else { right };
    }
    // The verifier already knows the old root if it is exactly this subtree.
    if range.start != 0 {
        path.push(root(nodes, range)?);
    }
    path.reverse();
    Ok(path)
}
