package clearseal

import (
	"bytes"
	"strings"
	"testing"
)

// responseBytes is a response: status 200, one section of fields, content.
func responseBytes(section, content string) []byte {
	encoded := []byte{1, 0x40, 200}
	return append(appendSpan(appendSpan(encoded, section), content), 0)
}

func line(name, value string) string {
	return string(appendSpan(appendSpan(nil, name), value))
}

func TestInnerAnswersAreReadStrictly(t *testing.T) {
	fields := line("content-type", "text/plain")
	for name, test := range map[string]struct {
		encoded []byte
		code    string
	}{
		"ordinary":            {responseBytes(fields, "abc"), ""},
		"padded":              {append(responseBytes(fields, "abc"), 0, 0, 0), ""},
		"ends before content": {[]byte{1, 0x40, 200, 0}, ""},
		"list":                {responseBytes(line("vary", "a")+line("vary", "b"), ""), ""},
		"empty":               {nil, "INNER_MALFORMED"},
		"a request":           {append([]byte{0}, responseBytes(fields, "abc")[1:]...), "INNER_MALFORMED"},
		"cut off":             {responseBytes(fields, "abc")[:9], "INNER_MALFORMED"},
		"padding":             {append(responseBytes(fields, "abc"), 0, 1), "INNER_PADDING_NOT_ZERO"},
		"informational":       {[]byte{1, 0x40, 100, 0}, "INNER_BAD_CONTROL_DATA"},
		"upper case":          {responseBytes(line("Vary", "a"), ""), "INNER_BAD_FIELD"},
		"twice":               {responseBytes(line("clearseal-receipt", "a")+line("clearseal-receipt", "b"), ""), "INNER_BAD_FIELD"},
		"cookie":              {responseBytes(line("set-cookie", "a"), ""), "INNER_BAD_FIELD"},
		"control character":   {responseBytes(line("vary", "a\r"), ""), "INNER_BAD_FIELD"},
		"space":               {responseBytes(line("vary", " a"), ""), "INNER_BAD_FIELD"},
		"length":              {responseBytes(line("content-length", "4"), "abc"), "INNER_BAD_FIELD"},
		"right length":        {responseBytes(line("content-length", "3"), "abc"), ""},
		"many fields":         {responseBytes(strings.Repeat(line("a", ""), 65), ""), "INNER_TOO_LARGE"},
		"long section":        {responseBytes(line("a", strings.Repeat("b", 9_000)), ""), "INNER_TOO_LARGE"},
		"trailer":             {append(responseBytes("", "")[:5], appendSpan(nil, line("te", "a"))...), "INNER_BAD_FIELD"},
	} {
		message, err := decodeInner(test.encoded, false)
		if CodeOf(err) != test.code {
			t.Errorf("%s: expected %q, got %v", name, test.code, err)
		}
		if err == nil && name == "list" && message.field("vary") != "a, b" {
			t.Error(message.fields)
		}
	}
}

func TestInnerRequestsRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, 63, 64, 16_383, 16_384, 100_000} {
		sent := innerMessage{method: "POST", path: "/v1/embeddings?a=b", content: bytes.Repeat([]byte{7}, size)}
		sent.fields = []innerField{{"accept", "a/b"}}
		encoded, err := sent.encodeRequest()
		if err != nil {
			t.Fatal(err)
		}
		padded := pad(encoded)
		read, err := decodeInner(padded, true)
		if err != nil || read.length != len(encoded) || len(padded) != paddedLength(len(encoded)) {
			t.Fatal(err)
		}
		if read.method != sent.method || read.path != sent.path || !bytes.Equal(read.content, sent.content) || read.field("accept") != "a/b" {
			t.Fatal(size)
		}
	}
	for _, message := range []innerMessage{
		{method: "post", path: "/"}, {method: "CONNECT", path: "/"}, {method: "", path: "/"}, {method: "GET", path: ""},
		{method: "GET", path: "/ä"}, {method: "GET", path: "/#"}, {method: "GET", path: "/ "},
	} {
		_, err := message.encodeRequest()
		expectCode(t, err, "INNER_BAD_CONTROL_DATA")
	}
}

func TestLengthsArePadded(t *testing.T) {
	for length, padded := range map[int]int{0: 0, 1: 1, 2: 2, 9: 10, 1_000: 1_024, 1_025: 1_088} {
		if paddedLength(length) != padded {
			t.Error(length, paddedLength(length))
		}
	}
}
