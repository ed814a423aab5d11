package clearseal

import (
	"crypto/sha256"
	"math/bits"
)

// maxProofPath is the longest path of a tree whose size fits 64 bits.
const maxProofPath = 64

// emptyRoot is the root of a tree without leaves: the hash of nothing (RFC 9162 §2.1.1).
var emptyRoot = sha256.Sum256(nil)

// tree is the size and the root of a Merkle tree (RFC 9162 §2.1).
type tree struct {
	size uint64
	root [32]byte
}

func hashNode(left, right [32]byte) [32]byte {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

var errPathLength = refuse("PROOF_LENGTH", "the path has another length than a tree of this size asks for")

// rootOf follows an inclusion path (RFC 9162 §2.1.3.2).
func rootOf(leafData [32]byte, index, size uint64, path [][32]byte) (root [32]byte, err error) {
	if index >= size {
		return root, refuse("LEAF_OUTSIDE_TREE", "leaf %d is outside a tree of %d leaves", index, size)
	}
	if len(path) > maxProofPath {
		return root, errPathLength
	}
	root = sha256.Sum256(append([]byte{0}, leafData[:]...))
	node, last := index, size-1
	for _, sibling := range path {
		if last == 0 {
			return root, errPathLength
		}
		if node&1 == 1 || node == last {
			root = hashNode(sibling, root)
			// Without a right sibling a node is also its parent, level by level.
			for node&1 == 0 && node != 0 {
				node, last = node>>1, last>>1
			}
		} else {
			root = hashNode(root, sibling)
		}
		node, last = node>>1, last>>1
	}
	if last != 0 {
		return root, errPathLength
	}
	return root, nil
}

// checkConsistency checks that the leaves of from are the first leaves of to (RFC 9162 §2.1.4.2).
func checkConsistency(from, to tree, path [][32]byte) error {
	if from.size > to.size {
		return refuse("TREE_SHRUNK", "a tree of %d leaves cannot extend one of %d", to.size, from.size)
	}
	if from.size == to.size || from.size == 0 {
		switch {
		case len(path) > 0:
			return errPathLength
		case from.size == 0 && from.root != emptyRoot, from.size == to.size && from.root != to.root:
			return refuse("HISTORY_FORKED", "two different roots are signed for trees of one size")
		}
		return nil
	}
	if len(path) > maxProofPath {
		return errPathLength
	}
	// A complete subtree is its own start.
	if bits.OnesCount64(from.size) == 1 {
		path = append([][32]byte{from.root}, path...)
	}
	if len(path) == 0 {
		return errPathLength
	}
	node, last := from.size-1, to.size-1
	for node&1 == 1 {
		node, last = node>>1, last>>1
	}
	earlier, later := path[0], path[0]
	for _, sibling := range path[1:] {
		if last == 0 {
			return errPathLength
		}
		if node&1 == 1 || node == last {
			earlier, later = hashNode(sibling, earlier), hashNode(sibling, later)
			for node&1 == 0 && node != 0 {
				node, last = node>>1, last>>1
			}
		} else {
			later = hashNode(later, sibling)
		}
		node, last = node>>1, last>>1
	}
	if last != 0 {
		return errPathLength
	}
	if earlier != from.root || later != to.root {
		return refuse("HISTORY_INCONSISTENT", "the path does not lead from the earlier signed root to the later one")
	}
	return nil
}
