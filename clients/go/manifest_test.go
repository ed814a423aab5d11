package clearseal

import (
	"bytes"
	"slices"
	"testing"
)

// manifestWith is a manifest whose model has further entries.
func manifestWith(entries int, further ...byte) []byte {
	filled := func(length int) []byte { return bytes.Repeat([]byte{7}, length) }
	key := slices.Concat([]byte{0, 41, 1, 0, 0x20}, filled(32), []byte{0, 4, 0, 1, 0, 2})
	return slices.Concat(
		[]byte{0xa8, 1, 1, 2, 0x58, byte(len(key))}, key,
		[]byte{3, 0x58, 32}, filled(32),
		[]byte{4, 0xa0 + byte(entries), 1, 0x61, 'm', 2, 0x61, 'v', 3, 0x58, 32}, filled(32),
		[]byte{4, 0x6d}, []byte("sha256-single"), []byte{5, 0x19, 1, 0x80, 6, 0x19, 1, 0}, further,
		[]byte{5, 0x61, 'p', 6, 0x6a}, []byte("production"), []byte{7, 1, 8, 2},
	)
}

func TestAManifestStatesOnlyThatRowsHaveOtherLengths(t *testing.T) {
	plain, err := ParseManifest(manifestWith(6))
	if err != nil || !plain.Normalised {
		t.Fatal(plain, err)
	}
	stated, err := ParseManifest(manifestWith(7, 7, 0xf4))
	if err != nil || stated.Normalised {
		t.Fatal(stated, err)
	}
	for _, further := range [][]byte{{7, 0xf5}, {7, 0xf6}, {7, 0}, {8, 0xf4}} {
		if _, err := ParseManifest(manifestWith(7, further...)); CodeOf(err) != "MANIFEST_MALFORMED" {
			t.Fatal(further, err)
		}
	}
	if _, err := ParseManifest(manifestWith(8, 7, 0xf4, 8, 0xf4)); CodeOf(err) != "MANIFEST_MALFORMED" {
		t.Fatal(err)
	}
}

func TestAManifestListsFurtherModelsOnlyIfThereAreAny(t *testing.T) {
	plain := manifestWith(6)
	model := plain[bytes.Index(plain, []byte{0xa6, 1, 0x61, 'm'}):bytes.Index(plain, []byte{5, 0x61, 'p'})]
	several := func(further ...byte) []byte {
		return slices.Concat([]byte{0xa9}, plain[1:], []byte{9}, further)
	}
	other := slices.Clone(model)
	other[3] = 'o'
	manifest, err := ParseManifest(several(slices.Concat([]byte{0x81}, other)...))
	if err != nil || len(manifest.Others) != 1 || manifest.Others[0].ModelID != "o" || manifest.ModelID != "m" {
		t.Fatal(manifest, err)
	}
	pin := &modelPin{id: "org/o", sha256: manifest.ModelSHA256}
	if !manifest.chooseModel(pin) || manifest.ModelID != "o" || manifest.Others[0].ModelID != "m" {
		t.Fatal(manifest)
	}
	pin.sha256[0] ^= 1
	if manifest.chooseModel(pin) || manifest.ModelID != "o" {
		t.Fatal(manifest)
	}
	for _, further := range [][]byte{{0x80}, {0x81}, {0x81, 0}, {0xa0}} {
		if _, err := ParseManifest(several(further...)); CodeOf(err) != "MANIFEST_MALFORMED" {
			t.Fatal(further, err)
		}
	}
}
