package api

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Error describes a refused or failed request. It is the JSON body of an error reply;
// the headers [HeaderErrorCode] and [HeaderError] carry its status and message.
type Error struct {
	Code Code `json:"code"`
	// Field is the path of the invalid field in the request, such as "consume.tpm"
	// or "limits[1].capacity"; empty if no single field is at fault.
	Field string `json:"field,omitempty"`
	// Message is a single line for people. Programs must not match its text.
	Message string `json:"message"`
	// RequestID identifies the request in the service's log. It is not part of the
	// body: the client copies it from the header [HeaderRequestID].
	RequestID string `json:"-"`
}

// Errorf returns an Error. An empty field means that no single field is at fault.
func Errorf(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (e *Error) Error() string {
	if e.Field == "" {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Field + ": " + e.Message
}

// Status returns the error's status for the header [HeaderErrorCode].
func (e *Error) Status() int { return e.Code.Status() }

// JSON returns the body of the error reply.
func (e *Error) JSON() []byte {
	body, err := json.Marshal(e)
	if err != nil {
		panic("three strings always have a JSON form: " + err.Error())
	}
	return body
}

// DecodeError reads the body of an error reply. If the body is not an Error, as
// from a proxy or from another service, it returns an Error with the code internal.
func DecodeError(body []byte) *Error {
	var e Error
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return Errorf(CodeInternal, "", "the error reply is not Tidegate's: %s", shown(string(body)))
	}
	return &e
}

// maxShown is the number of characters of a refused value that an error quotes.
const maxShown = 50

// cut returns at most maxShown characters of a refused value.
func cut(value string) string {
	n := 0
	for i := range value {
		if n++; n > maxShown {
			return value[:i]
		}
	}
	return value
}

// shown quotes a refused value, cut, for a message.
func shown(value string) string {
	short := cut(value)
	if len(short) < len(value) {
		return fmt.Sprintf("%q… (%d characters)", short, utf8.RuneCountInString(value))
	}
	return fmt.Sprintf("%q", value)
}
