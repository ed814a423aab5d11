package clearseal

import (
	"crypto/sha256"
	"testing"
	"time"
)

// FuzzReaders gives the same bytes to every reader of outside data. None may panic, and each error has a code.
func FuzzReaders(f *testing.F) {
	for _, seed := range [][]byte{
		nil, {0xd2, 0x84}, {0xa2, 1, 0x40, 2, 0x40}, {0x84, 0x44, 0xa1, 1, 0x38, 0x22, 0xa0, 0x41, 0xbf, 0x40}, awsRoot,
		policyWith(""), []byte(`{"format":"clearseal-audit-bundle/1","receipt":"","document":"","manifest":""}`),
		responseBytes(line("vary", "a"), "abc"),
	} {
		f.Add(seed)
	}
	policy, err := ReadPolicy(policyWith(""))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		at := time.UnixMilli(firstMoment)
		var failures []error
		_, err := Inspect(input, input, at)
		failures = append(failures, err)
		_, err = ParseManifest(input)
		failures = append(failures, err)
		_, err = ParseEvidence(input)
		failures = append(failures, err)
		_, err = parseReceipt(input)
		failures = append(failures, err)
		_, err = decodeInner(input, true)
		failures = append(failures, err)
		_, err = decodeInner(input, false)
		failures = append(failures, err)
		_, err = ReadPolicy(input)
		failures = append(failures, err)
		_, err = VerifyReceipt(input, policy)
		failures = append(failures, err)
		for at, err := range failures {
			if err != nil && CodeOf(err) == "" {
				t.Errorf("reader %d: %v", at, err)
			}
		}
		if read, err := parseCertificate(input); err == nil {
			_, _, _, _ = read.p384()
		}
		if list, err := nextList(&der{input}); err == nil {
			_, _ = list.read([]byte{1})
		}
		responseHash(sha256.Sum256(input), input)
	})
}
