package clearseal

import (
	"bytes"
	"errors"
	"time"
)

const (
	maxCRLs  = 10 * 1024 * 1024
	maxLists = 64
)

// Object identifiers, as encoded in DER.
const (
	oidReasonCode        = "\x55\x1d\x15"
	oidDeltaIndicator    = "\x55\x1d\x1b"
	oidIssuingPoint      = "\x55\x1d\x1c"
	oidCertificateIssuer = "\x55\x1d\x1d"
)

// revocationList is one list (RFC 5280 §5.1) up to its issuer.
type revocationList struct {
	tbs, issuer, signature []byte
	inner, outer           algorithm
	rest                   der
}

// listContents is the rest of a list, for one certificate.
type listContents struct {
	thisUpdate, nextUpdate time.Time
	scope                  []byte
	revoked                bool
}

func refuseList(code, what string) error { return refuse(code, "a revocation list: %s", what) }

func malformedList(error) error {
	return refuseList("CRL_MALFORMED", "not the strict DER of a list of version 2")
}

// nextList takes one list from lists.
func nextList(lists *der) (*revocationList, error) {
	fields, err := lists.sequence()
	if err != nil {
		return nil, err
	}
	content, tbs, err := fields.expect(tagSequence)
	if err != nil {
		return nil, err
	}
	list := &revocationList{tbs: tbs}
	if list.outer, err = fields.algorithm(); err != nil {
		return nil, err
	}
	if list.signature, err = fields.bits(); err != nil || fields.end() != nil {
		return nil, errDER
	}
	signed := der{content}
	// §5.1.2.1: version 2, encoded as 1.
	if version, err := signed.unsigned(); err != nil || string(version) != "\x01" {
		return nil, errDER
	}
	if list.inner, err = signed.algorithm(); err != nil {
		return nil, err
	}
	_, list.issuer, err = signed.expect(tagSequence)
	list.rest = signed
	return list, err
}

// read reads the whole list, and looks for the entry of serial.
func (l *revocationList) read(serial []byte) (*listContents, error) {
	if !bytes.Equal(l.inner.whole, l.outer.whole) {
		return nil, malformedList(nil)
	}
	if !isES384(l.inner) {
		return nil, refuseList("CRL_ALGORITHM", "not signed with ECDSA and SHA-384")
	}
	rest := l.rest
	found := &listContents{}
	var err error
	if found.thisUpdate, err = rest.moment(); err != nil {
		return nil, malformedList(err)
	}
	// §5.1.2.5: required here, because a list without an end would stay valid forever.
	if found.nextUpdate, err = rest.moment(); err != nil {
		return nil, malformedList(err)
	}
	if rest.is(tagSequence) {
		entries, err := rest.sequence()
		if err != nil {
			return nil, malformedList(err)
		}
		for len(entries.rest) > 0 {
			of, err := readEntry(entries)
			if err != nil {
				return nil, err
			}
			found.revoked = found.revoked || bytes.Equal(of, serial)
		}
	}
	if rest.is(0xa0) {
		content, _, err := rest.expect(0xa0)
		if err != nil {
			return nil, malformedList(err)
		}
		if err := found.readExtensions(content); err != nil {
			return nil, err
		}
	}
	if rest.end() != nil {
		return nil, malformedList(nil)
	}
	return found, checkScope(found.scope)
}

// readEntry reads an entry of §5.1.2.6 and §5.3, and returns its serial number.
func readEntry(entries *der) ([]byte, error) {
	entry, err := entries.sequence()
	if err != nil {
		return nil, malformedList(err)
	}
	serial, err := entry.unsigned()
	if err != nil || len(serial) > maxSerial {
		return nil, malformedList(err)
	}
	if _, err := entry.moment(); err != nil {
		return nil, malformedList(err)
	}
	if len(entry.rest) == 0 {
		return serial, nil
	}
	return serial, eachExtension(entry.rest, func(found extension) error {
		switch found.oid {
		case oidReasonCode:
			// §5.3.1: removeFromCRL (8) occurs only in delta lists, and 7 is not used.
			value := found.value
			if len(value) != 3 || value[0] != 0x0a || value[1] != 1 || value[2] > 10 || value[2] == 7 || value[2] == 8 {
				return malformedList(nil)
			}
			return nil
		case oidCertificateIssuer:
			return refuseList("CRL_INDIRECT", "an entry of another issuer")
		}
		return unknownInList(found)
	})
}

func unknownInList(found extension) error {
	if found.critical {
		return refuseList("CRL_CRITICAL_EXTENSION", errCritical.Error())
	}
	return nil
}

func eachExtension(encoded []byte, take func(extension) error) error {
	outer := &der{encoded}
	list, err := outer.sequence()
	if err != nil || outer.end() != nil || len(list.rest) == 0 {
		return malformedList(err)
	}
	seen := map[string]bool{}
	for len(list.rest) > 0 {
		found, err := list.extension()
		if err != nil || seen[found.oid] {
			return malformedList(err)
		}
		seen[found.oid] = true
		if err := take(found); err != nil {
			return err
		}
	}
	return nil
}

func (c *listContents) readExtensions(encoded []byte) error {
	return eachExtension(encoded, func(found extension) error {
		switch found.oid {
		case oidDeltaIndicator:
			return refuseList("CRL_DELTA", "only the changes to another one")
		case oidIssuingPoint:
			outer := &der{found.value}
			scope, err := outer.sequence()
			if err != nil || outer.end() != nil {
				return malformedList(err)
			}
			c.scope = scope.rest
			return nil
		}
		return unknownInList(found)
	})
}

// checkScope reads an issuingDistributionPoint (§5.2.5): elements in order and once each, a flag only where it is set.
func checkScope(scope []byte) error {
	elements, before := der{scope}, byte(0)
	for len(elements.rest) > 0 {
		tag, content, _, err := elements.next()
		if err != nil {
			return malformedList(err)
		}
		flag := tag == 0x81 || tag == 0x82 || tag == 0x84 || tag == 0x85
		known := tag == 0xa0 || tag == 0x83 || (flag && string(content) == "\xff")
		if !known || tag&0x1f < before {
			return malformedList(nil)
		}
		before = tag&0x1f + 1
		if tag == 0x84 {
			return refuseList("CRL_INDIRECT", "it covers other issuers")
		}
	}
	return nil
}

// covers makes step (b) of §6.3.3: whether the absence of the certificate from the list means that it is not revoked.
func (c *listContents) covers(subject *certificate) error {
	ca := subject.constraints != nil && subject.constraints.ca
	elements := der{c.scope}
	for len(elements.rest) > 0 {
		tag, content, _, err := elements.next()
		if err != nil {
			return errDER
		}
		switch {
		case tag == 0xa0 && !namesPoint(subject.distribution, content):
			return errors.New("of another distribution point than the certificate names")
		case tag == 0x81 && ca, tag == 0x82 && !ca, tag == 0x83, tag == 0x85:
			return errors.New("it leaves out certificates or reasons")
		}
	}
	return nil
}

// namesPoint makes step (b)(2)(i) of §6.3.3: whether list and certificate have an address in common.
func namesPoint(points, own []byte) bool {
	if points == nil {
		return false
	}
	listed := &der{own}
	addresses, _, err := listed.expect(0xa0)
	if err != nil || listed.end() != nil {
		return false
	}
	outer := &der{points}
	entries, err := outer.sequence()
	if err != nil || outer.end() != nil {
		return false
	}
	for len(entries.rest) > 0 {
		point, err := entries.sequence()
		if err != nil {
			return false
		}
		// A point with reasons or with a cRLIssuer belongs to partial or indirect lists.
		content, _, err := point.expect(0xa0)
		if err != nil || point.end() != nil {
			continue
		}
		wrapped := &der{content}
		names, _, err := wrapped.expect(0xa0)
		if err != nil || wrapped.end() != nil {
			return false
		}
		if haveCommonName(names, addresses) {
			return true
		}
	}
	return false
}

func haveCommonName(a, b []byte) bool {
	for first := (der{a}); len(first.rest) > 0; {
		_, _, name, err := first.next()
		if err != nil {
			return false
		}
		for second := (der{b}); len(second.rest) > 0; {
			_, _, other, err := second.next()
			if err != nil {
				return false
			}
			if bytes.Equal(name, other) {
				return true
			}
		}
	}
	return false
}

// revocation is the outcome of check 27 for a chain of which no certificate is revoked.
type revocation struct {
	// uncovered names the first certificate of which the lists should have spoken and did not.
	uncovered string
	// nextUpdate is the first one among the lists that cover a certificate.
	nextUpdate *time.Time
}

type coverage struct {
	covered    bool
	from, till time.Time
	unusable   error
}

// checkRevocation makes check 27 (RFC 5280 §6.3.3). Lists of issuers outside the chain are ignored.
func (c *verifiedChain) checkRevocation(lists []byte, at time.Time) (*revocation, error) {
	if len(lists) > maxCRLs {
		return nil, refuse("CRL_TOO_LARGE", "the revocation lists have %d bytes", len(lists))
	}
	covered := make([]coverage, len(c.links))
	rest := &der{lists}
	for count := 0; len(rest.rest) > 0; count++ {
		if count == maxLists {
			return nil, refuse("CRL_TOO_LARGE", "there are more than %d revocation lists", maxLists)
		}
		list, err := nextList(rest)
		if err != nil {
			return nil, malformedList(err)
		}
		for index := 1; index < len(c.links); index++ {
			if !bytes.Equal(c.links[index-1].certificate.subject.whole, list.issuer) {
				continue
			}
			if err := c.judgeList(list, index, at, &covered[index]); err != nil {
				return nil, err
			}
		}
	}
	outcome := &revocation{uncovered: c.uncovered(covered)}
	for index := range covered {
		found := &covered[index]
		if !found.covered && found.unusable != nil {
			return nil, found.unusable
		}
		if found.covered && (outcome.nextUpdate == nil || found.till.Before(*outcome.nextUpdate)) {
			outcome.nextUpdate = &found.till
		}
	}
	return outcome, nil
}

// judgeList judges a list of the issuer above the certificate at index.
func (c *verifiedChain) judgeList(list *revocationList, index int, at time.Time, status *coverage) error {
	issuer, subject := c.links[index-1].certificate, c.links[index].certificate
	contents, err := list.read(subject.serial)
	if err != nil {
		return err
	}
	if issuer.usage == nil || !issuer.usage[usageCRLSign] {
		return refuseList("CRL_KEY_USAGE", "its issuer may not sign any")
	}
	key, _, _, reason := issuer.p384()
	r, s, ok := ecdsaValue(list.signature)
	if reason != "" || !ok || !verifyES384(key, list.tbs, r, s) {
		return refuseList("CRL_SIGNATURE", "not signed by its issuer's key")
	}
	// A certificate that is named stays revoked whatever the dates.
	if contents.revoked {
		return refuse("CERTIFICATE_REVOKED", "%s is revoked", c.links[index].name)
	}
	switch now := at.Unix(); {
	case now < contents.thisUpdate.Unix():
		status.unusable = refuseList("CRL_NOT_YET_VALID", "made after the judged moment")
		return nil
	case now > contents.nextUpdate.Unix():
		status.unusable = refuseList("CRL_EXPIRED", "past its nextUpdate")
		return nil
	}
	if err := contents.covers(subject); err != nil {
		status.unusable = refuseList("CRL_SCOPE", err.Error())
		return nil
	}
	from, till := contents.thisUpdate, contents.nextUpdate
	later := from.After(status.from) || (from.Equal(status.from) && till.After(status.till))
	if !status.covered || later {
		status.covered, status.from, status.till = true, from, till
	}
	return nil
}

// uncovered returns a certificate that should have been covered: one that names a place where revocations are published. If a
// chain names none, each certificate whose issuer may sign lists should have been.
func (c *verifiedChain) uncovered(covered []coverage) string {
	published := false
	for _, link := range c.links[1:] {
		published = published || link.certificate.distribution != nil
	}
	expects := false
	for index := 1; index < len(c.links); index++ {
		expected := c.links[index].certificate.distribution != nil
		if !published {
			usage := c.links[index-1].certificate.usage
			expected = usage != nil && usage[usageCRLSign]
		}
		expects = expects || expected
		if expected && !covered[index].covered {
			return c.links[index].name
		}
	}
	if !expects {
		return c.links[len(c.links)-1].name
	}
	return ""
}
