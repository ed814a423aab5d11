package clearseal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

const (
	inclusionFormat   = "clearseal-log-inclusion/1"
	consistencyFormat = "clearseal-log-consistency/1"
	maxHead           = 512
	maxLogJSON        = 256 * 1024
	// logSkew bounds how far clocks within an enclave go back.
	logSkew = 60
)

// headProtected is {1: -8, 3: "application/vnd.clearseal.tree-head+cbor"}. Receipts have another content type, which is signed, so
// that neither can be mistaken for the other.
var headProtected = append([]byte{0xa2, 0x01, 0x27, 0x03, 0x78, 0x28}, "application/vnd.clearseal.tree-head+cbor"...)

// TreeHead is an enclave's signed statement about its log (docs/PROTOCOL.md §6).
type TreeHead struct {
	// Log is the receipt key that signs receipts and heads alike.
	Log [32]byte
	// Size is the number of leaves.
	Size           uint64
	Root           [32]byte
	Time           time.Time
	DocumentSHA256 [32]byte
	// Signed is the head as signed: keep it, to compare the log's later heads with it.
	Signed []byte

	seconds uint64
}

func (h *TreeHead) tree() tree { return tree{h.Size, h.Root} }

// readHead reads a head and checks its signature under the key that it names.
func readHead(encoded []byte) (*TreeHead, error) {
	malformed := refuse("HEAD_MALFORMED", "this is not a signed tree head")
	if len(encoded) > maxHead {
		return nil, malformed
	}
	reader := &cborReader{input: encoded, rules: deterministic}
	envelope, err := readEnvelope(reader, true)
	if err != nil || reader.finish() != nil || envelope.unprotected || len(envelope.signature) != 64 ||
		!bytes.Equal(envelope.protected, headProtected) {
		return nil, malformed
	}
	head := &TreeHead{Signed: bytes.Clone(encoded)}
	if head.readPayload(envelope.payload) != nil {
		return nil, malformed
	}
	if !isStrictPoint(head.Log) || !isOnCurve(head.Log) ||
		!verifyEd25519(head.Log, signedBytes(headProtected, envelope.payload), envelope.signature) {
		return nil, refuse("HEAD_SIG_FAILED", "the tree head's signature does not fit the log's key and these bytes")
	}
	// JSON carries no greater number exactly.
	if max(head.Size, head.seconds) > largestExact {
		return nil, malformed
	}
	head.Time = time.Unix(int64(head.seconds), 0).UTC()
	return head, nil
}

// readPayload reads the map of the keys 1 to 5, whose order the reader enforces.
func (h *TreeHead) readPayload(payload []byte) error {
	reader := &cborReader{input: payload, rules: deterministic}
	entries, err := reader.openMap()
	if err != nil {
		return err
	}
	for name := uint64(1); name <= 5; name++ {
		if more, err := reader.more(&entries); err != nil || !more {
			return errCBOR
		}
		if found, err := reader.uint(); err != nil || found != name {
			return errCBOR
		}
		switch name {
		case 1:
			err = readHash(reader, &h.Log)
		case 2:
			h.Size, err = reader.uint()
		case 3:
			err = readHash(reader, &h.Root)
		case 4:
			h.seconds, err = reader.uint()
		case 5:
			err = readHash(reader, &h.DocumentSHA256)
		}
		if err != nil {
			return err
		}
	}
	if more, err := reader.more(&entries); err != nil || more {
		return errCBOR
	}
	return reader.finish()
}

func readHash(reader *cborReader, to *[32]byte) error {
	content, err := reader.bytes()
	if err != nil || len(content) != len(to) {
		return errCBOR
	}
	*to = [32]byte(content)
	return nil
}

// LogProof is the host's proof that a receipt is in its enclave's log.
type LogProof struct {
	// Inclusion is the answer to GET /v1/log/LOG/inclusion?receipt=HASH.
	Inclusion []byte
	// Earlier is a head that the caller kept: Signed of an earlier [TreeHead]. Without it only inclusion is checked.
	Earlier []byte
	// Consistency is the answer to GET /v1/log/LOG/consistency?from=SIZE&to=SIZE. It may be nil if both heads have one size.
	Consistency []byte
}

// VerifyLogged verifies an audit bundle as [VerifyReceipt] does, and then, without a network, that its receipt is in the log that its
// enclave signed. If the proof has an earlier head, that history must be the start of this one. Keep the head that is returned.
func VerifyLogged(bundle []byte, policy *Policy, proof LogProof) (*Receipt, *TreeHead, error) {
	read, err := parseBundle(bundle)
	if err != nil {
		return nil, nil, err
	}
	receipt, err := read.verify(policy, read.commitments())
	if err != nil {
		return nil, nil, err
	}
	manifest, err := ParseManifest(read.evidence.Manifest)
	if err != nil {
		return nil, nil, err
	}
	index, path, encoded, err := readInclusion(proof.Inclusion)
	if err != nil {
		return nil, nil, err
	}
	head, err := headOf(encoded, manifest.ReceiptKey)
	if err != nil {
		return nil, nil, err
	}
	if err := head.checkReceipt(read.receipt, receipt, index, path); err != nil {
		return nil, nil, err
	}
	if proof.Earlier != nil {
		if err := head.checkEarlier(proof.Earlier, proof.Consistency); err != nil {
			return nil, nil, err
		}
	}
	return receipt, head, nil
}

// headOf reads a head that must be of one log.
func headOf(encoded []byte, log [32]byte) (*TreeHead, error) {
	head, err := readHead(encoded)
	if err != nil {
		return nil, err
	}
	if head.Log != log {
		return nil, refuse("HEAD_OTHER_LOG", "the head is of the log %x", head.Log)
	}
	return head, nil
}

func (h *TreeHead) checkReceipt(encoded []byte, receipt *Receipt, index uint64, path [][32]byte) error {
	// Leaf 0 holds the keys. The number is signed with the receipt, so a proof for another position is not one of this receipt.
	if receipt.SequenceNumber == 0 || index != receipt.SequenceNumber {
		return refuse("NUMBER_MISMATCH", "the proof is of leaf %d, the receipt has number %d", index, receipt.SequenceNumber)
	}
	root, err := rootOf(sha256.Sum256(encoded), index, h.Size, path)
	if err != nil {
		return err
	}
	if root != h.Root {
		return refuse("ROOT_MISMATCH", "the path leads to another root than the signed one")
	}
	if issued := uint64(receipt.IssuedAt.Unix()); h.seconds+logSkew < issued {
		return refuse("HEAD_TOO_EARLY", "the head was signed %d s before the receipt", issued-h.seconds)
	}
	return nil
}

func (h *TreeHead) checkEarlier(earlier, consistency []byte) error {
	before, err := headOf(earlier, h.Log)
	if err != nil {
		return err
	}
	var path [][32]byte
	switch {
	case consistency != nil:
		from, to, found, err := readConsistency(consistency)
		if err != nil {
			return err
		}
		if from != before.Size || to != h.Size {
			return refuse("SIZES_MISMATCH", "a proof from %d to %d leaves, heads of %d and %d", from, to, before.Size, h.Size)
		}
		path = found
	case before.Size != 0 && before.Size < h.Size:
		return refuse("CONSISTENCY_MISSING", "there is no proof from the earlier head to this one")
	}
	return checkConsistency(before.tree(), h.tree(), path)
}

// LogProof asks the host for the proof that the receipt of an audit bundle is in its enclave's log, and, if earlier is not nil, for
// the proof that the log of that head continues in it. [VerifyLogged] judges it; the host learns which receipt was asked about.
func (s *Session) LogProof(ctx context.Context, bundle, earlier []byte) (LogProof, error) {
	proof := LogProof{Earlier: earlier}
	read, err := parseBundle(bundle)
	if err != nil {
		return proof, err
	}
	manifest, err := ParseManifest(read.evidence.Manifest)
	if err != nil {
		return proof, err
	}
	log := "/v1/log/" + hex.EncodeToString(manifest.ReceiptKey[:])
	receipt := sha256.Sum256(read.receipt)
	proof.Inclusion, err = s.host.get(ctx, fmt.Sprintf("%s/inclusion?receipt=%x", log, receipt), maxLogJSON)
	if err != nil || earlier == nil {
		return proof, err
	}
	before, err := headOf(earlier, manifest.ReceiptKey)
	if err != nil {
		return proof, err
	}
	_, _, encoded, err := readInclusion(proof.Inclusion)
	if err != nil {
		return proof, err
	}
	head, err := headOf(encoded, manifest.ReceiptKey)
	if err != nil {
		return proof, err
	}
	if before.Size == 0 || before.Size >= head.Size {
		return proof, nil
	}
	path := fmt.Sprintf("%s/consistency?from=%d&to=%d", log, before.Size, head.Size)
	proof.Consistency, err = s.host.get(ctx, path, maxLogJSON)
	return proof, err
}

func readInclusion(text []byte) (index uint64, path [][32]byte, head []byte, err error) {
	malformed := refuse("LOG_JSON_MALFORMED", "this is not JSON of format %s", inclusionFormat)
	object, err := openLogJSON(text, inclusionFormat)
	if err != nil {
		return 0, nil, nil, malformed
	}
	index, indexed := object.number("index")
	path, ok := object.hashes()
	encoded, err := object.text("head")
	if err == nil {
		head, err = decodeBase64(encoded)
	}
	if !indexed || !ok || err != nil || len(object.left) > 0 {
		return 0, nil, nil, malformed
	}
	return index, path, head, nil
}

func readConsistency(text []byte) (from, to uint64, path [][32]byte, err error) {
	malformed := refuse("LOG_JSON_MALFORMED", "this is not JSON of format %s", consistencyFormat)
	object, err := openLogJSON(text, consistencyFormat)
	if err != nil {
		return 0, 0, nil, malformed
	}
	from, first := object.number("from")
	to, second := object.number("to")
	path, ok := object.hashes()
	if !first || !second || !ok || len(object.left) > 0 {
		return 0, 0, nil, malformed
	}
	return from, to, path, nil
}

func openLogJSON(text []byte, format string) (*members, error) {
	if len(text) > maxLogJSON {
		return nil, errJSON
	}
	value, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	object, err := openMembers(value, "the proof")
	if err != nil {
		return nil, err
	}
	if found, err := object.text("format"); err != nil || found != format {
		return nil, errJSON
	}
	return object, nil
}

// number takes an integer without a fraction or an exponent.
func (m *members) number(name string) (uint64, bool) {
	value, _ := m.take(name)
	if strings.ContainsAny(fmt.Sprint(value), ".eE") {
		return 0, false
	}
	return wholeNumber(value)
}

// hashes takes the member path: a list of hashes in lowercase hex.
func (m *members) hashes() (path [][32]byte, ok bool) {
	value, _ := m.take("path")
	items, ok := value.([]any)
	if !ok {
		return nil, false
	}
	for _, item := range items {
		text, ok := item.(string)
		decoded, err := hex.DecodeString(text)
		if !ok || err != nil || len(decoded) != 32 || strings.ToLower(text) != text {
			return nil, false
		}
		path = append(path, [32]byte(decoded))
	}
	return path, true
}
