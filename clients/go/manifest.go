package clearseal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

const (
	maxManifest = 8 * 1024
	maxKeyList  = 8 * 1024
)

// Identifiers of the HPKE registry.
const (
	kemXWing       = 0x647a
	kemX25519      = 0x0020
	kdfHKDFSHA256  = 1
	aeadAES128GCM  = 1
	aeadAES256GCM  = 2
	aeadChaCha20   = 3
	lengthOfXWing  = 1216
	lengthOfX25519 = 32
)

// Model is the exact identity of a model.
type Model struct {
	ModelID         string
	ModelVersion    string
	ModelSHA256     [32]byte
	ModelHashScheme string
	Dimension       uint32
	MaxTokens       uint32
	// Normalised reports that vectors have unit length.
	Normalised bool
}

// Manifest is a service's description of itself (docs/PROTOCOL.md §1).
type Manifest struct {
	// Model is the first of the service's models; once a policy has judged the manifest, the model that it demands.
	Model
	// Others are the service's other models.
	Others        []Model
	PolicyVersion string
	SecurityMode  string
	// ReceiptKey is the Ed25519 key that receipts are signed with.
	ReceiptKey [32]byte
	// NotBefore and NotAfter are Unix seconds.
	NotBefore, NotAfter uint64

	keys []keyConfig
}

// keyConfig is one of an application/ohttp-keys list (RFC 9458 §3).
type keyConfig struct {
	id        byte
	kem       uint16
	publicKey []byte
	aeads     []uint16
}

// manifestBinding is the user_data of a document that binds this manifest.
func manifestBinding(encoded []byte) [32]byte {
	return sha256.Sum256(append([]byte("clearseal/1 manifest\x00"), encoded...))
}

// manifestReader reads the entries of maps whose keys are 1, 2, 3 and so on.
type manifestReader struct {
	cborReader
	entries container
	key     uint64
	err     error
}

// open opens a map of one of these numbers of entries.
func (m *manifestReader) open(counts ...int) {
	if m.err == nil {
		m.entries, m.err = m.openMap()
		m.key = 0
	}
	if m.err == nil && !slices.Contains(counts, m.entries.left) {
		m.err = fmt.Errorf("a map of %d entries", m.entries.left)
	}
}

func (m *manifestReader) next() bool {
	if m.err != nil {
		return false
	}
	m.key++
	more, err := m.more(&m.entries)
	if err != nil {
		m.err = err
		return false
	}
	key, err := uint64(0), error(nil)
	if more {
		key, err = m.uint()
	}
	if err != nil || key != m.key {
		m.err = fmt.Errorf("entry %d is missing or out of order", m.key)
	}
	return m.err == nil
}

func (m *manifestReader) nextUint(most uint64) (number uint64) {
	if m.next() {
		number, m.err = m.uint()
	}
	if m.err == nil && number > most {
		m.err = fmt.Errorf("entry %d is too large", m.key)
	}
	return number
}

func (m *manifestReader) nextText(allowed func(string) bool) (text string) {
	if m.next() {
		text, m.err = m.text()
	}
	if m.err == nil && !allowed(text) {
		m.err = fmt.Errorf("entry %d has an invalid value", m.key)
	}
	return text
}

func (m *manifestReader) nextBytes() (content []byte) {
	if m.next() {
		content, m.err = m.bytes()
	}
	return content
}

// nextFalse reads an entry that is there only with this value.
func (m *manifestReader) nextFalse() {
	if !m.next() {
		return
	}
	value, err := m.bool()
	if err == nil && value {
		err = fmt.Errorf("entry %d states the default", m.key)
	}
	m.err = err
}

func (m *manifestReader) nextHash() (hash [32]byte) {
	content := m.nextBytes()
	if m.err == nil && len(content) != len(hash) {
		m.err = fmt.Errorf("entry %d does not have 32 bytes", m.key)
	}
	if m.err == nil {
		hash = [32]byte(content)
	}
	return hash
}

// readModel reads a map with a model's identity, which is a value of another map.
func (m *manifestReader) readModel() (model Model) {
	outer, key := m.entries, m.key
	m.open(6, 7)
	model.Normalised = m.entries.left == 6
	model.ModelID = m.nextText(isName)
	model.ModelVersion = m.nextText(isName)
	model.ModelSHA256 = m.nextHash()
	model.ModelHashScheme = m.nextText(isHashScheme)
	model.Dimension = uint32(m.nextUint(1<<32 - 1))
	model.MaxTokens = uint32(m.nextUint(1<<32 - 1))
	if !model.Normalised {
		m.nextFalse()
	}
	m.entries, m.key = outer, key
	if m.err == nil && (model.Dimension == 0 || model.MaxTokens == 0) {
		m.err = errors.New("a model without a dimension or length")
	}
	return model
}

// readModels reads an array of models, not empty.
func (m *manifestReader) readModels() (models []Model) {
	list, err := m.array()
	for err == nil {
		var more bool
		if more, err = m.more(&list); err != nil || !more {
			break
		}
		models = append(models, m.readModel())
		err = m.err
	}
	if err == nil && len(models) == 0 {
		err = errors.New("an empty list of other models")
	}
	m.err = err
	return models
}

func isName(text string) bool { return text != "" && len(text) <= maxText }

func isHashScheme(text string) bool {
	return slices.Contains([]string{"sha256-single", "sha256-concat", "sha256-manifest"}, text)
}

// ParseManifest reads a manifest: exactly the known fields, in their only encoding.
func ParseManifest(encoded []byte) (*Manifest, error) {
	if len(encoded) > maxManifest {
		return nil, refuse("MANIFEST_MALFORMED", "the manifest has %d bytes", len(encoded))
	}
	reader := &manifestReader{cborReader: cborReader{input: encoded, rules: deterministic}}
	manifest := &Manifest{}
	reader.open(8, 9)
	isOneOfSeveral := reader.err == nil && reader.entries.left == 9
	if version := reader.nextUint(1); reader.err == nil && version != 1 {
		reader.err = errors.New("another version than 1")
	}
	list := reader.nextBytes()
	manifest.ReceiptKey = reader.nextHash()
	if reader.next() {
		manifest.Model = reader.readModel()
	}
	manifest.PolicyVersion = reader.nextText(isName)
	manifest.SecurityMode = reader.nextText(isSecurityMode)
	manifest.NotBefore = reader.nextUint(lastMoment / 1000)
	manifest.NotAfter = reader.nextUint(lastMoment / 1000)
	if isOneOfSeveral && reader.next() {
		manifest.Others = reader.readModels()
	}
	if reader.err == nil {
		reader.err = reader.finish()
	}
	if reader.err == nil {
		manifest.keys, reader.err = readKeys(list)
	}
	if reader.err == nil {
		reader.err = manifest.check()
	}
	if reader.err != nil {
		return nil, refuse("MANIFEST_MALFORMED", "%v", reader.err)
	}
	return manifest, nil
}

func (m *Manifest) check() error {
	// One key for each mechanism and each id, so the attested one is never ambiguous.
	for at, key := range m.keys {
		for _, before := range m.keys[:at] {
			if before.id == key.id || before.kem == key.kem {
				return errors.New("two sealing keys with one id or mechanism")
			}
		}
	}
	switch {
	case len(m.keys) == 0:
		return errors.New("no sealing key")
	case m.NotBefore >= m.NotAfter:
		return errors.New("a validity that ends before it begins")
	}
	return nil
}

// chooseModel makes the model of this pin the first, and reports whether the service holds it.
func (m *Manifest) chooseModel(pin *modelPin) bool {
	isPinned := func(model Model) bool {
		return isSameModel(pin.id, model.ModelID) && pin.sha256 == model.ModelSHA256
	}
	if isPinned(m.Model) {
		return true
	}
	at := slices.IndexFunc(m.Others, isPinned)
	if at >= 0 {
		m.Model, m.Others[at] = m.Others[at], m.Model
	}
	return at >= 0
}

func (m *Manifest) keyOf(kem uint16) *keyConfig {
	for at := range m.keys {
		if m.keys[at].kem == kem {
			return &m.keys[at]
		}
	}
	return nil
}

var errKeys = errors.New("the key list is malformed")

// readKeys skips configurations and suites that it does not know (RFC 9458 §3.2); those that it knows must be valid.
func readKeys(list []byte) ([]keyConfig, error) {
	if len(list) > maxKeyList {
		return nil, errKeys
	}
	var keys []keyConfig
	for rest := list; len(rest) > 0; {
		if len(rest) < 2 {
			return nil, errKeys
		}
		length := int(rest[0])<<8 | int(rest[1])
		if len(rest) < 2+length {
			return nil, errKeys
		}
		key, err := readKey(rest[2 : 2+length])
		if err != nil {
			return nil, err
		}
		if key != nil {
			keys = append(keys, *key)
		}
		rest = rest[2+length:]
	}
	return keys, nil
}

func readKey(encoded []byte) (*keyConfig, error) {
	if len(encoded) < 3 {
		return nil, errKeys
	}
	key := &keyConfig{id: encoded[0], kem: uint16(encoded[1])<<8 | uint16(encoded[2])}
	length := 0
	switch key.kem {
	case kemXWing:
		length = lengthOfXWing
	case kemX25519:
		length = lengthOfX25519
	default:
		// The length of its key is unknown too.
		return nil, nil
	}
	rest := encoded[3:]
	if len(rest) < length+2 {
		return nil, errKeys
	}
	key.publicKey = rest[:length]
	suites := rest[length+2:]
	// RFC 9458 §3.1: 4 bytes a suite, at least one.
	if int(rest[length])<<8|int(rest[length+1]) != len(suites) || len(suites) == 0 || len(suites)%4 != 0 {
		return nil, errKeys
	}
	for ; len(suites) > 0; suites = suites[4:] {
		kdf, aead := uint16(suites[0])<<8|uint16(suites[1]), uint16(suites[2])<<8|uint16(suites[3])
		if kdf == kdfHKDFSHA256 && aead >= aeadAES128GCM && aead <= aeadChaCha20 {
			key.aeads = append(key.aeads, aead)
		}
	}
	if len(key.aeads) == 0 {
		return nil, nil
	}
	return key, nil
}
