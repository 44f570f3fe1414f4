package engine

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// restorer restores entries and records into an engine that is not in use yet.
// Restoring a record twice is harmless.
type restorer struct {
	engine *Engine
	into   *table // of the items that follow
	bytes  int64  // of entries
}

// entry restores an entry of a snapshot.
func (r *restorer) entry(b []byte) (err error) {
	r.bytes += int64(len(b))
	if len(b) == 0 {
		return errors.New("an entry is empty")
	}
	switch kind, b := b[0], b[1:]; kind {
	case entryNumbers:
		var n storedNumbers
		n, err = unmarshal[storedNumbers](b)
		r.engine.sequence, r.engine.streams.number = n.Sequence, n.Shard
		r.engine.streams.label = time.UnixMilli(n.Labelled)
	case entryStream:
		err = r.engine.restoreStream(b)
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

// past records the position of a record that the snapshot replaces, because streams
// may need it.
func (r *restorer) past(position uint64, b []byte) error {
	if len(b) == 0 || b[0] != recordCommit {
		return nil
	}
	c, err := decodeCommit(b[1:], true)
	if err == nil {
		r.engine.streams.index(c, position, len(b))
	}
	return err
}

// record restores a record of a log.
func (r *restorer) record(position uint64, b []byte) (err error) {
	if len(b) == 0 {
		return errors.New("a record is empty")
	}
	switch kind, b := b[0], b[1:]; kind {
	case recordCommit:
		err = r.engine.restoreCommit(position, b)
	case recordTable:
		_, err = r.engine.restoreTable(b)
	case recordDrop:
		err = r.engine.restoreDrop(b)
	default:
		err = fmt.Errorf("a record has the unknown kind %q", kind)
	}
	return err
}

// restore puts an item, or deletes it, without a cost.
func (t *table) restore(key string, after *image) {
	m := mutation{table: t, key: key, before: t.find(key), after: after}
	m.apply(&charge{})
}

// restoreTable makes a table, or changes the settings of an existing table.
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
	t.ttl = s.TimeToLive
	if s.Stream != nil {
		if t.changes, err = e.streams.restore(s.Stream, t.arn); err != nil {
			return nil, err
		}
	}
	known := e.tables[t.name]
	if known == nil || known.id != t.id {
		e.tables[t.name] = t
		return t, nil
	}
	known.kinds, known.billing, known.throughput = t.kinds, t.billing, t.throughput
	known.stream, known.changes, known.protected, known.ttl, known.tags = t.stream, t.changes, t.protected, t.ttl, t.tags
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

func (e *Engine) restoreDrop(b []byte) error {
	d, err := unmarshal[storedDrop](b)
	if err != nil {
		return err
	}
	if t := e.tables[d.TableName]; t != nil {
		e.streams.end(t.changes, time.Unix(0, d.At))
	}
	delete(e.tables, d.TableName)
	return nil
}

func (e *Engine) restoreStream(b []byte) error {
	s, err := unmarshal[storedStream](b)
	if err == nil {
		_, err = e.streams.restore(&s, e.tableARN(s.Table))
	}
	return err
}

// storedCommit is the stored form of a commit.
type storedCommit struct {
	at       time.Time
	sequence uint64 // of the first change
	by       Actor
	token    string
	digest   []byte
	rolls    []roll
	shards   []uint64 // numbers; an element for each change
	changes  []byte   // JSON array
}

// errShardsKnown stops the decoding of a commit before its changes.
var errShardsKnown = errors.New("the shards of the commit are known")

// decodeCommit reads a commit, or with head only the fields before its changes. The
// result shares memory with b.
func decodeCommit(b []byte, head bool) (*storedCommit, error) {
	c := &storedCommit{}
	err := eachField(b, func(name, raw []byte) (err error) {
		switch string(name) {
		case "at":
			var at int64
			at, err = strconv.ParseInt(string(raw), 10, 64)
			c.at = time.Unix(0, at)
		case "sequence":
			c.sequence, err = strconv.ParseUint(string(raw), 10, 64)
		case "by":
			var by uint64
			by, err = strconv.ParseUint(string(raw), 10, 8)
			c.by = Actor(by)
		case "token":
			err = decodeText(raw, &c.token)
		case "digest":
			var text string
			if err = decodeText(raw, &text); err == nil {
				c.digest, err = base64.StdEncoding.DecodeString(text)
			}
		case "rolls":
			c.rolls, err = unmarshal[[]roll](raw)
		case fieldShards:
			err = eachElement(raw, func(raw []byte) error {
				number, err := strconv.ParseUint(string(raw), 10, 64)
				c.shards = append(c.shards, number)
				return err
			})
			if err == nil && head {
				err = errShardsKnown
			}
		case "changes":
			c.changes = raw
		}
		return err
	})
	if errors.Is(err, errShardsKnown) {
		err = nil
	}
	return c, err
}

// restoreCommit repeats a commit.
func (e *Engine) restoreCommit(position uint64, b []byte) error {
	c, err := decodeCommit(b, false)
	if err != nil {
		return err
	}
	if c.token != "" {
		if err := e.restoreToken(c.token, c.digest, c.at.Add(tokenLife)); err != nil {
			return err
		}
	}
	if c.changes != nil {
		if c.sequence != e.sequence+1 {
			return fmt.Errorf("a commit begins with sequence number %d, behind %d", c.sequence, e.sequence)
		}
		err = eachElement(c.changes, func(raw []byte) error {
			e.sequence++
			return e.restoreChange(raw)
		})
		if err != nil {
			return err
		}
	}
	return e.streams.replay(c, position, len(b)+1)
}

// storedChange is the stored form of a change; its images are JSON.
type storedChange struct {
	table    string
	old, new []byte // nil: absent
}

func decodeChange(b []byte) (c storedChange, err error) {
	err = eachField(b, func(field, raw []byte) error {
		switch string(field) {
		case "table":
			return decodeText(raw, &c.table)
		case "old":
			c.old = raw
		case "new":
			c.new = raw
		}
		return nil
	})
	return c, err
}

// restoreChange restores a change. It needs the old image only for the key of a
// deleted item.
func (e *Engine) restoreChange(b []byte) error {
	c, err := decodeChange(b)
	if err != nil {
		return err
	}
	t := e.tables[c.table]
	if t == nil {
		return fmt.Errorf("a change is of table %q, which is not there", c.table)
	}
	raw := c.new
	if raw == nil {
		raw = c.old
	}
	item, err := decodeItem(raw)
	if err != nil {
		return err
	}
	var after *image
	if c.new != nil {
		after = newImage(item)
	}
	t.restore(t.keys.storage(item), after)
	return nil
}
