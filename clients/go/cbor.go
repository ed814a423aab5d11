package clearseal

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// rules states how strictly CBOR is read.
type rules int

const (
	// shortest accepts indefinite containers, but heads in their shortest form only.
	shortest rules = iota
	// deterministic is RFC 8949 §4.2.1.
	deterministic
)

const maxDepth = 16

type cborFault int

const (
	faultMalformed cborFault = iota
	faultTrailing
	faultType
	faultRange
	faultEncoding
)

// cborError is a position and a reason; it holds no data.
type cborError struct {
	fault cborFault
	at    int
	what  string
}

func (e *cborError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

// Major types of RFC 8949 §3.1, and the simple values in use.
const (
	kindUnsigned = iota
	kindNegative
	kindBytes
	kindText
	kindArray
	kindMap
	kindTag
	kindBool
	kindNull
	kindSimple
	kindBreak
)

// container is an array or map in progress.
type container struct {
	// left counts the items or pairs to come; -1 for an indefinite length.
	left    int
	isMap   bool
	lastKey []byte
}

// cborReader reads in place; a slice that it returns is part of the input.
type cborReader struct {
	input []byte
	at    int
	rules rules
}

type cborHead struct {
	major, info byte
	value       uint64
}

func (r *cborReader) fail(fault cborFault, at int, what string) error {
	return &cborError{fault, at, what}
}

func (r *cborReader) finish() error {
	if r.at != len(r.input) {
		return r.fail(faultTrailing, r.at, "bytes left over")
	}
	return nil
}

func (r *cborReader) peek() (int, error) {
	if r.at >= len(r.input) {
		return 0, r.fail(faultMalformed, r.at, "input ends early")
	}
	major, info := r.input[r.at]>>5, r.input[r.at]&0x1f
	switch {
	case major < 7:
		return int(major), nil
	case info == 20 || info == 21:
		return kindBool, nil
	case info == 22:
		return kindNull, nil
	case info == 31:
		return kindBreak, nil
	}
	return kindSimple, nil
}

func (r *cborReader) anyHead() (cborHead, error) {
	at := r.at
	if at >= len(r.input) {
		return cborHead{}, r.fail(faultMalformed, at, "input ends early")
	}
	head := cborHead{major: r.input[at] >> 5, info: r.input[at] & 0x1f}
	extra := 0
	switch {
	case head.info < 24:
		head.value = uint64(head.info)
	case head.info < 28:
		extra = 1 << (head.info - 24)
	case head.info < 31:
		// RFC 8949 §3: 28, 29 and 30 are reserved.
		return head, r.fail(faultMalformed, at, "reserved encoding")
	default:
		return head, r.fail(faultEncoding, at, "indefinite length")
	}
	if len(r.input)-at-1 < extra {
		return head, r.fail(faultMalformed, at, "input ends early")
	}
	for _, octet := range r.input[at+1 : at+1+extra] {
		head.value = head.value<<8 | uint64(octet)
	}
	// §4.1. The bytes of a float are its value, not a length.
	least := [...]uint64{1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}
	if extra > 0 && head.major != 7 && head.value < least[extra] {
		return head, r.fail(faultEncoding, at, "head is not in its shortest form")
	}
	r.at = at + 1 + extra
	return head, nil
}

func (r *cborReader) head(major int, expected string) (cborHead, error) {
	at := r.at
	if _, err := r.peek(); err != nil {
		return cborHead{}, err
	}
	head, err := r.anyHead()
	if err != nil {
		return head, err
	}
	if int(head.major) != major {
		r.at = at
		return head, r.fail(faultType, at, "another type than "+expected)
	}
	return head, nil
}

func (r *cborReader) uint() (uint64, error) {
	head, err := r.head(kindUnsigned, "an unsigned integer")
	return head.value, err
}

func (r *cborReader) int() (int64, error) {
	at := r.at
	kind, err := r.peek()
	if err != nil {
		return 0, err
	}
	major := kindUnsigned
	if kind == kindNegative {
		major = kindNegative
	}
	head, err := r.head(major, "an integer")
	if err != nil {
		return 0, err
	}
	if head.value > 1<<63-1 {
		return 0, r.fail(faultRange, at, "integer out of range")
	}
	if major == kindNegative {
		return -1 - int64(head.value), nil
	}
	return int64(head.value), nil
}

func (r *cborReader) take(length uint64) ([]byte, error) {
	if length > uint64(len(r.input)-r.at) {
		return nil, r.fail(faultMalformed, r.at, "input ends early")
	}
	taken := r.input[r.at : r.at+int(length) : r.at+int(length)]
	r.at += int(length)
	return taken, nil
}

func (r *cborReader) bytes() ([]byte, error) {
	head, err := r.head(kindBytes, "a byte string")
	if err != nil {
		return nil, err
	}
	return r.take(head.value)
}

func (r *cborReader) text() (string, error) {
	at := r.at
	head, err := r.head(kindText, "a text string")
	if err != nil {
		return "", err
	}
	taken, err := r.take(head.value)
	if err == nil && !utf8.Valid(taken) {
		err = r.fail(faultMalformed, at, "text that is not UTF-8")
	}
	return string(taken), err
}

// optionalBytes reads a byte string, or nil for null.
func (r *cborReader) optionalBytes() ([]byte, error) {
	kind, err := r.peek()
	if err != nil {
		return nil, err
	}
	if kind == kindNull {
		r.at++
		return nil, nil
	}
	return r.bytes()
}

func (r *cborReader) bool() (bool, error) {
	at := r.at
	kind, err := r.peek()
	if err != nil {
		return false, err
	}
	if kind != kindBool {
		return false, r.fail(faultMalformed, at, "not a boolean")
	}
	r.at++
	return r.input[at] == 0xf5, nil
}

func (r *cborReader) tag() (uint64, error) {
	head, err := r.head(kindTag, "a tag")
	return head.value, err
}

func (r *cborReader) array() (container, error)   { return r.open(kindArray, "an array") }
func (r *cborReader) openMap() (container, error) { return r.open(kindMap, "a map") }

func (r *cborReader) open(major int, expected string) (container, error) {
	at := r.at
	opened := container{left: -1, isMap: major == kindMap}
	if at < len(r.input) && r.input[at] == byte(major<<5|31) {
		if r.rules == deterministic {
			return opened, r.fail(faultEncoding, at, "indefinite length")
		}
		r.at++
		return opened, nil
	}
	head, err := r.head(major, expected)
	if err != nil {
		return opened, err
	}
	// An item takes a byte or more, so a count beyond the rest of the input is refused before any loop.
	most := uint64(len(r.input) - r.at)
	if opened.isMap {
		most /= 2
	}
	if head.value > most {
		return opened, r.fail(faultMalformed, at, "input ends early")
	}
	opened.left = int(head.value)
	return opened, nil
}

// more reports whether another item, or pair of a map, follows.
func (r *cborReader) more(opened *container) (bool, error) {
	switch {
	case opened.left == 0:
		return false, nil
	case opened.left > 0:
		opened.left--
	default:
		kind, err := r.peek()
		if err != nil {
			return false, err
		}
		if kind == kindBreak {
			r.at++
			opened.left = 0
			return false, nil
		}
	}
	if opened.isMap && r.rules == deterministic {
		// A container as a key would be read once per level of nesting.
		kind, err := r.peek()
		if err != nil {
			return false, err
		}
		if kind > kindText {
			return false, r.fail(faultType, r.at, "another type than an integer or string as a key")
		}
		ahead := *r
		if err := ahead.skip(0); err != nil {
			return false, err
		}
		key := r.input[r.at:ahead.at]
		// RFC 8949 §4.2.1: keys in the bytewise order of their encodings.
		if opened.lastKey != nil && bytes.Compare(opened.lastKey, key) >= 0 {
			return false, r.fail(faultEncoding, r.at, "map key out of order or doubled")
		}
		opened.lastKey = key
	}
	return true, nil
}

func (r *cborReader) skip(depth int) error {
	if depth >= maxDepth {
		return r.fail(faultMalformed, r.at, "nested too deeply")
	}
	kind, err := r.peek()
	if err != nil {
		return err
	}
	switch kind {
	case kindBytes:
		_, err = r.bytes()
	case kindText:
		_, err = r.text()
	case kindTag:
		if _, err = r.tag(); err == nil {
			err = r.skip(depth + 1)
		}
	case kindArray, kindMap:
		err = r.skipContainer(kind, depth)
	case kindBreak:
		err = r.fail(faultType, r.at, "a break instead of an item")
	case kindBool, kindNull:
		r.at++
	default:
		at := r.at
		var head cborHead
		head, err = r.anyHead()
		// RFC 8949 §3.3: two-byte simple values below 32 are not well-formed.
		if err == nil && kind == kindSimple && head.info == 24 && head.value < 32 {
			err = r.fail(faultMalformed, at, "reserved encoding")
		}
	}
	return err
}

func (r *cborReader) skipContainer(kind, depth int) error {
	opened, err := r.open(kind, "a container")
	for err == nil {
		var more bool
		if more, err = r.more(&opened); err != nil || !more {
			return err
		}
		if err = r.skip(depth + 1); err == nil && kind == kindMap {
			err = r.skip(depth + 1)
		}
	}
	return err
}
