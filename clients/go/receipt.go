package clearseal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"
)

const (
	maxReceipt     = 65_536
	receiptProfile = "https://spec.cyntrisec.com/air/v1"
	largestExact   = 1<<53 - 1
)

// receiptHeader is {1: -8, 3: 61}: EdDSA, CWT.
var receiptHeader = []byte{0xa2, 0x01, 0x27, 0x03, 0x18, 0x3d}

// Receipt is an Attested Inference Receipt (docs/RECEIPTS.md).
type Receipt struct {
	Issuer          string
	IssuedAt        time.Time
	ID              [16]byte
	Nonce           []byte
	ModelID         string
	ModelVersion    string
	ModelSHA256     [32]byte
	ModelHashScheme string
	RequestHash     [32]byte
	ResponseHash    [32]byte
	DocumentSHA256  [32]byte
	Platform        string
	Registers       map[int]Register
	PolicyVersion   string
	SequenceNumber  uint64
	// ExecutionMillis and MemoryMiB are upper bounds.
	ExecutionMillis uint64
	MemoryMiB       uint64
	SecurityMode    string
	// Verdict is that of the attestation that the receipt rests on.
	Verdict Verdict
}

// expectations are what a receipt must state. A nil pointer is not compared.
type expectations struct {
	key          [32]byte
	attestation  *Attestation
	requestHash  *[32]byte
	responseHash *[32]byte
	nonce        []byte
	window       *receiptWindow
}

type receiptWindow struct {
	at           time.Time
	maxAge, skew time.Duration
}

// parsedReceipt has passed layer 1: its form. Nothing in it is trusted.
type parsedReceipt struct {
	payload, signature []byte
	claims             Receipt
	issuedAt           uint64
	id                 []byte
	hashes             [4][]byte
	registers          map[int][]byte
	scheme             *string
}

// Claims of AIR v1.
const (
	claimIssuer    = 1
	claimIssuedAt  = 6
	claimID        = 7
	claimNonce     = 10
	claimProfile   = 265
	claimModelID   = -65_537
	claimVersion   = -65_538
	claimModelHash = -65_539
	claimRequest   = -65_540
	claimResponse  = -65_541
	claimDocument  = -65_542
	claimMeasured  = -65_543
	claimPolicy    = -65_544
	claimSequence  = -65_545
	claimExecution = -65_546
	claimMemory    = -65_547
	claimMode      = -65_548
	claimScheme    = -65_549
)

func receiptCBOR(err error, inClaims bool) error {
	if errors.Is(err, errNotTagged) {
		return refuse("NOT_COSE_SIGN1", "%v", err)
	}
	code := "BAD_CBOR"
	if fault, ok := errors.AsType[*cborError](err); ok {
		switch {
		case fault.fault == faultTrailing:
			code = "TRAILING_BYTES"
		case fault.fault == faultEncoding:
			code = "NOT_DETERMINISTIC"
		case inClaims && (fault.fault == faultType || fault.fault == faultRange):
			code = "BAD_CLAIM_TYPE"
		}
	}
	return refuse(code, "%v", err)
}

func parseReceipt(encoded []byte) (*parsedReceipt, error) {
	if len(encoded) > maxReceipt {
		return nil, refuse("RECEIPT_TOO_LARGE", "the receipt has %d bytes", len(encoded))
	}
	reader := &cborReader{input: encoded, rules: deterministic}
	envelope, err := readEnvelope(reader, true)
	if err == nil {
		err = reader.finish()
	}
	if err != nil {
		return nil, receiptCBOR(err, false)
	}
	if len(envelope.signature) != 64 {
		return nil, refuse("BAD_SIGNATURE_LENGTH", "the signature has %d bytes", len(envelope.signature))
	}
	if envelope.unprotected {
		return nil, refuse("BAD_HEADERS", "the unprotected header is not empty")
	}
	if err := checkReceiptHeader(envelope.protected); err != nil {
		return nil, err
	}
	receipt := &parsedReceipt{payload: envelope.payload, signature: envelope.signature}
	return receipt, receipt.readClaims()
}

// checkReceiptHeader requires exactly the profile's two parameters.
func checkReceiptHeader(protected []byte) error {
	if bytes.Equal(protected, receiptHeader) {
		return nil
	}
	if len(protected) > 64 {
		return refuse("BAD_HEADERS", "protected parameters besides algorithm and content type")
	}
	reader := &cborReader{input: protected, rules: deterministic}
	entries, err := reader.openMap()
	if err != nil {
		return receiptCBOR(err, false)
	}
	var algorithm, contentType, other bool
	for {
		more, err := reader.more(&entries)
		if err != nil {
			return receiptCBOR(err, false)
		}
		if !more {
			break
		}
		start := reader.at
		if err := reader.skip(0); err != nil {
			return receiptCBOR(err, false)
		}
		key := string(protected[start:reader.at])
		start = reader.at
		if err := reader.skip(0); err != nil {
			return receiptCBOR(err, false)
		}
		value := string(protected[start:reader.at])
		switch key {
		case "\x01":
			algorithm = value == "\x27"
		case "\x03":
			contentType = value == "\x18\x3d"
		default:
			other = true
		}
	}
	if err := reader.finish(); err != nil {
		return receiptCBOR(err, false)
	}
	switch {
	case !algorithm:
		return refuse("BAD_ALG", "another algorithm than EdDSA")
	case !contentType:
		return refuse("BAD_CONTENT_TYPE", "another content type than 61 (CWT)")
	case other:
		return refuse("BAD_HEADERS", "protected parameters besides algorithm and content type")
	}
	return nil
}

func (p *parsedReceipt) readClaims() error {
	reader := &cborReader{input: p.payload, rules: deterministic}
	entries, err := reader.openMap()
	if err != nil {
		return receiptCBOR(err, true)
	}
	mandatory, profile := 0, ""
	for {
		more, err := reader.more(&entries)
		if err != nil {
			return receiptCBOR(err, true)
		}
		if !more {
			break
		}
		if kind, err := reader.peek(); err == nil && kind > kindNegative {
			return refuse("UNKNOWN_CLAIM", "a claim whose name is not an integer")
		}
		name, err := reader.int()
		if err != nil {
			return receiptCBOR(err, true)
		}
		if name == claimProfile {
			profile, err = reader.text()
		} else {
			err = p.readClaim(name, reader)
		}
		if _, refused := errors.AsType[*Error](err); refused {
			return err
		}
		if err != nil {
			return receiptCBOR(err, true)
		}
		// Keys rise strictly, so each is counted once.
		if name != claimNonce && name != claimScheme {
			mandatory++
		}
	}
	if err := reader.finish(); err != nil {
		return receiptCBOR(err, true)
	}
	if mandatory != 16 {
		return refuse("MISSING_CLAIM", "%d of 16 mandatory claims", mandatory)
	}
	if profile != receiptProfile {
		return refuse("BAD_PROFILE", "another profile")
	}
	return nil
}

func (p *parsedReceipt) readClaim(name int64, reader *cborReader) (err error) {
	claims := &p.claims
	switch name {
	case claimIssuer:
		claims.Issuer, err = reader.text()
	case claimIssuedAt:
		p.issuedAt, err = reader.uint()
	case claimID:
		p.id, err = reader.bytes()
	case claimNonce:
		claims.Nonce, err = reader.bytes()
	case claimModelID:
		claims.ModelID, err = reader.text()
	case claimVersion:
		claims.ModelVersion, err = reader.text()
	case claimModelHash, claimRequest, claimResponse, claimDocument:
		p.hashes[claimModelHash-name], err = reader.bytes()
	case claimMeasured:
		err = p.readMeasurements(reader)
	case claimPolicy:
		claims.PolicyVersion, err = reader.text()
	case claimSequence:
		claims.SequenceNumber, err = reader.uint()
	case claimExecution:
		claims.ExecutionMillis, err = reader.uint()
	case claimMemory:
		claims.MemoryMiB, err = reader.uint()
	case claimMode:
		claims.SecurityMode, err = reader.text()
	case claimScheme:
		var scheme string
		scheme, err = reader.text()
		p.scheme = &scheme
	default:
		return refuse("UNKNOWN_CLAIM", "claim %d", name)
	}
	return err
}

// receiptRegisters are the registers that the profile defines, by their names.
var receiptRegisters = map[string]int{"pcr0": 0, "pcr1": 1, "pcr2": 2, "pcr3": 3, "pcr4": 4, "pcr8": 8}

func (p *parsedReceipt) readMeasurements(reader *cborReader) error {
	entries, err := reader.openMap()
	if err != nil {
		return err
	}
	p.registers = map[int][]byte{}
	typed := false
	for {
		more, err := reader.more(&entries)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		name, err := reader.text()
		if err != nil {
			return err
		}
		if name == "measurement_type" {
			if p.claims.Platform, err = reader.text(); err != nil {
				return err
			}
			typed = true
			continue
		}
		index, ok := receiptRegisters[name]
		if !ok {
			return refuse("UNKNOWN_CLAIM", "a measurement that the profile does not define")
		}
		if p.registers[index], err = reader.bytes(); err != nil {
			return err
		}
	}
	for index := range 3 {
		if _, ok := p.registers[index]; !ok {
			typed = false
		}
	}
	if !typed {
		return refuse("MISSING_CLAIM", "measurement_type, pcr0, pcr1 or pcr2 is absent")
	}
	return nil
}

// authenticate is layer 2.
func (p *parsedReceipt) authenticate(key [32]byte) error {
	if !isStrictPoint(key) || !isOnCurve(key) {
		return refuse("BAD_KEY", "the key is not a canonical Ed25519 point, or one of small order")
	}
	if !verifyEd25519(key, signedBytes(receiptHeader, p.payload), p.signature) {
		return refuse("SIG_FAILED", "the signature does not fit this key and these bytes")
	}
	return nil
}

// validate is layer 3: whether the claims can be true.
func (p *parsedReceipt) validate() error {
	claims := &p.claims
	if p.issuedAt == 0 || p.issuedAt > lastMoment/1000 {
		return refuse("BAD_TIMESTAMP", "iat is 0 or beyond the year 9999")
	}
	claims.IssuedAt = time.Unix(int64(p.issuedAt), 0).UTC()
	if len(p.id) != len(claims.ID) {
		return refuse("BAD_CTI_LENGTH", "cti has %d bytes", len(p.id))
	}
	claims.ID = [16]byte(p.id)
	for at, to := range []*[32]byte{&claims.ModelSHA256, &claims.RequestHash, &claims.ResponseHash, &claims.DocumentSHA256} {
		if len(p.hashes[at]) != len(to) {
			return refuse("BAD_HASH_LENGTH", "a hash has %d bytes", len(p.hashes[at]))
		}
		*to = [32]byte(p.hashes[at])
	}
	if claims.ModelSHA256 == ([32]byte{}) {
		return refuse("ZERO_MODEL_HASH", "model_hash is all zero")
	}
	claims.Registers = map[int]Register{}
	for index, value := range p.registers {
		if len(value) != len(Register{}) {
			return refuse("BAD_MEASUREMENT_LENGTH", "pcr%d has %d bytes", index, len(value))
		}
		claims.Registers[index] = Register(value)
	}
	if claims.Platform != "nitro-pcr" && claims.Platform != "tdx-mrtd-rtmr" {
		return refuse("UNKNOWN_MEASUREMENT_TYPE", "neither nitro-pcr nor tdx-mrtd-rtmr")
	}
	if _, ok := claims.Registers[8]; ok && claims.Platform == "tdx-mrtd-rtmr" {
		return refuse("UNEXPECTED_MEASUREMENT", "pcr8 on TDX")
	}
	if !isSecurityMode(claims.SecurityMode) {
		return refuse("UNKNOWN_SECURITY_MODE", "neither production nor evaluation")
	}
	if p.scheme != nil {
		if !isHashScheme(*p.scheme) {
			return refuse("UNKNOWN_HASH_SCHEME", "a hash scheme outside the profile")
		}
		claims.ModelHashScheme = *p.scheme
	}
	if max(claims.SequenceNumber, claims.ExecutionMillis, claims.MemoryMiB) > largestExact {
		return refuse("NUMBER_TOO_LARGE", "a number above 2^53 - 1")
	}
	if claims.Nonce != nil && (len(claims.Nonce) < 8 || len(claims.Nonce) > 64) {
		return refuse("BAD_NONCE_LENGTH", "eat_nonce has %d bytes", len(claims.Nonce))
	}
	return nil
}

// compare is layer 4: whether the receipt is about this request, this enclave and this model.
func (p *parsedReceipt) compare(expected *expectations) error {
	claims := &p.claims
	if expected.attestation != nil {
		if err := claims.compareAttestation(expected.attestation); err != nil {
			return err
		}
	}
	if expected.requestHash != nil && *expected.requestHash != claims.RequestHash {
		return refuse("REQUEST_HASH_MISMATCH", "the receipt is about another request")
	}
	if expected.responseHash != nil && *expected.responseHash != claims.ResponseHash {
		return refuse("RESPONSE_HASH_MISMATCH", "the receipt is about another answer")
	}
	if expected.nonce != nil && !bytes.Equal(expected.nonce, claims.Nonce) {
		return refuse("NONCE_MISMATCH", "the receipt answers another nonce")
	}
	if window := expected.window; window != nil {
		age := window.at.Truncate(time.Second).Sub(claims.IssuedAt)
		if age < -window.skew {
			return refuse("TIMESTAMP_FUTURE", "issued %s after the judged moment", -age)
		}
		if age > window.maxAge {
			return refuse("TIMESTAMP_STALE", "issued %s before the judged moment, %s allowed", age, window.maxAge)
		}
	}
	return nil
}

func (r *Receipt) compareAttestation(attestation *Attestation) error {
	manifest := attestation.Manifest
	if r.Platform != "nitro-pcr" {
		return refuse("PLATFORM_MISMATCH", "the receipt is of another platform")
	}
	if r.DocumentSHA256 != attestation.Document.SHA256 {
		return refuse("ATTESTATION_DOC_MISMATCH", "the receipt names another document")
	}
	for index, value := range r.Registers {
		if measured, ok := attestation.Document.Registers[index]; !ok || measured != value {
			return refuse("MEASUREMENT_MISMATCH", "pcr%d is not the document's", index)
		}
	}
	switch {
	// The same bytes under another scheme are the hash of something else.
	case r.ModelSHA256 != manifest.ModelSHA256, r.ModelHashScheme != "" && r.ModelHashScheme != manifest.ModelHashScheme:
		return refuse("MODEL_HASH_MISMATCH", "the receipt names another model hash")
	case r.ModelID != manifest.ModelID || r.ModelVersion != manifest.ModelVersion:
		return refuse("MODEL_ID_MISMATCH", "the receipt names another model")
	case r.PolicyVersion != manifest.PolicyVersion:
		return refuse("POLICY_MISMATCH", "the receipt names another policy version")
	case r.SecurityMode != manifest.SecurityMode:
		return refuse("SECURITY_MODE_MISMATCH", "the receipt names another security mode")
	}
	return nil
}

func verifyReceipt(encoded []byte, expected *expectations) (*Receipt, error) {
	parsed, err := parseReceipt(encoded)
	if err != nil {
		return nil, err
	}
	if err := parsed.authenticate(expected.key); err != nil {
		return nil, err
	}
	if err := parsed.validate(); err != nil {
		return nil, err
	}
	if err := parsed.compare(expected); err != nil {
		return nil, err
	}
	if expected.attestation != nil {
		parsed.claims.Verdict = expected.attestation.Verdict
	}
	return &parsed.claims, nil
}

// responseHash is the commitment to an answer (docs/RECEIPTS.md). The content of an answer with embeddings begins with a root.
func responseHash(salt [32]byte, content []byte) [32]byte {
	digest := sha256.New()
	digest.Write([]byte("clearseal/1 response\x00"))
	digest.Write(salt[:])
	digest.Write(content)
	hash := [32]byte(digest.Sum(nil))
	if root, ok := statedRoot(content); ok {
		return bindItems(hash, [32]byte(root))
	}
	return hash
}

// bindItems adds the root over the items to the hash of an answer's content.
func bindItems(contentHash, root [32]byte) [32]byte {
	labelled := append([]byte("clearseal/1 response with items\x00"), contentHash[:]...)
	return sha256.Sum256(append(labelled, root[:]...))
}

var (
	jsonRoot    = []byte(`{"clearseal":{"items":"`)
	tensorsRoot = []byte("\x01\x05\x01\x05\x00\x00\x00\x00\x20\x00\x00\x00\x00\x00\x00\x00items\x00\x00\x00")
)

// statedRoot returns the root over the items at the start of an answer.
func statedRoot(content []byte) ([]byte, bool) {
	if rest, ok := bytes.CutPrefix(content, tensorsRoot); ok && len(rest) >= 32 {
		return rest[:32], true
	}
	rest, ok := bytes.CutPrefix(content, jsonRoot)
	if !ok || len(rest) < 44 || rest[43] != '"' {
		return nil, false
	}
	root, err := decodeBase64(string(rest[:43]))
	return root, err == nil
}

// decodeBase64 reads base64url without padding; each value has one encoding.
func decodeBase64(text string) ([]byte, error) {
	for _, letter := range []byte(text) {
		// encoding/base64 skips line breaks.
		if letter == '\r' || letter == '\n' {
			return nil, base64.CorruptInputError(0)
		}
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}
