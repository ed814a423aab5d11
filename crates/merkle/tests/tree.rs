//! Compares frontier, stored nodes and proofs with a naive tree that follows RFC 9162 literally.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use merkle::Hash;
use merkle::prove::{self, Nodes};
use merkle::tree::{Frontier, Position, empty_root, leaf_hash, node_hash, receipt_hash};
use merkle::verify::{self, ProofError, Tree};
use proptest::prelude::*;

/// MTH(D[n]) of RFC 9162 §2.1.1, by its recursive definition.
fn mth(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => empty_root(),
        [one] => leaf_hash(one),
        many => {
            let k = many.len().next_power_of_two() / 2;
            node_hash(&mth(&many[..k]), &mth(&many[k..]))
        }
    }
}

/// PATH(m, D[n]) of §2.1.3.1.
fn path(m: usize, leaves: &[Hash]) -> Vec<Hash> {
    if leaves.len() <= 1 {
        return vec![];
    }
    let k = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(k);
    let (mut inner, other) = if m < k {
        (path(m, left), mth(right))
    } else {
        (path(m - k, right), mth(left))
    };
    inner.push(other);
    inner
}

/// SUBPROOF(m, D[n], b) of §2.1.4.1.
fn subproof(m: usize, leaves: &[Hash], known: bool) -> Vec<Hash> {
    if m == leaves.len() {
        return if known { vec![] } else { vec![mth(leaves)] };
    }
    let k = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(k);
    let (mut inner, other) = if m <= k {
        (subproof(m, left, known), mth(right))
    } else {
        (subproof(m - k, right, false), mth(left))
    };
    inner.push(other);
    inner
}

#[derive(Default)]
struct Stored(HashMap<Position, Hash>);

impl Nodes for Stored {
    type Error = Position;
    fn node(&self, position: Position) -> Result<Hash, Position> {
        self.0.get(&position).copied().ok_or(position)
    }
}

fn leaves(count: usize) -> Vec<Hash> {
    (0..count)
        .map(|index| receipt_hash(&index.to_be_bytes()))
        .collect()
}

fn grow(leaves: &[Hash]) -> (Frontier, Stored) {
    let (mut frontier, mut stored) = (Frontier::new(), Stored::default());
    for leaf in leaves {
        frontier.append(leaf, |position, hash| {
            assert!(stored.0.insert(position, hash).is_none(), "written once");
        });
    }
    (frontier, stored)
}

#[test]
fn an_empty_tree_has_the_root_that_the_rfc_states() {
    // SHA-256 of the empty string, FIPS 180-4.
    let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(merkle::json::hex(&Frontier::new().root()), nothing);
}

#[test]
fn the_rfcs_example_of_seven_leaves() {
    // RFC 9162 §2.1.5: leaves d0..d6, hashes a b c d e f j; g h i; k l.
    let d = leaves(7);
    let [a, b, c, dd, e, f, j] = [0, 1, 2, 3, 4, 5, 6].map(|index| leaf_hash(&d[index]));
    let (g, h, i) = (node_hash(&a, &b), node_hash(&c, &dd), node_hash(&e, &f));
    let (k, l) = (node_hash(&g, &h), node_hash(&i, &j));
    let (frontier, stored) = grow(&d);
    let root = node_hash(&k, &l);
    assert_eq!(frontier.root(), root);
    let inclusion = |index| prove::inclusion(&stored, index, 7).unwrap();
    assert_eq!(inclusion(0), [b, h, l]);
    assert_eq!(inclusion(3), [c, g, l]);
    assert_eq!(inclusion(4), [f, j, k]);
    assert_eq!(inclusion(6), [i, k]);
    let consistency = |from| prove::consistency(&stored, from, 7).unwrap();
    assert_eq!(consistency(3), [c, dd, g, l]);
    assert_eq!(consistency(4), [l]);
    assert_eq!(consistency(6), [i, j, k]);
}

#[test]
fn frontier_stored_nodes_and_proofs_agree_with_the_definition_at_every_size() {
    const MOST: usize = 130;
    let all = leaves(MOST);
    let (_, stored) = grow(&all);
    let mut frontier = Frontier::new();
    let mut roots = vec![frontier.root()];
    for size in 1..=MOST {
        frontier.append(&all[size - 1], |_, _| ());
        let (now, root) = (&all[..size], frontier.root());
        assert_eq!(root, mth(now), "size {size}");
        roots.push(root);
        for (index, leaf) in now.iter().enumerate() {
            let proof = prove::inclusion(&stored, index as u64, size as u64).unwrap();
            assert_eq!(proof, path(index, now), "leaf {index} of {size}");
            verify::inclusion(leaf, index as u64, size as u64, &proof, &root).unwrap();
        }
        for from in 0..=size {
            let proof = prove::consistency(&stored, from as u64, size as u64).unwrap();
            if from > 0 {
                assert_eq!(proof, subproof(from, now, true), "{from} to {size}");
            }
            let tree = |size: usize| Tree {
                size: size as u64,
                root: roots[size],
            };
            verify::consistency(&tree(from), &tree(size), &proof).unwrap();
        }
    }
}

#[test]
fn paths_of_missing_leaves_and_trees_are_empty_and_refused() {
    let all = leaves(5);
    let (frontier, stored) = grow(&all);
    let root = frontier.root();
    assert!(prove::inclusion(&stored, 5, 5).unwrap().is_empty());
    assert!(prove::inclusion(&stored, 0, 0).unwrap().is_empty());
    assert_eq!(
        verify::inclusion(&all[4], 5, 5, &[], &root),
        Err(ProofError::OutsideTree { index: 5, size: 5 })
    );
    let (tree, smaller) = (Tree { size: 5, root }, Tree { size: 4, root });
    assert!(prove::consistency(&stored, 6, 5).unwrap().is_empty());
    assert_eq!(
        verify::consistency(&tree, &smaller, &[]),
        Err(ProofError::Shrunk { from: 5, to: 4 })
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_large_tree_is_the_defined_one(size in 1_usize..600, index in any::<prop::sample::Index>()) {
        let all = leaves(size);
        let (frontier, stored) = grow(&all);
        prop_assert_eq!(frontier.root(), mth(&all));
        let at = index.index(size);
        let proof = prove::inclusion(&stored, at as u64, size as u64).unwrap();
        prop_assert_eq!(&proof, &path(at, &all));
        prop_assert_eq!(verify::inclusion(&all[at], at as u64, size as u64, &proof, &frontier.root()), Ok(()));
    }

    #[test]
    fn every_wrong_inclusion_is_refused(
        size in 2_usize..300, index in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(),
        node in any::<prop::sample::Index>(), bit in 0_usize..256,
    ) {
        let all = leaves(size);
        let (frontier, stored) = grow(&all);
        let (at, other, root) = (index.index(size), other.index(size), frontier.root());
        let proof = prove::inclusion(&stored, at as u64, size as u64).unwrap();
        let check = |data: &Hash, index: usize, size: usize, path: &[Hash], root: &Hash| {
            verify::inclusion(data, index as u64, size as u64, path, root)
        };
        if other != at {
            prop_assert!(check(&all[other], at, size, &proof, &root).is_err());
            prop_assert!(check(&all[at], other, size, &proof, &root).is_err());
        }
        let mut flipped = proof.clone();
        let changed = node.index(proof.len());
        flipped[changed][bit / 8] ^= 1 << (bit % 8);
        prop_assert!(check(&all[at], at, size, &flipped, &root).is_err());
        prop_assert!(check(&all[at], at, size, &proof[..proof.len() - 1], &root).is_err());
        prop_assert!(check(&all[at], at, size, &proof[1..], &root).is_err());
        prop_assert!(check(&all[at], at, size, &[&proof[..], &[root]].concat(), &root).is_err());
        let mut wrong = root;
        wrong[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(check(&all[at], at, size, &proof, &wrong).is_err());
        // The inner node above a leaf is not a leaf: its hash has another prefix.
        if size.is_power_of_two() {
            let sibling = proof[0];
            let parent = if at % 2 == 1 { node_hash(&sibling, &leaf_hash(&all[at])) } else { node_hash(&leaf_hash(&all[at]), &sibling) };
            prop_assert!(check(&parent, at / 2, size / 2, &proof[1..], &root).is_err());
        }
    }

    #[test]
    fn every_changed_history_is_refused(
        from in 1_usize..150, more in 1_usize..150, at in any::<prop::sample::Index>(), node in any::<prop::sample::Index>(), bit in 0_usize..256,
    ) {
        let size = from + more;
        let honest = leaves(size);
        let earlier = Tree { size: from as u64, root: mth(&honest[..from]) };
        let at = at.index(from);
        let mut forked = honest.clone();
        forked[at][0] ^= 1;
        let mut dropped = honest.clone();
        dropped.remove(at);
        let mut reordered = honest.clone();
        reordered.swap(at, size - 1);
        for history in [&forked, &dropped, &reordered] {
            let (frontier, stored) = grow(history);
            let later = Tree { size: history.len() as u64, root: frontier.root() };
            let proof = prove::consistency(&stored, from as u64, later.size).unwrap();
            prop_assert!(verify::consistency(&earlier, &later, &proof).is_err());
        }
        let (frontier, stored) = grow(&honest);
        let later = Tree { size: size as u64, root: frontier.root() };
        let proof = prove::consistency(&stored, from as u64, size as u64).unwrap();
        prop_assert_eq!(verify::consistency(&earlier, &later, &proof), Ok(()));
        let mut flipped = proof.clone();
        let changed = node.index(proof.len());
        flipped[changed][bit / 8] ^= 1 << (bit % 8);
        prop_assert!(verify::consistency(&earlier, &later, &flipped).is_err());
        prop_assert!(verify::consistency(&earlier, &later, &proof[..proof.len() - 1]).is_err());
        prop_assert!(verify::consistency(&earlier, &later, &proof[1..]).is_err());
        prop_assert!(verify::consistency(&earlier, &later, &[&proof[..], &[later.root]].concat()).is_err());
        prop_assert!(verify::consistency(&later, &earlier, &proof).is_err());
        let same_size = Tree { root: [1; 32], ..later };
        prop_assert_eq!(verify::consistency(&later, &same_size, &[]), Err(ProofError::Forked));
    }
}
