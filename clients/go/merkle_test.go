package clearseal

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// rootOver, pathTo and proofBetween are the definitions of RFC 9162 §2.1.1, §2.1.3.1 and §2.1.4.1, not the algorithms that verify.
func rootOver(leaves [][32]byte) [32]byte {
	switch len(leaves) {
	case 0:
		return emptyRoot
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0][:]...))
	}
	half := split(len(leaves))
	return hashNode(rootOver(leaves[:half]), rootOver(leaves[half:]))
}

func pathTo(index int, leaves [][32]byte) [][32]byte {
	if len(leaves) == 1 {
		return nil
	}
	half := split(len(leaves))
	if index < half {
		return append(pathTo(index, leaves[:half]), rootOver(leaves[half:]))
	}
	return append(pathTo(index-half, leaves[half:]), rootOver(leaves[:half]))
}

func proofBetween(from int, leaves [][32]byte, isWhole bool) [][32]byte {
	if from == len(leaves) {
		if isWhole {
			return nil
		}
		return [][32]byte{rootOver(leaves)}
	}
	half := split(len(leaves))
	if from <= half {
		return append(proofBetween(from, leaves[:half], isWhole), rootOver(leaves[half:]))
	}
	return append(proofBetween(from-half, leaves[half:], false), rootOver(leaves[:half]))
}

// split returns the largest power of two below count.
func split(count int) int {
	half := 1
	for 2*half < count {
		half *= 2
	}
	return half
}

func TestEachTreeProvesItsLeavesAndItsStarts(t *testing.T) {
	var leaves [][32]byte
	for number := range 40 {
		leaves = append(leaves, sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(number))))
		size := len(leaves)
		root := rootOver(leaves)
		for index := range size {
			path := pathTo(index, leaves)
			if found, err := rootOf(leaves[index], uint64(index), uint64(size), path); err != nil || found != root {
				t.Fatalf("leaf %d of %d: %v", index, size, err)
			}
			if _, err := rootOf(leaves[index], uint64(index), uint64(size), append(path, root)); CodeOf(err) != "PROOF_LENGTH" {
				t.Fatalf("leaf %d of %d with a longer path: %v", index, size, err)
			}
			if index > 0 {
				if found, err := rootOf(leaves[index-1], uint64(index), uint64(size), path); err != nil || found == root {
					t.Fatalf("another leaf at %d of %d: %v", index, size, err)
				}
			}
		}
		for from := range size + 1 {
			before, now := tree{uint64(from), rootOver(leaves[:from])}, tree{uint64(size), root}
			var path [][32]byte
			if from > 0 {
				path = proofBetween(from, leaves, true)
			}
			if err := checkConsistency(before, now, path); err != nil {
				t.Fatalf("from %d to %d: %v", from, size, err)
			}
			if err := checkConsistency(before, now, append(path, root)); CodeOf(err) != "PROOF_LENGTH" {
				t.Fatalf("from %d to %d with a longer path: %v", from, size, err)
			}
			other := before
			other.root[0] ^= 1
			code := "HISTORY_INCONSISTENT"
			if from == 0 || from == size {
				code = "HISTORY_FORKED"
			}
			if err := checkConsistency(other, now, path); CodeOf(err) != code {
				t.Fatalf("from another tree of %d to %d: %v", from, size, err)
			}
			if from < size {
				if err := checkConsistency(now, before, nil); CodeOf(err) != "TREE_SHRUNK" {
					t.Fatalf("from %d to %d: %v", size, from, err)
				}
			}
		}
	}
}
