package clearseal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEachCodeIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/ERRORS.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile(`(?:refuse|refuseList)\("([A-Z0-9_]+)"|[Cc]ode:? :?= ?"([A-Z0-9_]+)"|Code: "([A-Z0-9_]+)"`)
	count := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		for _, found := range literal.FindAllStringSubmatch(string(readFile(t, source)), -1) {
			code := found[1] + found[2] + found[3]
			count++
			if !strings.Contains(string(page), "| `"+code+"` |") {
				t.Errorf("%s: %s is not in docs/ERRORS.md", source, code)
			}
		}
	}
	if count < 100 {
		t.Fatalf("only %d codes were found", count)
	}
}

func TestErrorsCarryCodeAndCause(t *testing.T) {
	err := error(&Error{Code: "NETWORK", Message: "a message", cause: io.ErrUnexpectedEOF})
	if err.Error() != "NETWORK: a message" || CodeOf(err) != "NETWORK" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if (&Error{Code: "NETWORK"}).Error() != "NETWORK" || CodeOf(io.EOF) != "" || CodeOf(nil) != "" {
		t.Error("codes")
	}
	for text, ok := range map[string]bool{"BUSY": true, "": false, "busy": false, "A TEXT": false, strings.Repeat("A", 65): false} {
		if isCode(text) != ok {
			t.Error(text)
		}
	}
}
