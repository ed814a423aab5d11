package clearseal

import (
	"bytes"
	"crypto/ecdsa"
	_ "embed"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// awsRoot is AWS's root certificate G1, SHA-256 641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b.
//
//go:embed aws_nitro_enclaves_root_g1.der
var awsRoot []byte

// verifiedChain is a chain from the pinned root to the leaf.
type verifiedChain struct {
	links []link
	key   *ecdsa.PublicKey
	// notAfter is the earliest end of a certificate. A regional CA may end before its leaf does.
	notAfter time.Time
}

type link struct {
	name        string
	certificate *certificate
}

// verifyChain makes checks 13 to 16 and 18 to 20. It takes the bundle in the order received, and searches for no other path.
func (d *Document) verifyChain(root []byte, at time.Time) (*verifiedChain, error) {
	// RFC 5280 §6.1.1 (d): trust begins with this certificate as a whole.
	if !bytes.Equal(d.cabundle[0], root) {
		return nil, refuse("ROOT_NOT_PINNED", "the chain does not begin with the pinned root certificate")
	}
	links, err := parseLinks(append(d.cabundle[:len(d.cabundle):len(d.cabundle)], d.certificate))
	if err != nil {
		return nil, err
	}
	for _, check := range []func([]link) error{
		checkNames, func(links []link) error { return checkValidity(links, at) }, checkConstraints, checkKeyUsage,
	} {
		if err := check(links); err != nil {
			return nil, err
		}
	}
	key, err := checkSignatures(links)
	if err != nil {
		return nil, err
	}
	chain := &verifiedChain{links: links, key: key, notAfter: links[0].certificate.notAfter}
	for _, link := range links {
		if link.certificate.notAfter.Before(chain.notAfter) {
			chain.notAfter = link.certificate.notAfter
		}
	}
	return chain, nil
}

// parseLinks makes check 20.
func parseLinks(encoded [][]byte) ([]link, error) {
	links := make([]link, 0, len(encoded))
	for at, bytes := range encoded {
		name := fmt.Sprintf("certificate %d", at)
		switch at {
		case 0:
			name = "the root"
		case len(encoded) - 1:
			name = "the leaf"
		}
		parsed, err := parseCertificate(bytes)
		if errors.Is(err, errCritical) {
			return nil, refuse("CRITICAL_EXTENSION", "%s has %v", name, err)
		}
		if err != nil {
			return nil, refuse("CERTIFICATE_MALFORMED", "%s: %v", name, err)
		}
		links = append(links, link{name, parsed})
	}
	return links, nil
}

// checkNames makes check 15, RFC 5280 §6.1.3 (a)(4). A name has one encoding here, so equal names have equal bytes.
func checkNames(links []link) error {
	for at := 1; at < len(links); at++ {
		subject := links[at].certificate
		if !bytes.Equal(subject.issuer.whole, links[at-1].certificate.subject.whole) {
			return refuse("CHAIN_NAMES", "%s does not name %s as its issuer", links[at].name, links[at-1].name)
		}
		// AWS has no self-issued certificate below the root. A repeated root would make a chain longer than its path lengths allow.
		if bytes.Equal(subject.issuer.whole, subject.subject.whole) {
			return refuse("CHAIN_NAMES", "%s names itself as its issuer", links[at].name)
		}
	}
	return nil
}

// checkValidity makes check 16, RFC 5280 §6.1.3 (a)(2). Both ends are inclusive, in whole seconds.
func checkValidity(links []link, at time.Time) error {
	now := at.Unix()
	for _, link := range links {
		if now < link.certificate.notBefore.Unix() {
			return refuse("CERTIFICATE_NOT_YET_VALID", "%s is valid from %s", link.name, link.certificate.notBefore.Format(time.RFC3339))
		}
		if now > link.certificate.notAfter.Unix() {
			return refuse("CERTIFICATE_EXPIRED", "%s was valid until %s", link.name, link.certificate.notAfter.Format(time.RFC3339))
		}
	}
	return nil
}

// checkConstraints makes check 18, RFC 5280 §6.1.4 (k) to (m) and §4.2.1.9.
func checkConstraints(links []link) error {
	issuers, leaf := links[:len(links)-1], links[len(links)-1]
	for at, link := range issuers {
		constraints := link.certificate.constraints
		if constraints == nil || !constraints.ca || !constraints.critical {
			return refuse("BASIC_CONSTRAINTS", "%s has no critical basicConstraints of a CA", link.name)
		}
		// §4.2.1.9: the number of issuers that may follow this one, without the leaf.
		below := len(issuers) - at - 1
		if constraints.pathLength >= 0 && below > constraints.pathLength {
			return refuse("PATH_LENGTH", "%s allows %d issuers below it, and has %d", link.name, constraints.pathLength, below)
		}
	}
	constraints := leaf.certificate.constraints
	if constraints == nil || constraints.ca || constraints.pathLength >= 0 || !constraints.critical {
		return refuse("BASIC_CONSTRAINTS", "%s has no critical basicConstraints of an end entity", leaf.name)
	}
	return nil
}

// checkKeyUsage makes check 19, RFC 5280 §6.1.4 (n) and §4.2.1.3.
func checkKeyUsage(links []link) error {
	last := len(links) - 1
	for at, link := range links {
		usage := link.certificate.usage
		switch {
		case usage == nil:
			return refuse("KEY_USAGE", "%s has no keyUsage", link.name)
		case at < last && !usage[usageCertSign]:
			return refuse("KEY_USAGE", "%s may not sign certificates", link.name)
		case at == last && !usage[usageDigitalSignature]:
			return refuse("KEY_USAGE", "%s may not sign documents", link.name)
		case at == last && usage[usageCertSign]:
			return refuse("KEY_USAGE", "%s is a leaf that may sign certificates", link.name)
		}
	}
	return nil
}

// checkSignatures makes check 14, RFC 5280 §6.1.3 (a)(1), and returns the leaf's key. The root's own signature adds nothing to
// the comparison of all its bytes.
func checkSignatures(links []link) (*ecdsa.PublicKey, error) {
	type value struct{ r, s *big.Int }
	keys := make([]*ecdsa.PublicKey, len(links))
	values := make([]value, len(links))
	for at, link := range links {
		key, r, s, reason := link.certificate.p384()
		if reason != "" {
			return nil, refuse("CHAIN_ALGORITHM", "%s %s", link.name, reason)
		}
		keys[at], values[at] = key, value{r, s}
	}
	for at := 1; at < len(links); at++ {
		if !verifyES384(keys[at-1], links[at].certificate.tbs, values[at].r, values[at].s) {
			return nil, refuse("CHAIN_SIGNATURE", "%s is not signed by its issuer's key", links[at].name)
		}
	}
	return keys[len(keys)-1], nil
}
