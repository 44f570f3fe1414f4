package events

import (
	"fmt"
	"strings"
)

// sequenceDigits is the maximum number of digits of DynamoDB's sequence numbers (21
// to 40 by its API reference). Numbers padded to it sort as text.
const sequenceDigits = 40

// Position is an event's place in the table's stream. Its text sorts by time for
// the changes of the same item, and identifies an event.
type Position struct{ text string }

// NewPosition joins a stream's label and a sequence number. It fails for values
// that DynamoDB never returns: a label that is empty or has a slash, or a sequence
// number that is not 1 to 40 digits.
func NewPosition(label, sequence string) (Position, error) {
	if label == "" || strings.Contains(label, "/") || sequence == "" || len(sequence) > sequenceDigits ||
		strings.Trim(sequence, "0123456789") != "" {
		return Position{}, fmt.Errorf("%.100q and %.100q are no stream label and sequence number", label, sequence)
	}
	return Position{label + "/" + strings.Repeat("0", sequenceDigits-len(sequence)) + sequence}, nil
}

// ParsePosition parses the text of a position.
func ParsePosition(text string) (Position, error) {
	label, sequence, _ := strings.Cut(text, "/")
	p, err := NewPosition(label, sequence)
	if err != nil || p.text != text {
		return Position{}, fmt.Errorf("%.150q is no position", text)
	}
	return p, nil
}

// String returns the stream's label, a slash, and the sequence number padded to 40
// digits; empty for the zero Position.
func (p Position) String() string { return p.text }

// Label returns the stream's label, the time at which it was enabled.
func (p Position) Label() string {
	label, _, _ := strings.Cut(p.text, "/")
	return label
}

// Sequence returns the sequence number in DynamoDB's form.
func (p Position) Sequence() string {
	_, sequence, _ := strings.Cut(p.text, "/")
	if trimmed := strings.TrimLeft(sequence, "0"); trimmed != "" || sequence == "" {
		return trimmed
	}
	return "0"
}
