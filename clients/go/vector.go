package clearseal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
)

const (
	vectorEvidenceFormat = "clearseal-vector-evidence/1"
	vectorProofFormat    = "clearseal-vector-proof/1"
	maxProofLine         = 256*1024 + (maxCRLs+2)/3*4
	maxRow               = 4 << 20
)

// VerifiedVector states what was proven about one row of an index.
type VerifiedVector struct {
	// Receipt names the model, and has the verdict of the attestation that it rests on.
	Receipt *Receipt
	// Prompt was read before the text; empty if there was none.
	Prompt string
	// Tokens of the text were read, special ones included. Truncated reports that there were more.
	Tokens    uint32
	Truncated bool
}

// vectorEvidence is what the proofs of one answer share.
type vectorEvidence struct {
	bundle      bundle
	contentHash [32]byte
	count       uint64
	prompt      string
}

// vectorProof proves one item. It holds the item's salt, with which texts can be tried for this item.
type vectorProof struct {
	// evidence is the hash of the receipt, hex.
	evidence  string
	index     uint64
	tokens    uint32
	truncated bool
	salt      [32]byte
	path      [][32]byte
}

// VerifyVector verifies, without a network, that a row's vector was computed from its text, by the model and in the image that the
// receipt names, as of the receipt's time.
//
// proof holds two lines that `clearseal embed --proofs` wrote: the evidence of an answer, and the proof of the row. row is a JSON object
// with embedding, and text or token ids (tokens). RESPONSE_HASH_MISMATCH means that text or vector is not what was computed.
func VerifyVector(proof, row []byte, policy *Policy) (*VerifiedVector, error) {
	evidence, item, err := readVectorProof(proof)
	if err != nil {
		return nil, err
	}
	read, err := readRow(row)
	if err != nil {
		return nil, err
	}
	receiptHash := sha256.Sum256(evidence.bundle.receipt)
	if item.evidence != hex.EncodeToString(receiptHash[:]) {
		return nil, refuse("PROOF_OTHER_EVIDENCE", "the proof names another receipt than the evidence holds")
	}
	root, err := rootOf(item.leaf(read, evidence.prompt), item.index, evidence.count, item.path)
	if err != nil {
		return nil, err
	}
	// A path alone does not determine the number of leaves.
	counted := binary.BigEndian.AppendUint64([]byte("clearseal/1 items\x00"), evidence.count)
	response := bindItems(evidence.contentHash, sha256.Sum256(append(counted, root[:]...)))
	receipt, err := evidence.bundle.verify(policy, commitments{response: &response})
	if err != nil {
		return nil, err
	}
	if !read.agreesWith(item) {
		return nil, refuse("ROW_DIFFERS", "the row states other tokens or truncated than were read")
	}
	return &VerifiedVector{Receipt: receipt, Prompt: evidence.prompt, Tokens: item.tokens, Truncated: item.truncated}, nil
}

// leaf is the data of the item's leaf (docs/RECEIPTS.md).
func (p *vectorProof) leaf(row *vectorRow, prompt string) [32]byte {
	input := row.hashInput(p.salt, prompt)
	vector := append([]byte("clearseal/1 item vector\x00"), p.salt[:]...)
	for _, value := range row.embedding {
		vector = binary.LittleEndian.AppendUint32(vector, math.Float32bits(value))
	}
	vectorHash := sha256.Sum256(vector)
	leaf := binary.BigEndian.AppendUint64([]byte("clearseal/1 item\x00"), p.index)
	leaf = append(append(leaf, input[:]...), vectorHash[:]...)
	leaf = binary.BigEndian.AppendUint32(leaf, p.tokens)
	if p.truncated {
		return sha256.Sum256(append(leaf, 1))
	}
	return sha256.Sum256(append(leaf, 0))
}

// readVectorProof reads the line of evidence and the line of one proof, in either order.
func readVectorProof(lines []byte) (evidence *vectorEvidence, proof *vectorProof, err error) {
	lines = bytes.TrimPrefix(lines, []byte("\xef\xbb\xbf"))
	for line := range bytes.Lines(lines) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		object, format, err := openProofLine(line)
		if err != nil {
			return nil, nil, err
		}
		again := false
		switch format {
		case vectorEvidenceFormat:
			again = evidence != nil
			evidence, err = readVectorEvidence(object)
		case vectorProofFormat:
			again = proof != nil
			proof, err = readItemProof(object)
		default:
			err = errProofMalformed
		}
		if err != nil {
			return nil, nil, err
		}
		if again {
			return nil, nil, refuse("PROOF_SEVERAL", "this holds more than one line of evidence and one proof")
		}
	}
	if evidence == nil || proof == nil {
		return nil, nil, refuse("PROOF_INCOMPLETE", "this is not a line of evidence and the line of one proof")
	}
	return evidence, proof, nil
}

var errProofMalformed = refuse("PROOF_MALFORMED", "this is not evidence or a proof of a vector")

func openProofLine(line []byte) (*members, string, error) {
	if len(line) > maxProofLine {
		return nil, "", errProofMalformed
	}
	value, err := readJSON(line)
	if err != nil {
		return nil, "", errProofMalformed
	}
	object, err := openMembers(value, "the proof")
	if err != nil {
		return nil, "", errProofMalformed
	}
	format, err := object.text("format")
	if err != nil {
		return nil, "", errProofMalformed
	}
	return object, format, nil
}

func readVectorEvidence(object *members) (*vectorEvidence, error) {
	read := &vectorEvidence{}
	var contentHash []byte
	for _, member := range []struct {
		name  string
		to    *[]byte
		limit int
	}{
		{"receipt", &read.bundle.receipt, maxReceipt},
		{"document", &read.bundle.evidence.Document, maxDocument},
		{"manifest", &read.bundle.evidence.Manifest, maxManifest},
		{"content_hash", &contentHash, 32},
	} {
		if !object.encoded(member.name, member.to, member.limit) {
			return nil, errProofMalformed
		}
	}
	if lists, ok := object.left["crls"]; ok && lists != nil && !object.encoded("crls", &read.bundle.evidence.CRLs, maxCRLs) {
		return nil, errProofMalformed
	}
	delete(object.left, "crls")
	if prompt, ok := object.take("prompt"); ok {
		if read.prompt, ok = prompt.(string); !ok {
			return nil, errProofMalformed
		}
	}
	count, ok := object.number("count")
	if !ok || len(contentHash) != 32 || len(object.left) > 0 {
		return nil, errProofMalformed
	}
	read.count, read.contentHash = count, [32]byte(contentHash)
	return read, nil
}

func readItemProof(object *members) (*vectorProof, error) {
	evidence, err := object.text("evidence")
	index, hasIndex := object.number("index")
	tokens, hasTokens := object.number("tokens")
	truncated, _ := object.take("truncated")
	isCut, hasCut := truncated.(bool)
	var salt []byte
	hasSalt := object.encoded("salt", &salt, 32) && len(salt) == 32
	path, _ := object.take("path")
	nodes, hasPath := path.([]any)
	if err != nil || !hasIndex || !hasTokens || tokens > math.MaxUint32 || !hasCut || !hasSalt || !hasPath || len(nodes) > maxProofPath ||
		len(object.left) > 0 {
		return nil, errProofMalformed
	}
	proof := &vectorProof{evidence: evidence, index: index, tokens: uint32(tokens), truncated: isCut, salt: [32]byte(salt)}
	for _, node := range nodes {
		text, _ := node.(string)
		decoded, err := decodeBase64(text)
		if err != nil || len(decoded) != 32 {
			return nil, errProofMalformed
		}
		proof.path = append(proof.path, [32]byte(decoded))
	}
	return proof, nil
}

// encoded takes a string in base64url.
func (m *members) encoded(name string, to *[]byte, limit int) bool {
	text, err := m.text(name)
	if err != nil || len(text) > (limit+2)/3*4 {
		return false
	}
	*to, err = decodeBase64(text)
	return err == nil && len(*to) <= limit
}

// vectorRow is one line of an index. Absent statements about the text are nil.
type vectorRow struct {
	text      *string
	ids       []uint32
	tokens    *uint64
	truncated *bool
	embedding []float32
}

func readRow(text []byte) (*vectorRow, error) {
	malformed := refuse("ROW_MALFORMED", "this is not a row with embedding, and text or token ids")
	if len(text) > maxRow {
		return nil, malformed
	}
	value, err := readJSON(text)
	if err != nil {
		return nil, malformed
	}
	object, err := openMembers(value, "the row")
	if err != nil {
		return nil, malformed
	}
	row := &vectorRow{}
	// With both a text and ids, the input of the vector would be ambiguous.
	if row.text, err = object.optional("text"); err != nil || !row.readTokens(object) {
		return nil, malformed
	}
	switch truncated, _ := object.take("truncated"); truncated := truncated.(type) {
	case nil:
	case bool:
		row.truncated = &truncated
	default:
		return nil, malformed
	}
	embedding, _ := object.take("embedding")
	numbers, ok := embedding.([]any)
	if !ok {
		return nil, malformed
	}
	row.embedding = make([]float32, 0, len(numbers))
	for _, number := range numbers {
		// A double that is rounded again, as all clients read it.
		number, ok := number.(json.Number)
		value, err := number.Float64()
		if !ok || err != nil {
			return nil, malformed
		}
		row.embedding = append(row.embedding, float32(value))
	}
	return row, nil
}

// readTokens takes a count if the row has a text, otherwise the ids.
func (r *vectorRow) readTokens(object *members) bool {
	tokens, _ := object.take("tokens")
	switch tokens := tokens.(type) {
	case nil:
		return r.text != nil
	case []any:
		r.ids = make([]uint32, 0, len(tokens))
		for _, token := range tokens {
			id, whole := wholeNumber(token)
			if !whole || id > math.MaxUint32 {
				return false
			}
			r.ids = append(r.ids, uint32(id))
		}
		return r.text == nil
	default:
		count, whole := wholeNumber(tokens)
		r.tokens = &count
		return whole && r.text != nil
	}
}

func (r *vectorRow) agreesWith(proof *vectorProof) bool {
	return (r.tokens == nil || *r.tokens == uint64(proof.tokens)) && (r.truncated == nil || *r.truncated == proof.truncated)
}

// hashInput is the commitment to the row's input. Token ids are read without a prompt.
func (r *vectorRow) hashInput(salt [32]byte, prompt string) [32]byte {
	input := append([]byte("clearseal/1 item input\x00"), salt[:]...)
	switch {
	case r.text == nil:
		input = append(input, 1)
		for _, id := range r.ids {
			input = binary.BigEndian.AppendUint32(input, id)
		}
	case prompt != "":
		input = binary.BigEndian.AppendUint64(append(input, 2), uint64(len(prompt)))
		input = append(append(input, prompt...), *r.text...)
	default:
		input = append(append(input, 0), *r.text...)
	}
	return sha256.Sum256(input)
}

// SplitProofs returns, for each row of an index, the two lines that [VerifyVector] takes, from the whole file that
// `clearseal embed --proofs` wrote.
func SplitProofs(file []byte) ([][]byte, error) {
	var evidence []byte
	var proofs [][]byte
	for line := range bytes.Lines(bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))) {
		line = []byte(strings.TrimSpace(string(line)))
		if len(line) == 0 {
			continue
		}
		_, format, err := openProofLine(line)
		switch {
		case err != nil:
			return nil, err
		case format == vectorEvidenceFormat:
			evidence = line
		case evidence == nil:
			return nil, refuse("PROOF_INCOMPLETE", "a proof comes before its evidence")
		default:
			proofs = append(proofs, bytes.Join([][]byte{evidence, line}, []byte("\n")))
		}
	}
	return proofs, nil
}
