package clearseal

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Limits of docs/PROTOCOL.md §3.
const (
	maxRequest      = 4 << 20
	maxResponse     = 16 << 20
	maxFields       = 64
	maxFieldSection = 8 * 1024
	maxPath         = 2 * 1024
)

// innerAuthority selects nothing: the seal has selected the service.
const innerAuthority = "clearseal.internal"

// innerField is a field inside the seal; its name is in lower case.
type innerField struct{ name, value string }

// innerMessage is a request or answer inside the seal.
type innerMessage struct {
	method, path string
	status       int
	fields       []innerField
	content      []byte
	// length is that of the message without padding.
	length int
}

func (m *innerMessage) field(name string) string {
	for _, field := range m.fields {
		if field.name == name {
			return field.value
		}
	}
	return ""
}

// appendInteger appends a variable-length integer of QUIC (RFC 9000 §16).
func appendInteger(to []byte, number int) []byte {
	switch {
	case number < 1<<6:
		return append(to, byte(number))
	case number < 1<<14:
		return append(to, 0x40|byte(number>>8), byte(number))
	default:
		return append(to, 0x80|byte(number>>24), byte(number>>16), byte(number>>8), byte(number))
	}
}

func appendSpan[T string | []byte](to []byte, content T) []byte {
	return append(appendInteger(to, len(content)), content...)
}

// encodeRequest writes a request in the known-length form of RFC 9292, without padding. All its sections are there: the commitment
// of a receipt covers them.
func (m *innerMessage) encodeRequest() ([]byte, error) {
	if !isMethod(m.method) {
		return nil, refuse("INNER_BAD_CONTROL_DATA", "the method is not one of at most 16 capital letters")
	}
	if len(m.path) > maxPath {
		return nil, refuse("INNER_TOO_LARGE", "the path is longer than %d bytes", maxPath)
	}
	if !strings.HasPrefix(m.path, "/") || strings.ContainsFunc(m.path, func(letter rune) bool {
		return letter <= ' ' || letter > '~' || letter == '#'
	}) {
		return nil, refuse("INNER_BAD_CONTROL_DATA", "the path is not visible ASCII after a slash")
	}
	if err := checkFields(m.fields, len(m.content)); err != nil {
		return nil, err
	}
	var section []byte
	for _, field := range m.fields {
		section = appendSpan(appendSpan(section, field.name), field.value)
	}
	if len(m.content)+len(section) > maxRequest {
		return nil, errRequestSize
	}
	encoded := []byte{0}
	for _, part := range []string{m.method, "https", innerAuthority, m.path} {
		encoded = appendSpan(encoded, part)
	}
	encoded = appendSpan(appendSpan(encoded, section), m.content)
	encoded = appendInteger(encoded, 0)
	if paddedLength(len(encoded)) > maxRequest {
		return nil, errRequestSize
	}
	return encoded, nil
}

var errRequestSize = &Error{Code: "INNER_TOO_LARGE", Message: "the request is larger than 4 MiB"}

func isMethod(method string) bool {
	capital := func(letter rune) bool { return letter >= 'A' && letter <= 'Z' }
	lower := strings.ContainsFunc(method, func(letter rune) bool { return !capital(letter) })
	return method != "" && len(method) <= 16 && !lower && method != "CONNECT"
}

// paddedLength is PADMÉ (PoPETs 2019, Nikitin et al., §4): it reveals O(log log n) bits, and costs at most 12 percent.
func paddedLength(length int) int {
	if length < 2 {
		return length
	}
	exponent := bits.Len(uint(length)) - 1
	kept := bits.Len(uint(exponent))
	mask := 1<<max(0, exponent-kept) - 1
	return (length + mask) &^ mask
}

// pad appends zeros (RFC 9292 §3.8).
func pad(message []byte) []byte {
	return append(message[:len(message):len(message)], make([]byte, paddedLength(len(message))-len(message))...)
}

// walk reads a message in place.
type walk struct{ rest []byte }

var errCutOff = &Error{Code: "INNER_MALFORMED", Message: "the inner message ends early"}

func (w *walk) integer() (uint64, error) {
	if len(w.rest) == 0 {
		return 0, errCutOff
	}
	length := 1 << (w.rest[0] >> 6)
	if len(w.rest) < length {
		return 0, errCutOff
	}
	number := uint64(w.rest[0] & 0x3f)
	for _, octet := range w.rest[1:length] {
		number = number<<8 | uint64(octet)
	}
	w.rest = w.rest[length:]
	return number, nil
}

func (w *walk) span(limit int) ([]byte, error) {
	length, err := w.integer()
	if err != nil {
		return nil, err
	}
	if length > uint64(limit) {
		return nil, refuse("INNER_TOO_LARGE", "a part of the inner message has more than %d bytes", limit)
	}
	if length > uint64(len(w.rest)) {
		return nil, errCutOff
	}
	taken := w.rest[:length:length]
	w.rest = w.rest[length:]
	return taken, nil
}

// section reads a section; RFC 9292 §3.8 lets a sender omit empty ones at the end.
func (w *walk) section(limit int) ([]byte, error) {
	if len(w.rest) == 0 {
		return nil, nil
	}
	return w.span(limit)
}

func (w *walk) fields() ([]innerField, error) {
	section, err := w.section(maxFieldSection)
	if err != nil {
		return nil, err
	}
	var fields []innerField
	lines := walk{section}
	for count := 0; len(lines.rest) > 0; count++ {
		if count == maxFields {
			return nil, refuse("INNER_TOO_LARGE", "more than %d fields", maxFields)
		}
		name, err := lines.span(maxFieldSection)
		if err != nil {
			return nil, err
		}
		value, err := lines.span(maxFieldSection)
		if err != nil {
			return nil, err
		}
		if fields, err = joinField(fields, string(name), string(value)); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// joinField joins the lines of a list (RFC 9110 §5.3).
func joinField(fields []innerField, name, value string) ([]innerField, error) {
	at := slices.IndexFunc(fields, func(earlier innerField) bool { return earlier.name == name })
	if at < 0 {
		return append(fields, innerField{name, value}), nil
	}
	single := []string{"authorization", "content-length", "content-type", "date", "host"}
	if slices.Contains(single, name) || strings.HasPrefix(name, "clearseal-") {
		return nil, refuse("INNER_BAD_FIELD", "a field that has one value occurs twice")
	}
	if fields[at].value != "" && value != "" {
		fields[at].value += ", "
	}
	fields[at].value += value
	return fields, nil
}

// decodeInner reads one message and its padding.
func decodeInner(encoded []byte, request bool) (*innerMessage, error) {
	walk := walk{encoded}
	framing, most := uint64(1), maxResponse
	if request {
		framing, most = 0, maxRequest
	}
	if found, err := walk.integer(); err != nil || found != framing {
		return nil, refuse("INNER_MALFORMED", "another framing indicator than %d", framing)
	}
	if len(encoded) > most {
		return nil, refuse("INNER_TOO_LARGE", "the inner message has more than %d bytes", most)
	}
	message := &innerMessage{}
	if request {
		for at := range 4 {
			part, err := walk.span(maxPath)
			if err != nil {
				return nil, err
			}
			switch at {
			case 0:
				message.method = string(part)
			case 3:
				message.path = string(part)
			}
		}
	} else {
		status, err := walk.integer()
		if err != nil {
			return nil, err
		}
		if status < 200 || status > 599 {
			return nil, refuse("INNER_BAD_CONTROL_DATA", "another status than 200 to 599")
		}
		message.status = int(status)
	}
	var err error
	if message.fields, err = walk.fields(); err != nil {
		return nil, err
	}
	if message.content, err = walk.section(most); err != nil {
		return nil, err
	}
	trailers, err := walk.fields()
	if err != nil {
		return nil, err
	}
	message.length = len(encoded) - len(walk.rest)
	if len(bytes.TrimLeft(walk.rest, "\x00")) > 0 {
		return nil, refuse("INNER_PADDING_NOT_ZERO", "the padding has something other than zeros")
	}
	if err := checkFields(message.fields, len(message.content)); err != nil {
		return nil, err
	}
	return message, checkFields(trailers, len(message.content))
}

// forbiddenFields have a meaning for a connection, or link requests that the seal keeps apart.
var forbiddenFields = []string{
	"connection", "cookie", "host", "keep-alive", "proxy-connection", "set-cookie", "te", "transfer-encoding", "upgrade",
}

func checkFields(fields []innerField, contentLength int) error {
	size := 8 * len(fields)
	for _, field := range fields {
		size += len(field.name) + len(field.value)
	}
	if len(fields) > maxFields || size > maxFieldSection {
		return refuse("INNER_TOO_LARGE", "the fields have more than %d bytes, or are more than %d", maxFieldSection, maxFields)
	}
	for at, field := range fields {
		if field.name == "" || strings.ContainsFunc(field.name, func(letter rune) bool { return !isNameLetter(letter) }) {
			return refuse("INNER_BAD_FIELD", "a field name is not a lower-case token")
		}
		if slices.Contains(forbiddenFields, field.name) {
			return refuse("INNER_BAD_FIELD", "%s is not allowed", field.name)
		}
		if slices.ContainsFunc(fields[:at], func(earlier innerField) bool { return earlier.name == field.name }) {
			return refuse("INNER_BAD_FIELD", "a field occurs twice")
		}
		if strings.Trim(field.value, " \t") != field.value || strings.ContainsFunc(field.value, func(letter rune) bool {
			return letter != '\t' && (letter < ' ' || letter > '~')
		}) {
			return refuse("INNER_BAD_FIELD", "a field value has control characters or spaces around it, or is not ASCII")
		}
		// RFC 9112 §6.3, through RFC 9292 §4.
		if field.name == "content-length" && field.value != strconv.Itoa(contentLength) {
			return refuse("INNER_BAD_FIELD", "a content-length that is not the content's")
		}
	}
	return nil
}

func isNameLetter(letter rune) bool {
	return letter >= 'a' && letter <= 'z' || letter >= '0' && letter <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", letter)
}

// String keeps a user's text out of a log that formats a message.
func (m *innerMessage) String() string { return fmt.Sprintf("inner message of %d bytes", m.length) }
