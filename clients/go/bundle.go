package clearseal

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"
)

const (
	bundleFormat = "clearseal-audit-bundle/1"
	maxBundle    = 48 << 20
)

// bundle is an audit bundle: one receipt with its evidence (docs/bundle.schema.json).
type bundle struct {
	receipt           []byte
	evidence          Evidence
	request, response []byte
	hasContent        bool
}

// bundleJSON is the form in which a bundle is written.
type bundleJSON struct {
	Format   string `json:"format"`
	Receipt  string `json:"receipt"`
	Document string `json:"document"`
	Manifest string `json:"manifest"`
	Request  string `json:"request,omitempty"`
	Response string `json:"response,omitempty"`
	CRLs     string `json:"crls,omitempty"`
}

func parseBundle(text []byte) (*bundle, error) {
	malformed := refuse("BUNDLE_MALFORMED", "not an audit bundle of format %s", bundleFormat)
	if len(text) > maxBundle {
		return nil, refuse("BUNDLE_TOO_LARGE", "the bundle is over its limit")
	}
	value, err := readJSON(text)
	if err != nil {
		return nil, malformed
	}
	object, err := openMembers(value, "the bundle")
	if err != nil {
		return nil, malformed
	}
	if format, err := object.text("format"); err != nil || format != bundleFormat {
		return nil, malformed
	}
	read := &bundle{}
	var salt []byte
	present := map[string]bool{}
	for _, member := range []struct {
		name     string
		to       *[]byte
		limit    int
		required bool
	}{
		{"receipt", &read.receipt, maxReceipt, true},
		{"document", &read.evidence.Document, maxDocument, true},
		{"manifest", &read.evidence.Manifest, maxManifest, true},
		{"request", &read.request, maxRequest, false},
		{"response", &read.response, maxResponse, false},
		{"salt", &salt, 32, false},
		{"crls", &read.evidence.CRLs, maxCRLs, false},
	} {
		value, ok := object.take(member.name)
		if !ok && !member.required {
			continue
		}
		encoded, ok := value.(string)
		if !ok {
			return nil, malformed
		}
		if len(encoded) > (member.limit+2)/3*4 {
			return nil, refuse("BUNDLE_TOO_LARGE", "%s is over its limit", member.name)
		}
		if *member.to, err = decodeBase64(encoded); err != nil || *member.to == nil {
			return nil, refuse("BUNDLE_BAD_ENCODING", "%s is not base64url without padding", member.name)
		}
		present[member.name] = true
	}
	read.hasContent = present["request"]
	saltFits := !present["salt"] || (!read.hasContent && len(salt) == 32)
	if len(object.left) > 0 || present["request"] != present["response"] || !saltFits {
		return nil, malformed
	}
	return read, nil
}

// VerifyReceipt verifies an audit bundle without a network, as of the receipt's time: the receipt names the document, the document
// binds the manifest, and the manifest holds the receipt's key. If the bundle has request and response, the receipt must commit to
// them. The claims that are returned have passed every check; Verdict states how much they prove.
func VerifyReceipt(bundle []byte, policy *Policy) (*Receipt, error) {
	read, err := parseBundle(bundle)
	if err != nil {
		return nil, err
	}
	return read.verify(policy, read.commitments())
}

// commitments are the hashes that a receipt must state; nil if it may state any.
type commitments struct{ request, response *[32]byte }

// commitments are those of the content, if the bundle has it.
func (b *bundle) commitments() commitments {
	if !b.hasContent {
		return commitments{}
	}
	request, response := sha256.Sum256(b.request), responseHash(saltOf(b.request), b.response)
	return commitments{&request, &response}
}

// verify judges receipt and evidence as one chain, as of the receipt's time.
func (b *bundle) verify(policy *Policy, commitments commitments) (*Receipt, error) {
	parsed, err := parseReceipt(b.receipt)
	if err != nil {
		return nil, err
	}
	// The time is not verified yet, and only selects a moment: the signature under that document's key exposes a false one.
	if parsed.issuedAt > lastMoment/1000 {
		return nil, refuse("BAD_TIMESTAMP", "iat is beyond the year 9999")
	}
	attestation, err := Appraise(b.evidence, policy, Audit(time.Unix(int64(parsed.issuedAt), 0)))
	if err != nil {
		return nil, err
	}
	return verifyReceipt(b.receipt, &expectations{
		key: attestation.Manifest.ReceiptKey, attestation: attestation,
		requestHash: commitments.request, responseHash: commitments.response,
	})
}

// saltOf returns the salt of an inner request. Zeros, if it has none: the hash then differs from the receipt's.
func saltOf(request []byte) (salt [32]byte) {
	message, err := decodeInner(request, true)
	if err != nil {
		return salt
	}
	if decoded, err := decodeBase64(message.field("clearseal-salt")); err == nil && len(decoded) == len(salt) {
		salt = [32]byte(decoded)
	}
	return salt
}

// Bundle returns the audit bundle of an answer's receipt as JSON; nil if the answer has no receipt. With content it also has the
// request and the answer, so that an auditor can open the commitments; they are the user's text and vectors.
func (a *Answer) Bundle(withContent bool) []byte {
	if a.Receipt == nil {
		return nil
	}
	encode := base64.RawURLEncoding.EncodeToString
	written := bundleJSON{
		Format: bundleFormat, Receipt: encode(a.receipt), Document: encode(a.evidence.Document),
		Manifest: encode(a.evidence.Manifest), CRLs: encode(a.evidence.CRLs),
	}
	if withContent {
		written.Request, written.Response = encode(a.request), encode(a.Content)
	}
	text, err := json.MarshalIndent(written, "", "  ")
	if err != nil {
		return nil
	}
	return text
}
