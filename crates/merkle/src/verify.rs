//! Verification of proofs: the algorithms of RFC 9162 §2.1.3.2 and §2.1.4.2.
//!
//! ```text
//! inclusion(hash, fn = leaf index, size, path, root):        consistency(first, second, path):
//!   if fn ≥ size: fail                                         if first.size is a power of 2: prepend first.root to path
//!   sn = size − 1; r = hash                                    fn = first.size − 1; sn = second.size − 1
//!   for p in path:                                             while LSB(fn): shift fn and sn right
//!     if sn = 0: fail                                          fr = sr = path[0]
//!     if LSB(fn) or fn = sn:                                   for c in path[1..]:
//!       r = HASH(0x01 ‖ p ‖ r)                                   if sn = 0: fail
//!       while not LSB(fn) and fn ≠ 0: shift fn, sn               if LSB(fn) or fn = sn:
//!     else: r = HASH(0x01 ‖ r ‖ p)                                 fr = HASH(0x01 ‖ c ‖ fr); sr = HASH(0x01 ‖ c ‖ sr)
//!     shift fn and sn                                              while not LSB(fn) and fn ≠ 0: shift fn, sn
//!   accept if sn = 0 and r = root                                else: sr = HASH(0x01 ‖ sr ‖ c)
//!                                                                shift fn and sn
//!                                                              accept if sn = 0, fr = first.root and sr = second.root
//! ```
//!
//! In the code `node` is fn, and `last` is sn.

use crate::tree::{empty_root, leaf_hash, node_hash};
use crate::{Hash, MAX_PATH};

/// Why a proof fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ProofError {
    /// The leaf's number is not below the tree's size.
    #[error("leaf {index} is outside a tree of {size} leaves")]
    #[coded(
        "LEAF_OUTSIDE_TREE",
        remedy = "Ask for a newer head; if the newest one does not hold the leaf either, it was left out: keep both."
    )]
    OutsideTree {
        /// Number of the leaf.
        index: u64,
        /// Size of the tree.
        size: u64,
    },
    /// Sizes in the wrong order.
    #[error("a tree of {to} leaves cannot extend one of {from}")]
    #[coded(
        "TREE_SHRUNK",
        remedy = "Check the order of the heads; if the smaller one is the newer, history was taken back: keep both."
    )]
    Shrunk {
        /// Size of the earlier tree.
        from: u64,
        /// Size of the later tree.
        to: u64,
    },
    /// A path whose length does not fit the sizes.
    #[error("the path has another length than a tree of this size asks for")]
    #[coded(
        "PROOF_LENGTH",
        remedy = "Ask for the proof again, between exactly these heads."
    )]
    PathLength,
    /// The path leads to another root.
    #[error("the path leads to another root than the signed one")]
    #[coded(
        "ROOT_MISMATCH",
        remedy = "The leaf is not in this history: keep leaf, head and proof, and ask the operator."
    )]
    RootMismatch,
    /// Two roots for one size: proof of two histories.
    #[error("two different roots are signed for trees of one size")]
    #[coded(
        "HISTORY_FORKED",
        remedy = "Keep both heads: together they show that there are two histories."
    )]
    Forked,
    /// The path does not lead from the earlier root to the later one: it is wrong, or there is none because the histories
    /// differ.
    #[error("the path does not lead from the earlier signed root to the later one")]
    #[coded(
        "HISTORY_INCONSISTENT",
        remedy = "Ask for the proof again, between exactly these heads; if there is none, keep both: their histories differ."
    )]
    Inconsistent,
}

/// Checks that the leaf with this data is number `index` of the tree with this size and root (RFC 9162 §2.1.3.2).
///
/// # Errors
/// [`ProofError`].
pub fn inclusion(
    data: &Hash,
    index: u64,
    size: u64,
    path: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    match root_of(data, index, size, path)? == *root {
        true => Ok(()),
        false => Err(ProofError::RootMismatch),
    }
}

/// The root that the path implies for the tree of this size in which the leaf with this data is number `index` (RFC 9162
/// §2.1.3.2).
///
/// # Errors
/// [`ProofError::OutsideTree`] or [`ProofError::PathLength`].
pub fn root_of(data: &Hash, index: u64, size: u64, path: &[Hash]) -> Result<Hash, ProofError> {
    if index >= size {
        return Err(ProofError::OutsideTree { index, size });
    }
    if path.len() > MAX_PATH {
        return Err(ProofError::PathLength);
    }
    let (mut node, mut last) = (index, size - 1);
    let mut hash = leaf_hash(data);
    for sibling in path {
        if last == 0 {
            return Err(ProofError::PathLength);
        }
        if node % 2 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            // Without a right sibling a node is also its parent, level by level.
            while node.is_multiple_of(2) && node != 0 {
                (node, last) = (node / 2, last / 2);
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        (node, last) = (node / 2, last / 2);
    }
    if last != 0 {
        return Err(ProofError::PathLength);
    }
    Ok(hash)
}

/// Size and root of a tree, as a signed head states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Number of leaves.
    pub size: u64,
    /// MTH of them.
    pub root: Hash,
}

/// Checks that the leaves of `from` are the first leaves of `to`, in the same order (RFC 9162 §2.1.4.2).
///
/// # Errors
/// [`ProofError`]; [`ProofError::Forked`] means that there are two histories.
pub fn consistency(from: &Tree, to: &Tree, path: &[Hash]) -> Result<(), ProofError> {
    if from.size > to.size {
        return Err(ProofError::Shrunk {
            from: from.size,
            to: to.size,
        });
    }
    if from.size == to.size || from.size == 0 {
        // Nothing to prove, so the path must be empty.
        return match (path.is_empty(), from.size) {
            (false, _) => Err(ProofError::PathLength),
            (true, 0) if from.root != empty_root() => Err(ProofError::Forked),
            (true, _) if from.size == to.size && from.root != to.root => Err(ProofError::Forked),
            (true, _) => Ok(()),
        };
    }
    if path.len() > MAX_PATH {
        return Err(ProofError::PathLength);
    }
    // A complete subtree is its own start.
    let own = from.size.is_power_of_two().then_some(&from.root);
    let mut path = own.into_iter().chain(path);
    let (mut node, mut last) = (from.size - 1, to.size - 1);
    while node % 2 == 1 {
        (node, last) = (node / 2, last / 2);
    }
    let start = *path.next().ok_or(ProofError::PathLength)?;
    let (mut earlier, mut later) = (start, start);
    for sibling in path {
        if last == 0 {
            return Err(ProofError::PathLength);
        }
        if node % 2 == 1 || node == last {
            earlier = node_hash(sibling, &earlier);
            later = node_hash(sibling, &later);
            while node.is_multiple_of(2) && node != 0 {
                (node, last) = (node / 2, last / 2);
            }
        } else {
            later = node_hash(&later, sibling);
        }
        (node, last) = (node / 2, last / 2);
    }
    if last != 0 {
        return Err(ProofError::PathLength);
    }
    if earlier != from.root || later != to.root {
        return Err(ProofError::Inconsistent);
    }
    Ok(())
}
