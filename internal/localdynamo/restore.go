package localdynamo

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/localdynamo/attr"
)

// restorer brings an engine that nobody uses yet to the state that entries and
// records tell of. Restoring a record again does no harm.
type restorer struct {
	engine *Engine
	into   *table // whose items follow
	bytes  int64  // of entries
}

// entry restores an entry of a snapshot.
func (r *restorer) entry(b []byte) (err error) {
	r.bytes += int64(len(b))
	if len(b) == 0 {
		return errors.New("an entry is empty")
	}
	switch kind, b := b[0], b[1:]; kind {
	case entrySequence:
		r.engine.sequence, err = strconv.ParseUint(string(b), 10, 64)
	case entryToken:
		var k storedToken
		if k, err = unmarshal[storedToken](b); err == nil {
			err = r.engine.restoreToken(k.Token, k.Digest, time.Unix(0, k.Until))
		}
	case recordTable:
		r.into, err = r.engine.restoreTable(b)
	case entryItem:
		err = r.item(b)
	default:
		err = fmt.Errorf("an entry has the unknown kind %q", kind)
	}
	return err
}

func (r *restorer) item(b []byte) error {
	item, err := decodeItem(b)
	switch {
	case err != nil:
		return err
	case r.into == nil:
		return errors.New("an item stands before any table")
	}
	r.into.restore(r.into.keys.storage(item), newImage(item))
	return nil
}

// record restores a record of a log.
func (r *restorer) record(b []byte) (err error) {
	if len(b) == 0 {
		return errors.New("a record is empty")
	}
	switch kind, b := b[0], b[1:]; kind {
	case recordCommit:
		err = r.engine.restoreCommit(b)
	case recordTable:
		_, err = r.engine.restoreTable(b)
	case recordDrop:
		var name string
		err = decodeText(b, &name)
		delete(r.engine.tables, name)
	default:
		err = fmt.Errorf("a record has the unknown kind %q", kind)
	}
	return err
}

// restore puts an item, or takes it away, without a price.
func (t *table) restore(key string, after *image) {
	m := mutation{table: t, key: key, before: t.find(key), after: after}
	m.apply(1, &charge{})
}

// restoreTable makes a table, or gives the one that is there other settings.
func (e *Engine) restoreTable(b []byte) (*table, error) {
	s, err := unmarshal[storedTable](b)
	if err != nil {
		return nil, err
	}
	t, err := s.table()
	if err != nil {
		return nil, err
	}
	t.arn, t.id, t.created = e.tableARN(t.name), s.ID, time.Unix(0, s.Created)
	t.streamLabel, t.ttl = s.StreamLabel, s.TimeToLive
	known := e.tables[t.name]
	if known == nil || known.id != t.id {
		e.tables[t.name] = t
		return t, nil
	}
	known.kinds, known.billing, known.throughput = t.kinds, t.billing, t.throughput
	known.stream, known.streamLabel, known.protected, known.ttl = t.stream, t.streamLabel, t.protected, t.ttl
	known.indexes = slices.DeleteFunc(slices.Clone(known.indexes), func(x *index) bool { return t.index(x.name) == nil })
	for _, x := range t.indexes {
		if known.index(x.name) == nil {
			known.addIndex(x)
		}
	}
	return known, nil
}

func (e *Engine) restoreToken(token string, digest []byte, until time.Time) error {
	if len(digest) != len([32]byte{}) {
		return fmt.Errorf("the digest of token %q has %d bytes", token, len(digest))
	}
	e.tokens.remember(token, [32]byte(digest), until)
	return nil
}

// restoreCommit does again what a commit has done.
func (e *Engine) restoreCommit(b []byte) error {
	var (
		at       int64
		sequence uint64
		token    string
		digest   []byte
		changes  []byte
	)
	err := eachField(b, func(name, raw []byte) (err error) {
		switch string(name) {
		case "at":
			at, err = strconv.ParseInt(string(raw), 10, 64)
		case "sequence":
			sequence, err = strconv.ParseUint(string(raw), 10, 64)
		case "token":
			err = decodeText(raw, &token)
		case "digest":
			var text string
			if err = decodeText(raw, &text); err == nil {
				digest, err = base64.StdEncoding.DecodeString(text)
			}
		case "changes":
			changes = raw
		}
		return err
	})
	if err != nil {
		return err
	}
	if token != "" {
		if err := e.restoreToken(token, digest, time.Unix(0, at).Add(tokenLife)); err != nil {
			return err
		}
	}
	if changes == nil {
		return nil
	}
	if sequence != e.sequence+1 {
		return fmt.Errorf("a commit begins with sequence number %d, behind %d", sequence, e.sequence)
	}
	return eachElement(changes, func(raw []byte) error {
		e.sequence++
		return e.restoreChange(raw)
	})
}

// restoreChange needs the old image only for the key of an item that is gone.
func (e *Engine) restoreChange(b []byte) error {
	var (
		name     string
		from, to []byte
	)
	err := eachField(b, func(field, raw []byte) error {
		switch string(field) {
		case "table":
			return decodeText(raw, &name)
		case "old":
			from = raw
		case "new":
			to = raw
		}
		return nil
	})
	if err != nil {
		return err
	}
	t := e.tables[name]
	if t == nil {
		return fmt.Errorf("a change is of table %q, which is not there", name)
	}
	var item attr.Item
	if to == nil {
		if item, err = decodeItem(from); err == nil {
			t.restore(t.keys.storage(item), nil)
		}
		return err
	}
	if item, err = decodeItem(to); err == nil {
		t.restore(t.keys.storage(item), newImage(item))
	}
	return err
}
