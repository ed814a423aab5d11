package clearseal

import (
	"crypto/sha256"
	"encoding/binary"
)

const (
	minNonce     = 16
	maxSharing   = 1 << 14
	maxNoncePath = 14
	maxEvidence  = maxDocument + maxManifest + 8 + 32*maxNoncePath + 20
)

// Evidence is an answer of the attestation endpoint. Nothing about it has been verified.
type Evidence struct {
	Document []byte
	Manifest []byte
	// CRLs holds revocation lists in DER, one after another. They do not come with the answer.
	CRLs []byte

	place *noncePlace
}

// noncePlace proves that a nonce is among those that share a document (docs/PROTOCOL.md §2).
type noncePlace struct {
	index, count uint32
	path         [][32]byte
}

// ParseEvidence reads an answer of the attestation endpoint: application/cbor, a map of document and manifest.
func ParseEvidence(encoded []byte) (*Evidence, error) {
	evidence, err := parseEvidence(encoded)
	if err != nil {
		return nil, refuse("EVIDENCE_MALFORMED", "the answer is not a map of document and manifest")
	}
	return evidence, nil
}

func parseEvidence(encoded []byte) (*Evidence, error) {
	if len(encoded) > maxEvidence {
		return nil, errCBOR
	}
	reader := &manifestReader{cborReader: cborReader{input: encoded, rules: deterministic}}
	ahead := reader.cborReader
	entries, err := ahead.openMap()
	if err != nil || (entries.left != 2 && entries.left != 3) {
		return nil, errCBOR
	}
	reader.open(entries.left)
	evidence := &Evidence{Document: reader.nextBytes(), Manifest: reader.nextBytes()}
	if entries.left == 3 {
		if evidence.place = readPlace(reader.nextBytes()); evidence.place == nil {
			return nil, errCBOR
		}
	}
	if reader.err != nil {
		return nil, reader.err
	}
	if len(evidence.Document) > maxDocument || len(evidence.Manifest) > maxManifest {
		return nil, errCBOR
	}
	return evidence, reader.finish()
}

var errCBOR = &cborError{faultMalformed, 0, "another map"}

func readPlace(encoded []byte) *noncePlace {
	if len(encoded) < 8 || (len(encoded)-8)%32 != 0 || len(encoded) > 8+32*maxNoncePath {
		return nil
	}
	place := &noncePlace{index: binary.BigEndian.Uint32(encoded), count: binary.BigEndian.Uint32(encoded[4:])}
	if place.index >= place.count || place.count > maxSharing {
		return nil
	}
	for rest := encoded[8:]; len(rest) > 0; rest = rest[32:] {
		place.path = append(place.path, [32]byte(rest))
	}
	return place
}

// documentNonce returns the nonce that the document must carry for a client that sent own. A place that no tree has changes
// nothing: the document then has another nonce.
func (e *Evidence) documentNonce(own []byte) []byte {
	if e.place == nil || len(own) < minNonce {
		return own
	}
	leaf := sha256.Sum256(append([]byte("clearseal/1 nonce\x00"), own...))
	tree, err := rootOf(leaf, uint64(e.place.index), uint64(e.place.count), e.place.path)
	if err != nil {
		return own
	}
	labelled := binary.BigEndian.AppendUint32([]byte("clearseal/1 nonces\x00"), e.place.count)
	nonce := sha256.Sum256(append(labelled, tree[:]...))
	return nonce[:]
}
