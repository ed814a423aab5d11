package clearseal

import (
	"errors"
	"fmt"
)

// Error is a refusal or a failure. It never contains a user's text.
type Error struct {
	// Code is stable: its meaning never changes. docs/ERRORS.md lists all of them.
	Code string
	// Message describes the event.
	Message string
	// Status is the HTTP status of a service or host that refused a request, otherwise 0.
	Status int
	cause  error
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the cause, for example of the network.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of the first [Error] in err's chain, or "".
func CodeOf(err error) string {
	if found, ok := errors.AsType[*Error](err); ok {
		return found.Code
	}
	return ""
}

func refuse(code, format string, arguments ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

// isCode reports whether text from outside has the form of a code. Other text is not repeated in errors.
func isCode(text string) bool {
	if text == "" || len(text) > 64 {
		return false
	}
	for _, letter := range []byte(text) {
		if letter != '_' && (letter < 'A' || letter > 'Z') && (letter < '0' || letter > '9') {
			return false
		}
	}
	return true
}
