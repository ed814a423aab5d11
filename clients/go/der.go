package clearseal

import (
	"bytes"
	"encoding/asn1"
	"errors"
	"math/big"
	"time"
)

// Tags of X.690 in the encodings that DER uses.
const (
	tagBoolean     = 0x01
	tagInteger     = 0x02
	tagBitString   = 0x03
	tagOctetString = 0x04
	tagOID         = 0x06
	tagUTCTime     = 0x17
	tagGeneralTime = 0x18
	tagSequence    = 0x30
	tagSet         = 0x31
)

var errDER = errors.New("not in DER")

// der reads values one after another. Each has one encoding (X.690 §10): another one is refused.
type der struct{ rest []byte }

// next returns tag, content and whole encoding of the next value.
func (d *der) next() (tag byte, content, whole []byte, err error) {
	if len(d.rest) < 2 {
		return 0, nil, nil, errDER
	}
	tag = d.rest[0]
	// Tags above 30 occur nowhere in these structures.
	if tag&0x1f == 0x1f || tag == 0 {
		return 0, nil, nil, errDER
	}
	length, head := int(d.rest[1]), 2
	if length >= 0x80 {
		count := length & 0x7f
		if count == 0 || count > 3 || len(d.rest) < 2+count {
			return 0, nil, nil, errDER
		}
		length, head = 0, 2+count
		for _, octet := range d.rest[2:head] {
			length = length<<8 | int(octet)
		}
		// §10.1: the fewest bytes.
		if length < 0x80 || length < 1<<(8*(count-1)) {
			return 0, nil, nil, errDER
		}
	}
	if length > len(d.rest)-head {
		return 0, nil, nil, errDER
	}
	whole = d.rest[:head+length]
	d.rest = d.rest[head+length:]
	return tag, whole[head:], whole, nil
}

func (d *der) expect(wanted byte) (content, whole []byte, err error) {
	tag, content, whole, err := d.next()
	if err == nil && tag != wanted {
		err = errDER
	}
	return content, whole, err
}

func (d *der) is(tag byte) bool { return len(d.rest) > 0 && d.rest[0] == tag }

// sequence opens a SEQUENCE.
func (d *der) sequence() (*der, error) {
	content, _, err := d.expect(tagSequence)
	return &der{content}, err
}

func (d *der) end() error {
	if len(d.rest) != 0 {
		return errDER
	}
	return nil
}

// oid returns the content of an object identifier, with each arc in the fewest bytes (§8.19.2).
func (d *der) oid() (string, error) {
	content, _, err := d.expect(tagOID)
	if err != nil || len(content) == 0 || content[len(content)-1] >= 0x80 {
		return "", errDER
	}
	starts := true
	for _, octet := range content {
		if starts && octet == 0x80 {
			return "", errDER
		}
		starts = octet < 0x80
	}
	return string(content), nil
}

// unsigned returns the magnitude of an INTEGER that is not negative (§8.3.2).
func (d *der) unsigned() ([]byte, error) {
	content, _, err := d.expect(tagInteger)
	if err != nil || len(content) == 0 || content[0] >= 0x80 {
		return nil, errDER
	}
	if content[0] == 0 && len(content) > 1 {
		if content[1] < 0x80 {
			return nil, errDER
		}
		return content[1:], nil
	}
	return content, nil
}

// bits returns a BIT STRING of whole bytes.
func (d *der) bits() ([]byte, error) {
	content, _, err := d.expect(tagBitString)
	if err != nil || len(content) == 0 || content[0] != 0 {
		return nil, errDER
	}
	return content[1:], nil
}

// moment reads a Time of RFC 5280 §4.1.2.5.
func (d *der) moment() (time.Time, error) {
	tag, content, _, err := d.next()
	if err != nil {
		return time.Time{}, err
	}
	layout := ""
	switch {
	case tag == tagUTCTime && len(content) == 13:
		century := "19"
		if content[0] < '5' {
			century = "20"
		}
		content = append([]byte(century), content...)
		layout = "utc"
	case tag == tagGeneralTime && len(content) == 15:
		layout = "general"
	default:
		return time.Time{}, errDER
	}
	for _, letter := range content[:14] {
		if letter < '0' || letter > '9' {
			return time.Time{}, errDER
		}
	}
	// Parse refuses a day or an hour that does not exist.
	moment, err := time.Parse("20060102150405Z", string(content))
	// §4.1.2.5: until 2049 as UTCTime.
	if err != nil || moment.Year() < 1970 || (layout == "general" && moment.Year() < 2050) {
		return time.Time{}, errDER
	}
	return moment, nil
}

// algorithm is an AlgorithmIdentifier.
type algorithm struct {
	oid        string
	parameters []byte
	whole      []byte
}

func (d *der) algorithm() (algorithm, error) {
	content, whole, err := d.expect(tagSequence)
	if err != nil {
		return algorithm{}, err
	}
	inner := &der{content}
	oid, err := inner.oid()
	if err != nil {
		return algorithm{}, err
	}
	found := algorithm{oid: oid, whole: whole}
	if len(inner.rest) > 0 {
		if _, _, found.parameters, err = inner.next(); err != nil {
			return algorithm{}, err
		}
	}
	return found, inner.end()
}

// name reads a Name, and refuses values that are not text in the characters of their type.
func (d *der) name() (name, error) {
	content, whole, err := d.expect(tagSequence)
	if err != nil {
		return name{}, err
	}
	read := name{whole: whole, empty: len(content) == 0}
	sets := &der{content}
	for len(sets.rest) > 0 {
		set, _, err := sets.expect(tagSet)
		if err != nil || len(set) == 0 {
			return name{}, errDER
		}
		attributes := &der{set}
		var before []byte
		for len(attributes.rest) > 0 {
			attribute, encoded, err := attributes.expect(tagSequence)
			// X.690 §11.6: sorted; an attribute that occurs twice is refused.
			if err != nil || (before != nil && bytes.Compare(before, encoded) >= 0) {
				return name{}, errDER
			}
			before = encoded
			fields := &der{attribute}
			if _, err := fields.oid(); err != nil {
				return name{}, err
			}
			tag, value, _, err := fields.next()
			if err != nil || !isText(tag, value) || fields.end() != nil {
				return name{}, errDER
			}
		}
	}
	return read, nil
}

type name struct {
	whole []byte
	empty bool
}

func isText(tag byte, content []byte) bool {
	switch tag {
	case asn1.TagUTF8String:
		return bytes.Equal(bytes.ToValidUTF8(content, nil), content)
	case asn1.TagPrintableString:
		for _, letter := range content {
			alphanumeric := letter >= '0' && letter <= '9' || letter >= 'A' && letter <= 'Z' || letter >= 'a' && letter <= 'z'
			if !alphanumeric && !bytes.ContainsRune([]byte(" '()+,-./:=?"), rune(letter)) {
				return false
			}
		}
		return true
	case asn1.TagIA5String:
		for _, letter := range content {
			if letter >= 0x80 {
				return false
			}
		}
		return true
	}
	return tag == asn1.TagT61String || tag == asn1.TagBMPString
}

// ecdsaValue reads an ECDSA-Sig-Value of P-384 with r and s in range.
func ecdsaValue(encoded []byte) (r, s *big.Int, ok bool) {
	outer := &der{encoded}
	inner, err := outer.sequence()
	if err != nil || outer.end() != nil {
		return nil, nil, false
	}
	first, err := inner.unsigned()
	if err != nil {
		return nil, nil, false
	}
	second, err := inner.unsigned()
	if err != nil || inner.end() != nil {
		return nil, nil, false
	}
	r, s = new(big.Int).SetBytes(first), new(big.Int).SetBytes(second)
	return r, s, isScalar(r) && isScalar(s)
}
