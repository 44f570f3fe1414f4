package process

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// causeBytes is the length of the head, and of the tail, that is kept of a text that
// describes a cause: errors are wrapped, so that the tail has the root and the head the
// attempt.
const causeBytes = 96

// cause describes why a line was logged: its attributes of causeAttr, without numbers and
// quoted texts.
type cause struct {
	parts []string
	errs  []error
}

func newCause(attached string) *cause {
	c := new(cause)
	if attached != "" {
		c.parts = append(c.parts, attached)
	}
	return c
}

// causeAttr reports whether an attribute tells the cause of a line. Other attributes, such
// as the bucket or the lane, tell where it occurred.
func causeAttr(key string) bool {
	switch key {
	case "error", "reason", "cause", "line", "doing", "service", "verb", "kind":
		return true
	}
	return false
}

// add adds an attribute if it tells the cause.
func (c *cause) add(a slog.Attr) {
	if !causeAttr(a.Key) {
		return
	}
	value := a.Value.Resolve()
	err, failed := value.Any().(error)
	if failed {
		c.errs = append(c.errs, err)
	}
	c.parts = append(c.parts, a.Key+"="+withoutDetails(careful(value.Any(), func() string { return value.String() })))
}

// text tells causes apart as well as their texts do.
func (c *cause) text() string { return strings.Join(c.parts, " ") }

// kind tells causes apart only by the types and codes of errors, which callers cannot choose.
func (c *cause) kind() string {
	kind := "others"
	for _, err := range c.errs {
		kind += " " + careful(err, func() string { return errorType(err) })
	}
	return kind
}

// careful returns what describe says about a value, or the value's type if describe panics, as
// the method of an error without a value may.
func careful(value any, describe func() string) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", value)
		}
	}()
	return describe()
}

// errorType returns the type of the innermost error, and the code of an error of AWS.
func errorType(err error) string {
	var coded interface{ ErrorCode() string }
	code := ""
	if errors.As(err, &coded) {
		code = " " + withoutDetails(coded.ErrorCode())
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err) + code
		}
		err = inner
	}
}

// detail matches a quoted text, and a word that has a digit.
var detail = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[\w-]*\d[\w-]*`)

// withoutDetails replaces quoted texts and words with digits by #, so that addresses, ids
// and counts make no causes of their own.
func withoutDetails(text string) string {
	if len(text) > 2*causeBytes {
		text = text[:causeBytes] + "…" + text[len(text)-causeBytes:]
	}
	return detail.ReplaceAllString(strings.ToValidUTF8(text, ""), "#")
}
