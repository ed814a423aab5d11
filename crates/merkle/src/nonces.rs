//! One attestation document for many clients: their nonces are the leaves of a tree, and its root is the document's nonce.
//!
//! A document costs the Nitro Secure Module milliseconds, and carries one nonce. A host may collect waiting nonces,
//! request one document, and give each client its [`NonceProof`]. The host need not be trusted: a root depends on every leaf, so a
//! document that carries it was made after the client chose its nonce, no matter who built the tree.
//!
//! | value | is, with SHA-256 as hash and big-endian numbers |
//! | --- | --- |
//! | leaf data | hash of "clearseal/1 nonce" ‖ 0x00 ‖ nonce |
//! | tree | root of RFC 9162 §2.1.1 over the leaf data |
//! | document's nonce | hash of "clearseal/1 nonces" ‖ 0x00 ‖ number of leaves, 4 bytes ‖ tree |
//! | proof, encoded | index, 4 bytes ‖ number of leaves, 4 bytes ‖ the inclusion path of RFC 9162 §2.1.3.1, 32 bytes each |
//!
//! ```
//! use merkle::nonces::{NonceProof, NonceTree};
//!
//! let nonces = [[1; 32], [2; 32], [3; 32]];
//! let tree = NonceTree::over(nonces.iter().map(|nonce| &nonce[..])).ok_or("no nonce, or too many")?;
//! let sent = tree.proof(1).ok_or("no such leaf")?.encode();
//! let place = NonceProof::decode(&sent)?;
//! assert_eq!(place.document_nonce(&nonces[1])?, tree.document_nonce());
//! assert_ne!(place.document_nonce(&nonces[2])?, tree.document_nonce());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::convert::Infallible;

use sha2::{Digest, Sha256};

use crate::Hash;
use crate::prove::{Nodes, inclusion};
use crate::tree::{Frontier, Position};
use crate::verify::{ProofError, root_of};

/// Most nonces that share a document.
pub const MAX_NONCES: usize = 1 << 14;
/// Longest path in such a tree.
const MAX_NONCE_PATH: usize = 14;
/// Longest [`NonceProof`], encoded, in bytes.
pub const MAX_NONCE_PROOF: usize = HEAD + MAX_NONCE_PATH * size_of::<Hash>();

/// Index and number of leaves.
const HEAD: usize = 8;
const LEAF_LABEL: &[u8] = b"clearseal/1 nonce\0";
const ROOT_LABEL: &[u8] = b"clearseal/1 nonces\0";

fn leaf_data(nonce: &[u8]) -> Hash {
    Sha256::new()
        .chain_update(LEAF_LABEL)
        .chain_update(nonce)
        .finalize()
        .into()
}

/// Adds the number of leaves, which a path alone does not determine.
fn bind_count(count: u32, tree: &Hash) -> Hash {
    Sha256::new()
        .chain_update(ROOT_LABEL)
        .chain_update(count.to_be_bytes())
        .chain_update(tree)
        .finalize()
        .into()
}

/// Proof that a nonce is among those that share a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonceProof {
    index: u32,
    count: u32,
    path: Vec<Hash>,
}

impl NonceProof {
    /// The nonce of the document that `nonce` shares by this proof.
    ///
    /// # Errors
    /// [`ProofError::OutsideTree`] or [`ProofError::PathLength`]: no tree has this proof.
    pub fn document_nonce(&self, nonce: &[u8]) -> Result<Hash, ProofError> {
        let tree = root_of(
            &leaf_data(nonce),
            self.index.into(),
            self.count.into(),
            &self.path,
        )?;
        Ok(bind_count(self.count, &tree))
    }

    /// Number of nonces that share the document, including random padding.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Encodes the proof.
    pub fn encode(&self) -> Vec<u8> {
        let head = [self.index.to_be_bytes(), self.count.to_be_bytes()].concat();
        let path = self.path.iter().flatten().copied();
        head.into_iter().chain(path).collect()
    }

    /// Reads the format of [`encode`](Self::encode). Checks the length first.
    ///
    /// # Errors
    /// [`ProofError::PathLength`], or [`ProofError::OutsideTree`] if more than [`MAX_NONCES`] share a document.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProofError> {
        let wrong = ProofError::PathLength;
        let (index, rest) = bytes.split_first_chunk().ok_or(wrong)?;
        let (count, rest) = rest.split_first_chunk().ok_or(wrong)?;
        let (index, count) = (u32::from_be_bytes(*index), u32::from_be_bytes(*count));
        let (path, rest) = rest.as_chunks::<32>();
        if !rest.is_empty() || path.len() > MAX_NONCE_PATH {
            return Err(wrong);
        }
        if index >= count || count as usize > MAX_NONCES {
            return Err(ProofError::OutsideTree {
                index: index.into(),
                size: count.into(),
            });
        }
        Ok(Self {
            index,
            count,
            path: path.to_vec(),
        })
    }
}

/// A tree over nonces, for the host that collects them.
pub struct NonceTree {
    nodes: BTreeMap<Position, Hash>,
    count: u32,
    root: Hash,
}

impl NonceTree {
    /// The tree over `nonces`, in their order; `None` for no nonce, or more than [`MAX_NONCES`].
    pub fn over<'a>(nonces: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let (mut frontier, mut nodes) = (Frontier::new(), BTreeMap::new());
        for nonce in nonces {
            frontier.append(&leaf_data(nonce), |position, hash| {
                nodes.insert(position, hash);
            });
            if frontier.size() > MAX_NONCES as u64 {
                return None;
            }
        }
        let count = u32::try_from(frontier.size())
            .ok()
            .filter(|count| *count > 0)?;
        Some(Self {
            nodes,
            count,
            root: frontier.root(),
        })
    }

    /// The nonce to request the document with.
    pub fn document_nonce(&self) -> Hash {
        bind_count(self.count, &self.root)
    }

    /// The proof of nonce number `index`, from 0.
    pub fn proof(&self, index: u32) -> Option<NonceProof> {
        let inside = index < self.count;
        let Ok(path) = inclusion(self, index.into(), self.count.into());
        inside.then_some(NonceProof {
            index,
            count: self.count,
            path,
        })
    }
}

impl Nodes for NonceTree {
    type Error = Infallible;

    fn node(&self, position: Position) -> Result<Hash, Infallible> {
        // `over` stored every complete subtree.
        Ok(self.nodes.get(&position).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn nonces(count: usize) -> Vec<[u8; 32]> {
        (0..count)
            .map(|number| Sha256::digest(number.to_be_bytes()).into())
            .collect()
    }

    fn tree(nonces: &[[u8; 32]]) -> Option<NonceTree> {
        NonceTree::over(nonces.iter().map(|nonce| &nonce[..]))
    }

    #[test]
    fn each_nonce_has_a_place_and_no_other_passes_there() {
        for count in (1..=33).chain([MAX_NONCES]) {
            let nonces = nonces(count);
            let tree = tree(&nonces).unwrap();
            for index in [0, count / 3, count / 2, count - 1] {
                let place = tree.proof(index as u32).unwrap();
                let sent = place.encode();
                assert!(sent.len() <= MAX_NONCE_PROOF);
                let place = NonceProof::decode(&sent).unwrap();
                let expected = tree.document_nonce();
                assert_eq!(place.document_nonce(&nonces[index]).unwrap(), expected);
                let other = nonces[(index + 1) % count];
                if count > 1 {
                    assert_ne!(place.document_nonce(&other).unwrap(), expected);
                }
                assert_ne!(place.document_nonce(&[]).unwrap(), expected);
            }
            assert!(tree.proof(count as u32).is_none());
        }
    }

    #[test]
    fn none_and_too_many_make_no_tree() {
        assert!(tree(&[]).is_none());
        assert!(tree(&nonces(MAX_NONCES + 1)).is_none());
    }

    #[test]
    fn every_bit_of_a_place_counts() {
        let nonces = nonces(5);
        let tree = tree(&nonces).unwrap();
        for index in 0..5 {
            let sent = tree.proof(index).unwrap().encode();
            for bit in 0..sent.len() * 8 {
                let mut changed = sent.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let passes = NonceProof::decode(&changed)
                    .and_then(|place| place.document_nonce(&nonces[index as usize]))
                    .is_ok_and(|nonce| nonce == tree.document_nonce());
                assert!(!passes, "leaf {index}, bit {bit}");
            }
            for length in 0..sent.len() {
                let passes = NonceProof::decode(&sent[..length])
                    .and_then(|place| place.document_nonce(&nonces[index as usize]));
                assert!(passes.is_err(), "leaf {index}, {length} bytes");
            }
            assert!(NonceProof::decode(&[&sent[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn neither_a_node_nor_a_leaf_is_a_nonce_of_its_own() {
        // A client that sends an inner node as its nonce gets a different leaf.
        let nonces = nonces(4);
        let four = tree(&nonces).unwrap();
        let left = four.nodes[&Position { level: 1, index: 0 }];
        let right = four.nodes[&Position { level: 1, index: 1 }];
        let two = tree(&[left, right]).unwrap();
        assert_ne!(two.document_nonce(), four.document_nonce());
        assert_ne!(
            four.proof(0).unwrap().path.first(),
            Some(&leaf_data(&nonces[1])),
            "a leaf's data is hashed once more"
        );
    }
}
