package clearseal

import (
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

type airVector struct {
	PublicKey string `json:"public_key_hex"`
	Receipt   string `json:"receipt_hex"`
	Policy    struct {
		MaxAge *int64  `json:"max_age_secs"`
		Nonce  *string `json:"expected_nonce_hex"`
	} `json:"verify_policy"`
	Failure *struct{ Code string } `json:"expected_failure"`
}

func TestReceiptsOfTheProfilesAuthors(t *testing.T) {
	vectors := folder(t, "CLEARSEAL_VECTORS", "published vectors")
	for _, name := range []string{
		"v1-nitro-no-nonce", "v1-nonce-mismatch", "v1-stale-iat", "v1-wrong-alg", "v1-zero-model-hash",
	} {
		t.Run(name, func(t *testing.T) {
			var vector airVector
			readInto(t, &vector, vectors, "air-v1", name+".json")
			expected := &expectations{key: [32]byte(fromHex(t, vector.PublicKey))}
			if vector.Policy.MaxAge != nil {
				at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
				expected.window = &receiptWindow{at: at, maxAge: time.Duration(*vector.Policy.MaxAge) * time.Second}
			}
			if vector.Policy.Nonce != nil {
				expected.nonce = fromHex(t, *vector.Policy.Nonce)
			}
			_, err := verifyReceipt(fromHex(t, vector.Receipt), expected)
			code := ""
			if vector.Failure != nil {
				code = vector.Failure.Code
			}
			if CodeOf(err) != code {
				t.Fatalf("expected %q, got %v", code, err)
			}
		})
	}
}

func TestEd25519IsStrict(t *testing.T) {
	vectors := folder(t, "CLEARSEAL_VECTORS", "published vectors")
	var suite struct {
		TestGroups []struct {
			PublicKey struct{ PK string }
			Tests     []struct {
				ID               int `json:"tcId"`
				Msg, Sig, Result string
			}
		}
	}
	readInto(t, &suite, vectors, "wycheproof", "ed25519_test.json")
	count := 0
	for _, group := range suite.TestGroups {
		key := [32]byte(fromHex(t, group.PublicKey.PK))
		for _, test := range group.Tests {
			count++
			if verifyEd25519(key, fromHex(t, test.Msg), fromHex(t, test.Sig)) != (test.Result == "valid") {
				t.Errorf("test %d: expected %s", test.ID, test.Result)
			}
		}
	}
	if count == 0 {
		t.Fatal("there are no tests")
	}
}

func TestKeysOfSmallOrderAreRefused(t *testing.T) {
	message := []byte("any message")
	for encoded := range smallOrder {
		for _, sign := range []byte{0, 0x80} {
			key := encoded
			key[31] |= sign
			if isStrictPoint(key) {
				t.Errorf("%x", key)
			}
			// R = key and S = 0 satisfy the equation of a verifier that is not strict, for some messages.
			if verifyEd25519(key, message, append(key[:], make([]byte, 32)...)) {
				t.Errorf("%x", key)
			}
		}
	}
	// y = p + 1 is another encoding of y = 1.
	other := [32]byte{0xee}
	for at := 1; at < 32; at++ {
		other[at] = 0xff
	}
	if other[31] = 0x7f; isStrictPoint(other) {
		t.Error("a coordinate beyond the field's prime")
	}
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil || !isStrictPoint([32]byte(public)) || !isOnCurve([32]byte(public)) {
		t.Error("an ordinary key is refused")
	}
}

// exampleReceipt is the receipt that docs/RECEIPTS.md decodes, with its key.
func exampleReceipt(t *testing.T) (receipt []byte, key [32]byte) {
	t.Helper()
	page, err := os.ReadFile("../../docs/RECEIPTS.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 2 {
		t.Fatal("the page has no example")
	}
	receipt, err = base64.RawURLEncoding.DecodeString(strings.ReplaceAll(blocks[1][1], "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return receipt, [32]byte(fromHex(t, strings.TrimSpace(blocks[0][1])))
}

func TestTheDocumentedReceiptIsRead(t *testing.T) {
	encoded, key := exampleReceipt(t)
	receipt, err := verifyReceipt(encoded, &expectations{key: key})
	if err != nil {
		t.Fatal(err)
	}
	if receipt.Issuer != "clearseal" || receipt.SequenceNumber != 41 || receipt.ModelHashScheme != "sha256-manifest" ||
		receipt.IssuedAt.Unix() != 1_795_183_380 || receipt.MemoryMiB != 192 || len(receipt.Registers) != 3 {
		t.Fatalf("%+v", receipt)
	}
	if receipt.ResponseHash != responseHash([32]byte(fromHex(t, strings.Repeat("5a", 32))), []byte("the content of the answer")) {
		t.Fatal("another response hash")
	}
}

func TestEachBitOfAReceiptCounts(t *testing.T) {
	encoded, key := exampleReceipt(t)
	for at := range encoded {
		for bit := range 8 {
			changed := append([]byte(nil), encoded...)
			changed[at] ^= 1 << bit
			if _, err := verifyReceipt(changed, &expectations{key: key}); CodeOf(err) == "" {
				t.Fatalf("bit %d of byte %d: %v", bit, at, err)
			}
		}
	}
	for end := range encoded {
		if _, err := verifyReceipt(encoded[:end], &expectations{key: key}); CodeOf(err) == "" {
			t.Fatalf("the first %d bytes: %v", end, err)
		}
	}
	if _, err := verifyReceipt(append(encoded, 0), &expectations{key: key}); CodeOf(err) != "TRAILING_BYTES" {
		t.Fatal(err)
	}
}
