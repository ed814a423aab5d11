package clearseal

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestVectorsAreProvenOneByOne(t *testing.T) {
	service := startService(t)
	policy := service.policy()
	file := filepath.Join(t.TempDir(), "proofs.jsonl")
	embed := exec.Command(filepath.Join(service.binaries, "clearseal"),
		"embed", "--url", service.url, "--accept-simulated", "--proofs", file)
	embed.Stdin = strings.NewReader("The cat sleeps.\nInterest rates rose.\nThe match ended in a draw.\n")
	output, err := embed.Output()
	if err != nil {
		t.Fatal(err)
	}
	rows := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	proofs, err := SplitProofs(readFile(t, file))
	if err != nil || len(proofs) != len(rows) {
		t.Fatalf("%d proofs of %d rows: %v", len(proofs), len(rows), err)
	}
	for at, proof := range proofs {
		proven, err := VerifyVector(proof, rows[at], policy)
		if err != nil {
			t.Fatal(err)
		}
		if proven.Receipt.Verdict != Simulated || proven.Tokens == 0 || proven.Truncated || proven.Prompt != "" {
			t.Fatalf("%+v", proven)
		}
	}
	change := func(name string, value any) []byte {
		var row map[string]any
		if err := json.Unmarshal(rows[0], &row); err != nil {
			t.Fatal(err)
		}
		row[name] = value
		changed, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	evidence, item, _ := bytes.Cut(proofs[0], []byte("\n"))
	joined := func(lines ...[]byte) []byte { return bytes.Join(lines, []byte("\n")) }
	for _, known := range []struct {
		proof, row []byte
		code       string
	}{
		{joined(item, evidence), rows[0], ""},
		{proofs[0], rows[1], "RESPONSE_HASH_MISMATCH"},
		{proofs[0], change("text", "The dog sleeps."), "RESPONSE_HASH_MISMATCH"},
		{proofs[0], change("tokens", 99), "ROW_DIFFERS"},
		{proofs[0], change("truncated", true), "ROW_DIFFERS"},
		{proofs[0], change("tokens", []int{7, 8}), "ROW_MALFORMED"},
		{proofs[0], []byte(`{"text":"a"}`), "ROW_MALFORMED"},
		{evidence, rows[0], "PROOF_INCOMPLETE"},
		{joined(evidence, item, item), rows[0], "PROOF_SEVERAL"},
		{joined(evidence, []byte("{}")), rows[0], "PROOF_MALFORMED"},
		{bytes.Replace(proofs[0], []byte(`"evidence":"`), []byte(`"evidence":"00`), 1), rows[0], "PROOF_OTHER_EVIDENCE"},
		{bytes.Replace(proofs[0], []byte(`"index":0`), []byte(`"index":9`), 1), rows[0], "LEAF_OUTSIDE_TREE"},
		{bytes.Replace(proofs[0], []byte(`"path":[`), []byte(`"path":["`+strings.Repeat("A", 43)+`",`), 1), rows[0], "PROOF_LENGTH"},
	} {
		_, err := VerifyVector(known.proof, known.row, policy)
		expectCode(t, err, known.code)
	}
}

func TestReceiptsAreInOneHistory(t *testing.T) {
	service := startService(t)
	policy := service.policy()
	session := mustConnect(t, service.url, policy)
	embedOnce := func() []byte {
		_, answer, err := session.EmbedWithAnswer(t.Context(), []string{secretText})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Bundle(false)
	}
	var earlier []byte
	var proofs []LogProof
	var bundle []byte
	for number := range uint64(3) {
		bundle = embedOnce()
		proof := service.logProof(session, bundle, earlier)
		receipt, head, err := VerifyLogged(bundle, policy, proof)
		if err != nil {
			t.Fatal(err)
		}
		if receipt.SequenceNumber != number+1 || head.Size <= receipt.SequenceNumber {
			t.Fatalf("receipt %d in a tree of %d leaves", receipt.SequenceNumber, head.Size)
		}
		earlier, proofs = head.Signed, append(proofs, proof)
	}
	last := proofs[2]
	for name, known := range map[string]struct {
		change func(proof *LogProof)
		code   string
	}{
		"another receipt's proof": {func(p *LogProof) { p.Inclusion = proofs[0].Inclusion }, "NUMBER_MISMATCH"},
		"no JSON":                 {func(p *LogProof) { p.Inclusion = []byte("{}") }, "LOG_JSON_MALFORMED"},
		"another path": {func(p *LogProof) {
			p.Inclusion = bytes.Replace(p.Inclusion, []byte(`"path":["`), []byte(`"path":["`+strings.Repeat("0", 64)+`","`), 1)
		}, "PROOF_LENGTH"},
		"a changed head":        {func(p *LogProof) { p.Earlier = append(bytes.Clone(p.Earlier), 0) }, "HEAD_MALFORMED"},
		"a changed signature":   {func(p *LogProof) { p.Earlier = bytes.Clone(p.Earlier); p.Earlier[len(p.Earlier)-40] ^= 1 }, "HEAD_SIG_FAILED"},
		"sizes of another pair": {func(p *LogProof) { p.Consistency = proofs[1].Consistency }, "SIZES_MISMATCH"},
		"no proof between":      {func(p *LogProof) { p.Consistency = nil }, "CONSISTENCY_MISSING"},
	} {
		t.Run(name, func(t *testing.T) {
			proof := last
			known.change(&proof)
			_, _, err := VerifyLogged(bundle, policy, proof)
			expectCode(t, err, known.code)
		})
	}
}
