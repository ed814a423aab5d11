//! Hashing (RFC 9162 §2.1.1), and the root of a tree that only grows.
//!
//! ```text
//! MTH({})   = HASH("")
//! MTH({d})  = HASH(0x00 ‖ d)
//! MTH(D[n]) = HASH(0x01 ‖ MTH(D[0:k]) ‖ MTH(D[k:n]))      k: the largest power of two smaller than n
//! ```

use sha2::{Digest, Sha256};

use crate::Hash;

/// SHA-256 of a receipt: the data of its leaf.
pub fn receipt_hash(receipt: &[u8]) -> Hash {
    Sha256::digest(receipt).into()
}

/// Hash of a key configuration, a service manifest as its enclave sends it: the data of a log's first leaf. The label makes it differ
/// from the hash of any receipt.
pub fn keys_hash(manifest: &[u8]) -> Hash {
    Sha256::new()
        .chain_update(b"clearseal/1 keys\0")
        .chain_update(manifest)
        .finalize()
        .into()
}

/// Root of a tree without leaves: the hash of the empty string.
pub fn empty_root() -> Hash {
    Sha256::digest(b"").into()
}

/// Hash of a leaf: HASH(0x00 ‖ data).
pub fn leaf_hash(data: &Hash) -> Hash {
    Sha256::new()
        .chain_update([0])
        .chain_update(data)
        .finalize()
        .into()
}

/// Hash of an inner node: HASH(0x01 ‖ left ‖ right). The prefixes distinguish leaves from nodes.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new()
        .chain_update([1])
        .chain_update(left)
        .chain_update(right)
        .finalize()
        .into()
}

/// A complete subtree: the leaves from `index << level` on, `1 << level` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// 0 for a leaf.
    pub level: u8,
    /// Number of the subtree among those of its level, from the left.
    pub index: u64,
}

/// The state from which a tree can grow: the roots of its complete subtrees, one for each bit of the size
/// that is set, the largest first. At most 64 hashes, however many leaves there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    roots: Vec<Hash>,
}

impl Frontier {
    /// A tree without leaves.
    pub fn new() -> Self {
        Self::default()
    }

    /// The frontier of a tree of `size` leaves, from the complete subtrees that [`append`](Self::append) reported.
    ///
    /// # Errors
    /// Those of `node`.
    pub fn restore<E>(
        size: u64,
        mut node: impl FnMut(Position) -> Result<Hash, E>,
    ) -> Result<Self, E> {
        let mut roots = Vec::new();
        // The largest first; each begins where the larger ones before it end.
        for level in (0..64_u8).rev().filter(|level| size >> level & 1 == 1) {
            let index = (size >> level) - 1;
            roots.push(node(Position { level, index })?);
        }
        Ok(Self { size, roots })
    }

    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends a leaf with this data, and reports to `completed` every subtree that it completes, the leaf first.
    pub fn append(&mut self, data: &Hash, mut completed: impl FnMut(Position, Hash)) {
        let mut position = Position {
            level: 0,
            index: self.size,
        };
        let mut hash = leaf_hash(data);
        completed(position, hash);
        // A subtree with an odd index has its left neighbour at the end of the list: together they form one of the next level.
        while position.index % 2 == 1 {
            let Some(left) = self.roots.pop() else { break };
            hash = node_hash(&left, &hash);
            position = Position {
                level: position.level + 1,
                index: position.index / 2,
            };
            completed(position, hash);
        }
        self.roots.push(hash);
        self.size += 1;
    }

    /// MTH of all leaves (RFC 9162 §2.1.1).
    pub fn root(&self) -> Hash {
        // The smaller subtrees are the right branch of the larger ones, so combine from the end.
        self.roots
            .iter()
            .rev()
            .copied()
            .reduce(|right, left| node_hash(&left, &right))
            .unwrap_or_else(empty_root)
    }
}
