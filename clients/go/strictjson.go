package clearseal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	errJSON      = errors.New("not readable as JSON")
	errDuplicate = errors.New("a member that occurs twice")
)

const maxJSONDepth = 32

// readJSON reads one value into maps, slices, strings, json.Number, bool and nil.
//
// encoding/json would keep the last of two equal members, and ignore their case.
func readJSON(text []byte) (any, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(text) {
		return nil, errJSON
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := readValue(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	return value, nil
}

func readValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil || depth > maxJSONDepth {
		return nil, errJSON
	}
	switch token {
	case json.Delim('{'):
		members := map[string]any{}
		for decoder.More() {
			name, err := decoder.Token()
			if err != nil {
				return nil, errJSON
			}
			key, ok := name.(string)
			if !ok {
				return nil, errJSON
			}
			if _, twice := members[key]; twice {
				return nil, errDuplicate
			}
			if members[key], err = readValue(decoder, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = decoder.Token()
		return members, asJSON(err)
	case json.Delim('['):
		items := []any{}
		for decoder.More() {
			item, err := readValue(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		_, err = decoder.Token()
		return items, asJSON(err)
	}
	return token, nil
}

func asJSON(err error) error {
	if err != nil {
		return errJSON
	}
	return nil
}

// wholeNumber reads a number that is whole in any JSON notation: 300, 300.0 and 3e2 are equal.
func wholeNumber(value any) (uint64, bool) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	if !strings.ContainsAny(number.String(), ".eE-") {
		whole, err := strconv.ParseUint(number.String(), 10, 64)
		return whole, err == nil
	}
	float, err := number.Float64()
	// From 2^50 on, the last bits of a double may be wrong.
	if err != nil || float < 0 || float >= 1<<50 || float != math.Trunc(float) {
		return 0, false
	}
	return uint64(float), true
}
