package clearseal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha512"
	"errors"
	"math/big"
	"time"
)

// Object identifiers, as encoded in DER.
const (
	oidECDSAWithSHA384  = "\x2a\x86\x48\xce\x3d\x04\x03\x03"
	oidECPublicKey      = "\x2a\x86\x48\xce\x3d\x02\x01"
	oidP384             = "\x2b\x81\x04\x00\x22"
	oidBasicConstraints = "\x55\x1d\x13"
	oidKeyUsage         = "\x55\x1d\x0f"
	oidDistribution     = "\x55\x1d\x1f"
)

const maxSerial = 20

// certificate is one certificate of a chain (RFC 5280 §4.1) in strict DER. Nothing about it has been verified.
//
// crypto/x509 accepts other encodings, defaults that are spelt out, and fields that this chain never has; so it is not used here.
type certificate struct {
	tbs                 []byte
	serial              []byte
	issuer, subject     name
	notBefore, notAfter time.Time
	algorithm           algorithm
	keyAlgorithm        algorithm
	key                 []byte
	signature           []byte
	constraints         *basicConstraints
	usage               *keyUsage
	distribution        []byte
}

type basicConstraints struct {
	critical, ca bool
	// pathLength is -1 if there is none.
	pathLength int
}

// keyUsage has bit 0, digitalSignature, first.
type keyUsage [9]bool

const (
	usageDigitalSignature = 0
	usageCertSign         = 5
	usageCRLSign          = 6
)

var errCritical = errors.New("a critical extension that this verifier does not know")

func parseCertificate(bytes []byte) (*certificate, error) {
	outer := &der{bytes}
	fields, err := outer.sequence()
	if err != nil || outer.end() != nil {
		return nil, errDER
	}
	content, tbs, err := fields.expect(tagSequence)
	if err != nil {
		return nil, err
	}
	found := &certificate{tbs: tbs}
	if found.algorithm, err = fields.algorithm(); err != nil {
		return nil, err
	}
	if found.signature, err = fields.bits(); err != nil || fields.end() != nil {
		return nil, errDER
	}
	return found, found.readSigned(&der{content})
}

func (c *certificate) readSigned(signed *der) error {
	// §4.1.2.1: [0] EXPLICIT version 3.
	version, _, err := signed.expect(0xa0)
	if err != nil || string(version) != "\x02\x01\x02" {
		return errors.New("not of version 3")
	}
	if c.serial, err = signed.unsigned(); err != nil || len(c.serial) > maxSerial {
		return errors.New("a serial number that is negative or too long")
	}
	inner, err := signed.algorithm()
	if err != nil {
		return err
	}
	// §4.1.1.2: the outer algorithm repeats the signed one.
	if string(inner.whole) != string(c.algorithm.whole) {
		return errors.New("two signature algorithms that differ")
	}
	if c.issuer, err = signed.name(); err != nil || c.issuer.empty {
		return errors.New("an issuer that is empty or not a name")
	}
	validity, err := signed.sequence()
	if err != nil {
		return err
	}
	if c.notBefore, err = validity.moment(); err != nil {
		return err
	}
	if c.notAfter, err = validity.moment(); err != nil || validity.end() != nil {
		return errDER
	}
	if c.subject, err = signed.name(); err != nil {
		return err
	}
	info, err := signed.sequence()
	if err != nil {
		return err
	}
	if c.keyAlgorithm, err = info.algorithm(); err != nil {
		return err
	}
	if c.key, err = info.bits(); err != nil || info.end() != nil {
		return errDER
	}
	if len(signed.rest) == 0 {
		return nil
	}
	// §4.1.2.8: CAs must not generate unique identifiers, [1] and [2].
	explicit, _, err := signed.expect(0xa3)
	if err != nil || signed.end() != nil {
		return errDER
	}
	wrapped := &der{explicit}
	list, err := wrapped.sequence()
	if err != nil || wrapped.end() != nil || len(list.rest) == 0 {
		return errDER
	}
	return c.readExtensions(list)
}

// extension is one of RFC 5280 §4.2.
type extension struct {
	oid      string
	critical bool
	value    []byte
}

func (d *der) extension() (extension, error) {
	fields, err := d.sequence()
	if err != nil {
		return extension{}, err
	}
	var found extension
	if found.oid, err = fields.oid(); err != nil {
		return extension{}, err
	}
	if fields.is(tagBoolean) {
		// DEFAULT FALSE is never written (X.690 §11.5), and TRUE is ff (§11.1).
		if content, _, err := fields.expect(tagBoolean); err != nil || string(content) != "\xff" {
			return extension{}, errDER
		}
		found.critical = true
	}
	if found.value, _, err = fields.expect(tagOctetString); err != nil || fields.end() != nil {
		return extension{}, errDER
	}
	return found, nil
}

func (c *certificate) readExtensions(list *der) error {
	seen := map[string]bool{}
	for len(list.rest) > 0 {
		found, err := list.extension()
		if err != nil {
			return err
		}
		if seen[found.oid] {
			return errors.New("an extension that occurs twice")
		}
		seen[found.oid] = true
		switch found.oid {
		case oidBasicConstraints:
			if c.constraints, err = readConstraints(found); err != nil {
				return err
			}
		case oidKeyUsage:
			if c.usage, err = readUsage(found.value); err != nil {
				return err
			}
		default:
			if found.critical {
				return errCritical
			}
			if found.oid == oidDistribution {
				c.distribution = found.value
			}
		}
	}
	return nil
}

func readConstraints(from extension) (*basicConstraints, error) {
	outer := &der{from.value}
	fields, err := outer.sequence()
	if err != nil || outer.end() != nil {
		return nil, errDER
	}
	read := &basicConstraints{critical: from.critical, pathLength: -1}
	if fields.is(tagBoolean) {
		if content, _, err := fields.expect(tagBoolean); err != nil || string(content) != "\xff" {
			return nil, errDER
		}
		read.ca = true
	}
	if len(fields.rest) > 0 {
		length, err := fields.unsigned()
		if err != nil || len(length) != 1 {
			return nil, errDER
		}
		read.pathLength = int(length[0])
	}
	return read, fields.end()
}

func readUsage(value []byte) (*keyUsage, error) {
	outer := &der{value}
	content, _, err := outer.expect(tagBitString)
	if err != nil || outer.end() != nil || len(content) < 2 || len(content) > 3 {
		return nil, errDER
	}
	unused, named := int(content[0]), content[1:]
	last := named[len(named)-1]
	// X.690 §11.2.2: no zeros after the last named bit that is set.
	if unused > 7 || last&(1<<unused) == 0 || last&(1<<unused-1) != 0 || 8*len(named)-unused > 9 {
		return nil, errDER
	}
	read := new(keyUsage)
	for at := range read {
		if at/8 < len(named) {
			read[at] = named[at/8]&(0x80>>(at%8)) != 0
		}
	}
	return read, nil
}

// p384 returns key and signature of a certificate that uses the chain's only algorithm, or the reason why it does not.
func (c *certificate) p384() (key *ecdsa.PublicKey, r, s *big.Int, reason string) {
	if !isES384(c.algorithm) {
		return nil, nil, nil, "is not signed with ECDSA and SHA-384"
	}
	curve := &der{c.keyAlgorithm.parameters}
	if oid, err := curve.oid(); err != nil || c.keyAlgorithm.oid != oidECPublicKey || oid != oidP384 || curve.end() != nil {
		return nil, nil, nil, "has a key that is not on P-384"
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P384(), c.key)
	if err != nil {
		return nil, nil, nil, "has a key that is not a point of P-384"
	}
	r, s, ok := ecdsaValue(c.signature)
	if !ok {
		return nil, nil, nil, "has a signature that is not an ECDSA value of P-384"
	}
	return key, r, s, ""
}

// isES384 reports RFC 5758 §3.2, whose parameters field is absent.
func isES384(found algorithm) bool {
	return found.oid == oidECDSAWithSHA384 && found.parameters == nil
}

func isScalar(number *big.Int) bool {
	return number.Sign() > 0 && number.Cmp(elliptic.P384().Params().N) < 0
}

func verifyES384(key *ecdsa.PublicKey, message []byte, r, s *big.Int) bool {
	digest := sha512.Sum384(message)
	return isScalar(r) && isScalar(s) && ecdsa.Verify(key, digest[:], r, s)
}
