package events

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/pkg/keys"
)

// The errors of decoding; each calls for a different reaction.
var (
	// ErrUnknownKind: this release does not know the kind; it skips and counts the event.
	ErrUnknownKind = errors.New("unknown kind of event")
	// ErrUnknownVersion: a newer release wrote the event, which waits until the
	// consumer is upgraded. Upgrade consumers before relays.
	ErrUnknownVersion = errors.New("unknown version of the event: this release is too old for it")
	// ErrMalformed: no release can read the event.
	ErrMalformed = errors.New("malformed event")
)

// envelope is the JSON form of an event: it is written with its
// change, and read in two steps, the change after the kind is known.
type envelope[C any] struct {
	Version  int    `json:"v"`
	Kind     Kind   `json:"kind"`
	Position string `json:"id"`
	AtMs     int64  `json:"at_ms"`
	Expired  bool   `json:"expired,omitempty"`
	PK       string `json:"pk"`
	SK       string `json:"sk"`
	Change   C      `json:"change"`
}

// Encode returns the event's JSON. It fails if Decode would refuse the event.
func Encode(e *Event) ([]byte, error) {
	kind := e.Kind()
	x := envelope[any]{Version: versions()[kind], Kind: kind, Position: e.Position.String(), AtMs: e.AtMs, Expired: e.Expired}
	switch {
	case e.Key == nil || !fits(kind, e.Key):
		return nil, fmt.Errorf("encode event: %w: the key %T is none of the kind %q", ErrMalformed, e.Key, kind)
	case e.Position == Position{} || e.change().empty():
		return nil, fmt.Errorf("encode event: %w: it has no position or no image", ErrMalformed)
	}
	key := e.Key.Key()
	x.PK, x.SK = key.PK, key.SK
	x.Change = e.change()
	data, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return data, nil
}

// change returns the change that is set.
func (e *Event) change() interface{ empty() bool } {
	switch e.Kind() {
	case KindBucket:
		return e.Bucket
	case KindConfig:
		return e.Config
	case KindEntity:
		return e.Entity
	case KindAudit:
		return e.Audit
	case KindNamespace:
		return e.Namespace
	}
	return nil
}

// Decode reads an event. Its error is ErrUnknownKind, ErrUnknownVersion or
// ErrMalformed.
func Decode(data []byte) (*Event, error) {
	var x envelope[json.RawMessage]
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	version, known := versions()[x.Kind]
	switch {
	case x.Kind == "":
		return nil, fmt.Errorf("%w: it has no kind", ErrMalformed)
	case !known:
		return nil, fmt.Errorf("%w: %.50q", ErrUnknownKind, x.Kind)
	case x.Version > version:
		return nil, fmt.Errorf("%w: %s has version %d, known is %d", ErrUnknownVersion, x.Kind, x.Version, version)
	case x.Version < 1:
		return nil, fmt.Errorf("%w: %s has version %d", ErrMalformed, x.Kind, x.Version)
	}
	e := &Event{AtMs: x.AtMs, Expired: x.Expired}
	var err error
	if e.Position, err = ParsePosition(x.Position); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if e.Key, err = keys.Parse(keys.Key{PK: x.PK, SK: x.SK}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if !fits(x.Kind, e.Key) {
		return nil, fmt.Errorf("%w: %s %s is no key of the kind %s", ErrMalformed, x.PK, x.SK, x.Kind)
	}
	if err := e.decodeChange(x.Kind, x.Change); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return e, nil
}

func (e *Event) decodeChange(kind Kind, data []byte) (err error) {
	switch kind {
	case KindBucket:
		e.Bucket, err = decodeChange[Bucket](data)
	case KindConfig:
		e.Config, err = decodeChange[Config](data)
	case KindEntity:
		e.Entity, err = decodeChange[Entity](data)
	case KindAudit:
		e.Audit, err = decodeChange[Audit](data)
	case KindNamespace:
		e.Namespace, err = decodeChange[Namespace](data)
	}
	return err
}

func decodeChange[T any](data []byte) (*Change[T], error) {
	c := new(Change[T])
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	if c.empty() {
		return nil, errors.New("it has no image")
	}
	return c, nil
}

// KindOf returns the kind of an item's events; ok is false for items that the feed
// does not carry, such as signing keys, counters and usage snapshots.
func KindOf(key keys.Item) (kind Kind, ok bool) {
	for _, kind := range Kinds() {
		if fits(kind, key) {
			return kind, true
		}
	}
	return "", false
}

// fits reports whether an item's changes have the kind.
func fits(kind Kind, key keys.Item) bool {
	switch key.(type) {
	case keys.Bucket:
		return kind == KindBucket
	case keys.EntityConfig, keys.ResourceConfig, keys.SystemConfig:
		return kind == KindConfig
	case keys.Entity:
		return kind == KindEntity
	case keys.Audit:
		return kind == KindAudit
	case keys.NamespaceName:
		return kind == KindNamespace
	}
	return false
}
