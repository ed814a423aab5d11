package clearseal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

const (
	requestLabel  = "message/bhttp request"
	responseLabel = "message/bhttp response"
)

// opener is the only object that can open the answer to a sealed request.
type opener struct {
	enc, secret []byte
	keyLength   int
}

// sealingKey returns the key to seal to, X-Wing first, and its cipher. The standard library has no ChaCha20-Poly1305 for the
// answer, so this client uses AES-GCM alone.
func (m *Manifest) sealingKey() (*keyConfig, uint16, error) {
	for _, kem := range []uint16{kemXWing, kemX25519} {
		key := m.keyOf(kem)
		for _, aead := range []uint16{aeadAES256GCM, aeadAES128GCM} {
			if key != nil && slices.Contains(key.aeads, aead) {
				return key, aead, nil
			}
		}
	}
	return nil, 0, refuse("NO_USABLE_KEY", "the service offers no key that this client can seal to")
}

// encapsulate seals a request (RFC 9458 §4.3).
func encapsulate(key *keyConfig, aead uint16, request []byte) ([]byte, *opener, error) {
	fail := func(err error) ([]byte, *opener, error) {
		return nil, nil, &Error{Code: "SEAL_BAD_KEY", Message: "the service's key cannot be sealed to", cause: err}
	}
	kem, err := hpke.NewKEM(key.kem)
	if err != nil {
		return fail(err)
	}
	public, err := kem.NewPublicKey(key.publicKey)
	if err != nil {
		return fail(err)
	}
	suite, err := hpke.NewAEAD(aead)
	if err != nil {
		return fail(err)
	}
	header := []byte{key.id}
	for _, id := range []uint16{key.kem, kdfHKDFSHA256, aead} {
		header = binary.BigEndian.AppendUint16(header, id)
	}
	enc, sender, err := hpke.NewSender(public, hpke.HKDFSHA256(), suite, append([]byte(requestLabel+"\x00"), header...))
	if err != nil {
		return fail(err)
	}
	ciphertext, err := sender.Seal(nil, request)
	if err != nil {
		return fail(err)
	}
	length := 32
	if aead == aeadAES128GCM {
		length = 16
	}
	secret, err := sender.Export(responseLabel, length)
	if err != nil {
		return fail(err)
	}
	return slices.Concat(header, enc, ciphertext), &opener{enc, secret, length}, nil
}

// open opens the answer (RFC 9458 §4.4).
func (o *opener) open(sealed []byte) ([]byte, error) {
	if len(sealed) > maxResponse+o.keyLength+16 {
		return nil, refuse("SEAL_TOO_LARGE", "the sealed answer has %d bytes", len(sealed))
	}
	if len(sealed) < o.keyLength+16 {
		return nil, refuse("SEAL_TRUNCATED", "the sealed answer ends early")
	}
	nonce, ciphertext := sealed[:o.keyLength], sealed[o.keyLength:]
	opened, err := o.decrypt(nonce, ciphertext)
	if err != nil {
		return nil, refuse("SEAL_OPEN_FAILED", "the sealed answer cannot be opened")
	}
	return opened, nil
}

func (o *opener) decrypt(responseNonce, ciphertext []byte) ([]byte, error) {
	extracted, err := hkdf.Extract(sha256.New, o.secret, slices.Concat(o.enc, responseNonce))
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Expand(sha256.New, extracted, "key", o.keyLength)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Expand(sha256.New, extracted, "nonce", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return gcm.Open(nil, nonce, ciphertext, nil)
}
