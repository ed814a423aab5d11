package clearseal

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// folder returns what an environment variable names. Without it the test is skipped, and xtask counts it.
func folder(t *testing.T, variable, what string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		skip(t, "no "+what+"; "+variable+" names them")
	}
	return path
}

// skip skips the test, and adds it to the list that xtask reports.
func skip(t *testing.T, reason string) {
	t.Helper()
	if list := os.Getenv("CLEARSEAL_SKIPPED"); list != "" {
		file, err := os.OpenFile(list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			fmt.Fprintf(file, "clients/go::%s\t%s\n", t.Name(), reason)
			err = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Skip(reason)
}

func readFile(t *testing.T, parts ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func readInto(t *testing.T, to any, parts ...string) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, parts...), to); err != nil {
		t.Fatal(err)
	}
}

func fromHex(t *testing.T, text string) []byte {
	t.Helper()
	content, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// authentic runs checks 1 to 21 under a root.
func authentic(document, root []byte, at time.Time) error {
	parsed, err := ParseDocument(document)
	if err != nil {
		return err
	}
	_, err = parsed.authenticate(root, nil, at)
	return err
}

// made is the time that a document states; any, if it cannot be read.
func made(document []byte) time.Time {
	parsed, err := ParseDocument(document)
	if err != nil {
		return time.UnixMilli(firstMoment)
	}
	return parsed.Timestamp
}

func TestGenuineDocumentsAreAuthentic(t *testing.T) {
	vectors := folder(t, "CLEARSEAL_VECTORS", "published vectors")
	var index struct {
		Documents []struct {
			File     string
			Expected string
			Debug    bool
		}
	}
	readInto(t, &index, vectors, "nitro", "index.json")
	if len(index.Documents) == 0 {
		t.Fatal("there are no documents")
	}
	for _, known := range index.Documents {
		t.Run(known.File, func(t *testing.T) {
			document := readFile(t, vectors, "nitro", known.File)
			_, err := Inspect(document, nil, made(document))
			if (known.Expected == "valid") != (err == nil) {
				t.Fatalf("expected %s: %v", known.Expected, err)
			}
			if err != nil {
				return
			}
			parsed, _ := ParseDocument(document)
			if parsed.debugMode() != known.Debug {
				t.Fatalf("debug mode: %v", parsed.debugMode())
			}
			if _, err := Inspect(document, nil, time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); CodeOf(err) != "CERTIFICATE_EXPIRED" {
				t.Fatalf("later: %v", err)
			}
		})
	}
}

func TestDerivedAndForgedDocumentsAreJudgedAlike(t *testing.T) {
	vectors := folder(t, "CLEARSEAL_VECTORS", "published vectors")
	for _, family := range []string{"derived", "testpki"} {
		var cases struct {
			Cases []struct{ File, Expected, Note string }
		}
		readInto(t, &cases, vectors, "nitro", family, "cases.json")
		root := awsRoot
		if family == "testpki" {
			root = readFile(t, vectors, "nitro", family, "test_root.der")
		}
		for _, known := range cases.Cases {
			t.Run(known.File, func(t *testing.T) {
				document := readFile(t, vectors, "nitro", known.File)
				err := authentic(document, root, made(document))
				// "policy": sound verifiers may differ.
				if known.Expected != "policy" && (known.Expected == "valid") != (err == nil) {
					t.Fatalf("expected %s (%s): %v", known.Expected, known.Note, err)
				}
			})
		}
	}
}

// kitPolicy is a question's policy in the form of docs/POLICY.md.
func kitPolicy(t *testing.T, root []byte, registers map[string]string, maxAge *uint64) (*Policy, error) {
	t.Helper()
	members := map[string]any{
		"format": policyFormat, "name": "kit",
		"root":     map[string]string{"development": base64.StdEncoding.EncodeToString(root)},
		"releases": []any{map[string]any{"name": "demanded", "pcrs": registers}},
	}
	if maxAge != nil {
		members["max_age_seconds"] = *maxAge
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return ReadPolicy(text)
}

// The kit that `conformance write` makes: each document with the code that the Rust verifier gives.
func TestConformanceKit(t *testing.T) {
	kit := folder(t, "CLEARSEAL_KIT", "conformance kit")
	var manifest struct {
		Root    string
		Vectors []struct {
			ID, File, Code, Expected string
			Time                     int64
			Policy                   *struct {
				PCRs   map[string]string
				Nonce  *string
				MaxAge *uint64 `json:"max_age_seconds"`
			}
		}
	}
	readInto(t, &manifest, kit, "kit.json")
	root, err := base64.StdEncoding.DecodeString(manifest.Root)
	if err != nil || len(manifest.Vectors) == 0 {
		t.Fatal("not a kit")
	}
	for _, vector := range manifest.Vectors {
		t.Run(vector.ID, func(t *testing.T) {
			document, at := readFile(t, kit, vector.File), time.UnixMilli(vector.Time)
			var err error
			if vector.Policy == nil {
				err = authentic(document, root, at)
			} else {
				policy, unusable := kitPolicy(t, root, vector.Policy.PCRs, vector.Policy.MaxAge)
				freshness := AsOf(at, nil)
				if vector.Policy.Nonce != nil {
					freshness = Live(fromHex(t, *vector.Policy.Nonce), at)
				}
				if err = unusable; err == nil {
					if vector.Policy.MaxAge == nil {
						policy.maxAge = 86_400 * time.Second
					}
					_, err = Appraise(Evidence{Document: document}, policy, freshness)
				}
			}
			if code := CodeOf(err); code != vector.Code || (err == nil) != (vector.Expected == "accept") {
				t.Fatalf("expected %q, got %v", vector.Code, err)
			}
		})
	}
}

// Receipts, rows and logs of one enclave, each with the code that the Rust verifier gives.
func TestExchangeVectors(t *testing.T) {
	kit := folder(t, "CLEARSEAL_KIT", "conformance kit")
	var suite struct {
		Format, Policy string
		Receipts       []struct{ ID, Bundle, Code string }
		Vectors        []struct{ ID, Proof, Row, Code string }
		Logs           []struct {
			ID, Bundle, Inclusion, Code string
			Earlier, Consistency        *string
		}
	}
	readInto(t, &suite, kit, "exchanges.json")
	policy, err := ReadPolicy([]byte(suite.Policy))
	if err != nil || suite.Format != "clearseal-vectors/1" {
		t.Fatal("not the exchange vectors", err)
	}
	expect := func(kind, id, code string, err error) {
		t.Helper()
		if CodeOf(err) != code || (err == nil) != (code == "") {
			t.Errorf("%s %s: expected %q, got %v", kind, id, code, err)
		}
	}
	for _, known := range suite.Receipts {
		_, err := VerifyReceipt([]byte(known.Bundle), policy)
		expect("receipt", known.ID, known.Code, err)
	}
	for _, known := range suite.Vectors {
		_, err := VerifyVector([]byte(known.Proof), []byte(known.Row), policy)
		expect("vector", known.ID, known.Code, err)
	}
	for _, known := range suite.Logs {
		proof := LogProof{Inclusion: []byte(known.Inclusion)}
		if known.Earlier != nil {
			if proof.Earlier, err = decodeBase64(*known.Earlier); err != nil {
				t.Fatal(err)
			}
		}
		if known.Consistency != nil {
			proof.Consistency = []byte(*known.Consistency)
		}
		_, _, err := VerifyLogged([]byte(known.Bundle), policy, proof)
		expect("log", known.ID, known.Code, err)
	}
	if len(suite.Receipts) == 0 || len(suite.Vectors) == 0 || len(suite.Logs) == 0 {
		t.Fatal("a family is empty")
	}
}
