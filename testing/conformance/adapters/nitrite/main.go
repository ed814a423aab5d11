// Adapter for github.com/hf/nitrite.
package main

import (
	"bufio"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/hf/nitrite"
)

type request struct {
	ID       string          `json:"id"`
	Document string          `json:"document"`
	Time     int64           `json:"time"`
	Root     string          `json:"root"`
	Policy   json.RawMessage `json:"policy"`
}

type answer struct {
	ID      string `json:"id"`
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, "no question:", err)
			os.Exit(1)
		}
		if err := output.Encode(judge(asked)); err != nil {
			os.Exit(1)
		}
	}
}

func judge(asked request) (given answer) {
	given.ID = asked.ID
	// It cannot check registers, nonce or age.
	if string(asked.Policy) != "null" {
		given.Verdict = "unsupported"
		return
	}
	defer func() {
		if broken := recover(); broken != nil {
			given.Verdict, given.Code = "error", fmt.Sprint(broken)
		}
	}()
	document, err := base64.StdEncoding.DecodeString(asked.Document)
	if err != nil {
		given.Verdict, given.Code = "error", err.Error()
		return
	}
	der, err := base64.StdEncoding.DecodeString(asked.Root)
	if err != nil {
		given.Verdict, given.Code = "error", err.Error()
		return
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		given.Verdict, given.Code = "error", err.Error()
		return
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	result, err := nitrite.Verify(document, nitrite.VerifyOptions{
		Roots:       roots,
		CurrentTime: time.UnixMilli(asked.Time),
	})
	// Its documentation: a document is valid only without an error and with SignatureOK.
	if err != nil || result == nil || !result.SignatureOK {
		given.Verdict, given.Code = "refuse", fmt.Sprint(err)
		return
	}
	given.Verdict = "accept"
	return
}
