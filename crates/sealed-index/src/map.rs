//! A Merkle map of the rows: a binary tree by the bits of hashed ids, whose root commits to every row, and to every absence.
//!
//! ```text
//! key            = SHA-256("clearseal/1 index key" ‖ 0x00 ‖ id salt ‖ id)
//! empty subtree  = 32 zero bytes
//! one leaf       = SHA-256(0x00 ‖ key ‖ value), at any height
//! other subtrees = SHA-256(0x01 ‖ left ‖ right)      by the next bit of the keys, the most significant first
//! ```
//!
//! A subtree with one leaf is that leaf, so one set of rows has one root, whatever the order of changes. The tree is persistent: an
//! older map stays usable, and shares all that did not change.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::Hash;

/// Bits of a key, and most hashes of a path.
pub(crate) const LEVELS: usize = 256;

/// Hash of an empty subtree.
pub(crate) const EMPTY: Hash = [0; 32];

/// Where a row is in memory: not part of any hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Number of the block, counted since the index was opened.
    pub(crate) block: u32,
    /// Row in the block.
    pub(crate) row: u32,
}

/// A row of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) key: Hash,
    /// Commitment to the row.
    pub(crate) value: Hash,
    pub(crate) place: Place,
}

/// A leaf to put, or a key to remove.
#[derive(Clone, Copy)]
pub(crate) enum Update {
    Put(Leaf),
    Remove(Hash),
}

impl Update {
    pub(crate) fn key(&self) -> &Hash {
        match self {
            Self::Put(leaf) => &leaf.key,
            Self::Remove(key) => key,
        }
    }
}

type Link = Option<Arc<Node>>;

enum Node {
    Leaf(Leaf),
    Inner { hash: Hash, left: Link, right: Link },
}

/// The map.
#[derive(Clone, Default)]
pub(crate) struct Map {
    root: Link,
    rows: u64,
}

/// Where the path of a key ends.
pub(crate) enum End<'a> {
    Leaf(&'a Leaf),
    Empty,
}

impl Map {
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn root(&self) -> Hash {
        hash_link(&self.root)
    }

    /// Bytes of memory, about.
    pub(crate) fn memory(&self) -> usize {
        // A node is a leaf or joins two subtrees that are not empty, aside from keys with a long common prefix.
        let nodes = usize::try_from(self.rows).unwrap_or(usize::MAX / 256) * 2;
        nodes * (size_of::<Node>() + 2 * size_of::<usize>())
    }

    pub(crate) fn get(&self, key: &Hash) -> Option<&Leaf> {
        let mut link = &self.root;
        for level in 0..=LEVELS {
            match link.as_deref()? {
                Node::Leaf(leaf) => return (leaf.key == *key).then_some(leaf),
                Node::Inner { left, right, .. } => {
                    link = if bit(key, level) { right } else { left };
                }
            }
        }
        None
    }

    /// Hashes next to the path of `key`, from the root on, and where the path ends.
    pub(crate) fn path(&self, key: &Hash) -> (Vec<Hash>, End<'_>) {
        let mut path = Vec::new();
        let mut link = &self.root;
        loop {
            match link.as_deref() {
                None => return (path, End::Empty),
                Some(Node::Leaf(leaf)) => return (path, End::Leaf(leaf)),
                Some(Node::Inner { left, right, .. }) => {
                    let (next, other) = match bit(key, path.len()) {
                        true => (right, left),
                        false => (left, right),
                    };
                    path.push(hash_link(other));
                    link = next;
                }
            }
        }
    }

    /// The map after `updates`, of different keys.
    pub(crate) fn update(&self, mut updates: Vec<Update>) -> Self {
        updates.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        let added = updates.iter().map(|update| {
            let is_present = self.get(update.key()).is_some();
            match update {
                Update::Put(_) => i64::from(!is_present),
                Update::Remove(_) => -i64::from(is_present),
            }
        });
        Self {
            rows: self.rows.saturating_add_signed(added.sum()),
            root: update(&self.root, &updates, 0),
        }
    }
}

fn update(link: &Link, updates: &[Update], level: usize) -> Link {
    let node = match (link.as_deref(), updates) {
        (_, []) => return link.clone(),
        (None, _) => return build(&puts(updates), level),
        (Some(node), _) => node,
    };
    match node {
        Node::Leaf(leaf) => {
            let mut leaves = puts(updates);
            if updates.iter().all(|update| *update.key() != leaf.key) {
                let at = leaves.partition_point(|other| other.key < leaf.key);
                leaves.insert(at, *leaf);
            }
            build(&leaves, level)
        }
        Node::Inner { left, right, .. } => {
            let (lower, upper) = split(updates, level, Update::key);
            join(
                update(left, lower, level + 1),
                update(right, upper, level + 1),
            )
        }
    }
}

fn puts(updates: &[Update]) -> Vec<Leaf> {
    let leaves = updates.iter().filter_map(|update| match update {
        Update::Put(leaf) => Some(*leaf),
        Update::Remove(_) => None,
    });
    leaves.collect()
}

fn build(leaves: &[Leaf], level: usize) -> Link {
    match leaves {
        [] => None,
        [leaf] => Some(Arc::new(Node::Leaf(*leaf))),
        _ => {
            let (lower, upper) = split(leaves, level, |leaf| &leaf.key);
            join(build(lower, level + 1), build(upper, level + 1))
        }
    }
}

fn split<T>(sorted: &[T], level: usize, key: impl Fn(&T) -> &Hash) -> (&[T], &[T]) {
    sorted.split_at(sorted.partition_point(|item| !bit(key(item), level)))
}

fn join(left: Link, right: Link) -> Link {
    match (&left, &right) {
        (None, None) => return None,
        (Some(node), None) if matches!(**node, Node::Leaf(_)) => return left,
        (None, Some(node)) if matches!(**node, Node::Leaf(_)) => return right,
        _ => {}
    }
    let hash = hash_inner(&hash_link(&left), &hash_link(&right));
    Some(Arc::new(Node::Inner { hash, left, right }))
}

fn hash_link(link: &Link) -> Hash {
    match link.as_deref() {
        None => EMPTY,
        Some(Node::Leaf(leaf)) => hash_leaf(&leaf.key, &leaf.value),
        Some(Node::Inner { hash, .. }) => *hash,
    }
}

/// The key of a row.
pub(crate) fn hash_id(id_salt: &Hash, id: &str) -> Hash {
    Sha256::new()
        .chain_update(b"clearseal/1 index key\0")
        .chain_update(id_salt)
        .chain_update(id)
        .finalize()
        .into()
}

pub(crate) fn hash_leaf(key: &Hash, value: &Hash) -> Hash {
    Sha256::new()
        .chain_update([0])
        .chain_update(key)
        .chain_update(value)
        .finalize()
        .into()
}

fn hash_inner(left: &Hash, right: &Hash) -> Hash {
    Sha256::new()
        .chain_update([1])
        .chain_update(left)
        .chain_update(right)
        .finalize()
        .into()
}

/// The root to which `path`, from the root on, leads from a subtree with the hash `end` at the path of `key`. At most
/// [`LEVELS`] hashes.
pub(crate) fn follow(key: &Hash, path: &[Hash], end: Hash) -> Hash {
    let levels = path.iter().enumerate().rev();
    levels.fold(end, |hash, (level, other)| match bit(key, level) {
        true => hash_inner(other, &hash),
        false => hash_inner(&hash, other),
    })
}

/// Whether the first `levels` bits of two keys are equal.
pub(crate) fn share_prefix(a: &Hash, b: &Hash, levels: usize) -> bool {
    (0..levels).all(|level| bit(a, level) == bit(b, level))
}

fn bit(key: &Hash, level: usize) -> bool {
    let byte = key.get(level / 8).copied().unwrap_or(0);
    byte >> (7 - level % 8) & 1 == 1
}
