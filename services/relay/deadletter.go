package relay

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/tidegate/tidegate/internal/table"
)

// deadLetter is a record as the dead letters keep it: all that the stream said, in
// DynamoDB's own JSON, to be looked at and to be tried again.
type deadLetter struct {
	Stream    string          `json:"stream"` // label
	Sequence  string          `json:"sequence,omitempty"`
	Operation string          `json:"operation,omitempty"`
	AtMs      int64           `json:"at_ms,omitempty"`
	Expired   bool            `json:"expired,omitempty"`
	Keys      json.RawMessage `json:"keys,omitempty"`
	Old       json.RawMessage `json:"old,omitempty"`
	New       json.RawMessage `json:"new,omitempty"`
}

// encodeDeadLetter leaves out the images where they would make it longer than a
// message may be, and the images of an item that this release does not know, which may
// be secret.
func encodeDeadLetter(r *record, reason error, longest int) ([]byte, error) {
	x := deadLetter{Stream: r.label, Sequence: r.sequence, Operation: r.operation, AtMs: r.atMs, Expired: r.expired}
	for _, part := range []struct {
		from table.Item
		to   *json.RawMessage
	}{{r.keys, &x.Keys}, {r.old, &x.Old}, {r.new, &x.New}} {
		if part.from == nil {
			continue
		}
		var err error
		if *part.to, err = attributevalue.MarshalMapJSON(part.from); err != nil {
			return nil, fmt.Errorf("encode a record: %w", err)
		}
	}
	data, err := json.Marshal(x)
	if err == nil && (len(data) > longest || errors.Is(reason, errUnknownItem)) {
		x.Old, x.New = nil, nil
		data, err = json.Marshal(x)
	}
	return data, err
}

// decodeDeadLetter reads the output of encodeDeadLetter.
func decodeDeadLetter(data []byte) (record, error) {
	var x deadLetter
	if err := json.Unmarshal(data, &x); err != nil {
		return record{}, fmt.Errorf("decode a record: %w", err)
	}
	r := record{label: x.Stream, sequence: x.Sequence, operation: x.Operation, atMs: x.AtMs, expired: x.Expired}
	for _, part := range []struct {
		from json.RawMessage
		to   *table.Item
	}{{x.Keys, &r.keys}, {x.Old, &r.old}, {x.New, &r.new}} {
		if part.from == nil {
			continue
		}
		var err error
		if *part.to, err = attributevalue.UnmarshalMapJSON(part.from); err != nil {
			return record{}, fmt.Errorf("decode a record: %w", err)
		}
	}
	return r, nil
}
