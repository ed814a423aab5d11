package clearseal

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Evidence under a root whose CAs sign revocation lists for tests.
func TestRevocation(t *testing.T) {
	running := startService(t)
	samples := filepath.Join(running.binaries, "revocation-samples")
	if _, err := os.Stat(samples); err != nil {
		skip(t, "no revocation-samples among the built programs")
	}
	command := exec.Command(samples)
	session := mustConnect(t, running.url, nil)
	command.Stdin = bytes.NewReader(encodeEvidence(session.proof.evidence))
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var signed struct{ Root, Evidence, Current, Revoking []byte }
	if err := json.Unmarshal(output, &signed); err != nil {
		t.Fatal(err)
	}
	evidence, err := ParseEvidence(signed.Evidence)
	if err != nil {
		t.Fatal(err)
	}
	root := map[string]any{"development": signed.Root}
	policy := changed(t, running, "root", root)
	required := *policy
	required.revocation = true
	document, err := ParseDocument(evidence.Document)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(policy *Policy, lists []byte, at time.Time) error {
		evidence.CRLs = lists
		_, err := Appraise(*evidence, policy, Live(document.Nonce, at))
		return err
	}
	at := document.Timestamp
	for _, test := range []struct {
		policy *Policy
		lists  []byte
		code   string
	}{
		{policy, nil, ""},
		{policy, signed.Current, ""},
		{&required, signed.Current, ""},
		{policy, signed.Revoking, "CERTIFICATE_REVOKED"},
		{policy, slices.Concat(signed.Current, signed.Revoking), "CERTIFICATE_REVOKED"},
		{&required, nil, "REVOCATION_UNKNOWN"},
		{policy, signed.Current[:len(signed.Current)-1], "CRL_MALFORMED"},
		{policy, make([]byte, maxCRLs+1), "CRL_TOO_LARGE"},
		{policy, bytes.Repeat(signed.Current, 30), "CRL_TOO_LARGE"},
	} {
		expectCode(t, judge(test.policy, test.lists, at), test.code)
	}
	// The chain names addresses of the first two lists, so that the policy misses one that becomes another chain's by its change.
	rest := &der{signed.Current}
	for range 2 {
		if _, err := nextList(rest); err != nil {
			t.Fatal(err)
		}
	}
	for place := range len(signed.Current) - len(rest.rest) {
		lists := slices.Clone(signed.Current)
		lists[place] ^= 1
		if err := judge(&required, lists, at); CodeOf(err) == "" {
			t.Errorf("byte %d: %v", place, err)
		}
	}
}

// encodeEvidence writes an answer of the attestation endpoint.
func encodeEvidence(evidence Evidence) []byte {
	encoded := appendBytes([]byte{0xa2, 1}, evidence.Document)
	return appendBytes(append(encoded, 2), evidence.Manifest)
}
