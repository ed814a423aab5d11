package clearseal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/big"
	"strings"
	"time"
)

const (
	// AWS NSM API: a payload has at most 16,384 bytes; the envelope around it has fewer than 128.
	maxPayload  = 16_384
	maxDocument = maxPayload + 128
	// AWS NSM API: certificates are at most 1,024 bytes. Genuine documents show the same bound for the optional fields.
	maxField = 1_024
	// Earlier timestamps, before September 2001, are seconds mistaken for milliseconds.
	firstMoment = 1_000_000_000_000
	maxRegister = 32
)

// Register is a platform configuration register, SHA-384.
type Register [48]byte

// Document is a well-formed attestation document (docs/CHECKS.md, checks 1 to 12). Nothing about it has been verified.
type Document struct {
	ModuleID  string
	Timestamp time.Time
	Registers map[int]Register
	PublicKey []byte
	UserData  []byte
	Nonce     []byte
	SHA256    [32]byte

	certificate []byte
	cabundle    [][]byte
	payload     []byte
	signature   []byte
}

// es384Header is {1: -35}. Compared as bytes, because the hypervisor signs no other encoding.
var es384Header = []byte{0xa1, 0x01, 0x38, 0x22}

// ParseDocument reads a document and checks its form.
func ParseDocument(encoded []byte) (*Document, error) {
	if len(encoded) > maxDocument {
		return nil, refuse("DOCUMENT_TOO_LARGE", "the document has %d bytes", len(encoded))
	}
	reader := &cborReader{input: encoded, rules: shortest}
	envelope, err := readEnvelope(reader, false)
	if err != nil {
		return nil, refuse("ENVELOPE_MALFORMED", "%v", err)
	}
	end := reader.finish()
	if !bytes.Equal(envelope.protected, es384Header) {
		return nil, refuse("ALGORITHM_REFUSED", "the protected header is not exactly ES384")
	}
	if envelope.unprotected {
		return nil, refuse("UNPROTECTED_HEADER", "the unprotected header is not the empty map")
	}
	if size := len(envelope.payload); size == 0 || size > maxPayload {
		return nil, refuse("PAYLOAD_SIZE", "the payload has %d bytes", size)
	}
	if size := len(envelope.signature); size != 96 {
		return nil, refuse("SIGNATURE_SIZE", "the signature has %d bytes", size)
	}
	document := &Document{SHA256: sha256.Sum256(encoded), payload: envelope.payload, signature: envelope.signature}
	return document, document.readPayload(end)
}

// coseSign1 is a COSE_Sign1 (RFC 9052 §4.2) in place.
type coseSign1 struct {
	protected, payload, signature []byte
	// unprotected reports something else than the empty map a0.
	unprotected bool
}

var (
	errNotTagged = errors.New("no tag 18 (COSE_Sign1)")
	errNotFour   = errors.New("not an array of four items")
)

// readEnvelope reads one envelope, and leaves what follows it. The hypervisor omits the tag.
func readEnvelope(reader *cborReader, tagged bool) (coseSign1, error) {
	var found coseSign1
	kind, err := reader.peek()
	if err != nil {
		return found, err
	}
	if kind == kindTag || tagged {
		if kind != kindTag {
			return found, errNotTagged
		}
		tag, err := reader.tag()
		if err != nil {
			return found, err
		}
		if tag != 18 {
			return found, errNotTagged
		}
	}
	array, err := reader.array()
	if err != nil {
		return found, err
	}
	if array.left != 4 {
		return found, errNotFour
	}
	if found.protected, err = reader.bytes(); err != nil {
		return found, err
	}
	ahead := *reader
	unprotected, err := ahead.openMap()
	if err != nil {
		return found, err
	}
	found.unprotected = unprotected.left != 0
	if err = reader.skip(0); err != nil {
		return found, err
	}
	if found.payload, err = reader.bytes(); err != nil {
		return found, err
	}
	found.signature, err = reader.bytes()
	return found, err
}

// signedBytes is the Sig_structure of RFC 9052 §4.4 without external data.
func signedBytes(protected, payload []byte) []byte {
	signed := append([]byte{0x84, 0x6a}, "Signature1"...)
	signed = appendBytes(signed, protected)
	signed = appendBytes(signed, nil)
	return appendBytes(signed, payload)
}

// appendBytes appends a CBOR byte string.
func appendBytes(to, content []byte) []byte {
	switch length := len(content); {
	case length < 24:
		to = append(to, 0x40|byte(length))
	case length < 1<<8:
		to = append(to, 0x58, byte(length))
	case length < 1<<16:
		to = append(to, 0x59, byte(length>>8), byte(length))
	default:
		to = append(to, 0x5a, byte(length>>24), byte(length>>16), byte(length>>8), byte(length))
	}
	return append(to, content...)
}

// payloadFields are the nine fields of AWS's specification, as received.
type payloadFields struct {
	seen                       map[string]bool
	moduleID, digest           string
	timestamp                  uint64
	registers                  map[uint64][]byte
	certificate                []byte
	cabundle                   [][]byte
	publicKey, userData, nonce []byte
}

// readPayload makes checks 5, 2 and 6 to 12. envelopeEnd states whether bytes follow the envelope.
func (d *Document) readPayload(envelopeEnd error) error {
	// Shortest heads: the NSM writes no others. Its maps are definite until mid 2025, indefinite since.
	reader := &cborReader{input: d.payload, rules: shortest}
	fields := payloadFields{seen: map[string]bool{}}
	if err := fields.read(reader); err != nil {
		return err
	}
	// A NitroTPM document has the same root, but does not come from an enclave.
	last := fields.moduleID[strings.LastIndexByte(fields.moduleID, '-')+1:]
	if strings.Contains(fields.moduleID, "-") && strings.HasPrefix(last, "tpm") {
		return refuse("NITRO_TPM_DOCUMENT", "the module id ends in -tpm…")
	}
	for _, field := range []string{"module_id", "digest", "timestamp", "pcrs", "certificate", "cabundle"} {
		if !fields.seen[field] {
			return refuse("FIELD_MISSING", "%s is missing", field)
		}
	}
	if envelopeEnd != nil {
		return refuse("TRAILING_BYTES", "envelope: %v", envelopeEnd)
	}
	if err := reader.finish(); err != nil {
		return refuse("TRAILING_BYTES", "payload: %v", err)
	}
	return d.fill(&fields)
}

func (f *payloadFields) read(reader *cborReader) error {
	malformed := func(err error) error { return refuse("PAYLOAD_MALFORMED", "%v", err) }
	entries, err := reader.openMap()
	if err != nil {
		return malformed(err)
	}
	for {
		more, err := reader.more(&entries)
		if err != nil {
			return malformed(err)
		}
		if !more {
			return nil
		}
		field, err := reader.text()
		if err != nil {
			return malformed(err)
		}
		switch field {
		case "module_id":
			f.moduleID, err = reader.text()
		case "digest":
			f.digest, err = reader.text()
		case "timestamp":
			f.timestamp, err = reader.uint()
		case "pcrs":
			f.registers, err = readRegisters(reader)
		case "certificate":
			f.certificate, err = reader.bytes()
		case "cabundle":
			f.cabundle, err = readBundle(reader)
		case "public_key":
			f.publicKey, err = reader.optionalBytes()
		case "user_data":
			f.userData, err = reader.optionalBytes()
		case "nonce":
			f.nonce, err = reader.optionalBytes()
		case "nitrotpm_pcrs":
			return refuse("NITRO_TPM_DOCUMENT", "it has nitrotpm_pcrs")
		default:
			return refuse("FIELD_UNKNOWN", "the payload has an unknown field")
		}
		if err != nil {
			return fieldError(field, err)
		}
		if f.seen[field] {
			return refuse("FIELD_DUPLICATE", "%s occurs twice", field)
		}
		f.seen[field] = true
	}
}

// fieldError reports a wrong type for the field; any other fault is malformed CBOR.
func fieldError(field string, err error) error {
	fault, ok := errors.AsType[*cborError](err)
	switch {
	case !ok:
		return err
	case fault.fault == faultType:
		return refuse("FIELD_TYPE", "%s: %v", field, err)
	}
	return refuse("PAYLOAD_MALFORMED", "%s: %v", field, err)
}

func readRegisters(reader *cborReader) (map[uint64][]byte, error) {
	registers := map[uint64][]byte{}
	entries, err := reader.openMap()
	for err == nil {
		var more bool
		if more, err = reader.more(&entries); err != nil || !more {
			break
		}
		var index uint64
		if index, err = reader.uint(); err != nil {
			break
		}
		var value []byte
		if value, err = reader.bytes(); err != nil {
			break
		}
		// RFC 8949 §5.3.1: a reader that keeps the last one would read another measurement.
		if _, twice := registers[index]; twice {
			return nil, refuse("FIELD_DUPLICATE", "PCR%d occurs twice", index)
		}
		registers[index] = value
	}
	return registers, err
}

func readBundle(reader *cborReader) ([][]byte, error) {
	var bundle [][]byte
	entries, err := reader.array()
	for err == nil {
		var more bool
		if more, err = reader.more(&entries); err != nil || !more {
			break
		}
		var entry []byte
		if entry, err = reader.bytes(); err == nil {
			bundle = append(bundle, entry)
		}
	}
	return bundle, err
}

// fill makes checks 6 to 12.
func (d *Document) fill(fields *payloadFields) error {
	if fields.moduleID == "" {
		return refuse("MODULE_ID_EMPTY", "the module id is empty")
	}
	// Control or bidirectional characters in a name could change how a terminal shows a verdict.
	for _, letter := range []byte(fields.moduleID) {
		if letter < '!' || letter > '~' {
			return refuse("MODULE_ID_UNPRINTABLE", "the module id has something other than visible ASCII")
		}
	}
	if fields.digest != "SHA384" {
		return refuse("DIGEST_REFUSED", "the digest is not SHA384")
	}
	if fields.timestamp < firstMoment || fields.timestamp > lastMoment {
		return refuse("TIMESTAMP_INVALID", "the timestamp is not a moment in Unix milliseconds")
	}
	registers := map[int]Register{}
	for index, value := range fields.registers {
		if index >= maxRegister || len(value) != len(Register{}) {
			return refuse("PCR_SET_INVALID", "PCR%d has %d bytes; registers 0 to 31 have 48", index, len(value))
		}
		registers[int(index)] = Register(value)
	}
	if len(registers) == 0 {
		return refuse("PCR_SET_INVALID", "there is no register")
	}
	if len(fields.cabundle) == 0 {
		return refuse("CABUNDLE_INVALID", "the certificate bundle is empty")
	}
	for at, entry := range fields.cabundle {
		if len(entry) == 0 || len(entry) > maxField {
			return refuse("CABUNDLE_INVALID", "entry %d has %d bytes", at, len(entry))
		}
	}
	if size := len(fields.certificate); size == 0 || size > maxField {
		return refuse("CERTIFICATE_SIZE", "the certificate has %d bytes", size)
	}
	for field, value := range map[string][]byte{
		"public_key": fields.publicKey, "user_data": fields.userData, "nonce": fields.nonce,
	} {
		if len(value) > maxField {
			return refuse("OPTIONAL_FIELD_SIZE", "%s has %d bytes", field, len(value))
		}
	}
	d.ModuleID, d.Timestamp = fields.moduleID, time.UnixMilli(int64(fields.timestamp)).UTC()
	d.Registers, d.certificate, d.cabundle = registers, fields.certificate, fields.cabundle
	d.PublicKey, d.UserData, d.Nonce = fields.publicKey, fields.userData, fields.nonce
	return nil
}

// debugMode reports whether the operator can read the enclave's console.
func (d *Document) debugMode() bool {
	for index := range 3 {
		if value, ok := d.Registers[index]; ok && value == (Register{}) {
			return true
		}
	}
	return false
}

func (d *Document) verifySignature(chain *verifiedChain) error {
	r, s := new(big.Int).SetBytes(d.signature[:48]), new(big.Int).SetBytes(d.signature[48:])
	if !verifyES384(chain.key, signedBytes(es384Header, d.payload), r, s) {
		return refuse("DOCUMENT_SIGNATURE", "the signature does not fit the leaf's key and these bytes")
	}
	return nil
}
