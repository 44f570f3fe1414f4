package engine

import (
	"fmt"
	"time"
)

// storedStream is the stored form of a stream, with the types of its key attributes.
type storedStream struct {
	Table, View          string
	Labelled             int64 // milliseconds since 1970: the time in the label
	KeySchema            []keyElement
	AttributeDefinitions []attributeDefinition
	Created              int64         // nanoseconds since 1970
	Off                  int64         `json:",omitempty"` // nanoseconds since 1970; 0: it is on
	Shards               []storedShard `json:",omitempty"`
}

// storedShard is the stored form of a stream shard.
type storedShard struct {
	Number        uint64
	Parent        string `json:",omitempty"`
	From, To      uint64
	Start         uint64
	Opened        int64 // nanoseconds since 1970
	Count         int
	Last, Trimmed uint64
	Closed        int64 `json:",omitempty"` // nanoseconds since 1970; 0: it is open
}

func (st *stream) stored() *storedStream {
	s := &storedStream{
		Table: st.table, Labelled: st.labelled.UnixMilli(), View: st.view, KeySchema: st.keys.describe(),
		Created: st.created.UnixNano(), Off: storedTime(st.off),
	}
	for _, p := range st.keys.parts() {
		s.AttributeDefinitions = append(s.AttributeDefinitions, attributeDefinition{AttributeName: p.name, AttributeType: p.kind.String()})
	}
	for _, shard := range st.shards {
		s.Shards = append(s.Shards, storedShard{
			Number: shard.number, Parent: shard.parent, From: shard.from, To: shard.to, Start: shard.start,
			Opened: shard.opened.UnixNano(), Count: shard.count, Last: shard.last, Trimmed: shard.trimmed,
			Closed: storedTime(shard.closed),
		})
	}
	return s
}

// storedTime and restoredTime preserve the zero time.
func storedTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func restoredTime(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// restore makes a stream, or disables the stream if it exists.
func (s *streams) restore(stored *storedStream, tableARN string) (*stream, error) {
	labelled := time.UnixMilli(stored.Labelled)
	s.label = later(s.label, labelled)
	label := streamLabel(labelled)
	arn := streamARN(tableARN, label)
	if known := s.all[arn]; known != nil {
		if stored.Off != 0 {
			s.end(known, time.Unix(0, stored.Off))
		}
		return known, nil
	}
	keys, err := schemaOf(stored.KeySchema, stored.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	st := &stream{
		table: stored.Table, label: label, labelled: labelled, arn: arn, view: stored.View, keys: keys,
		created: time.Unix(0, stored.Created), off: restoredTime(stored.Off),
	}
	for i := range stored.Shards {
		x := &stored.Shards[i]
		s.number = max(s.number, x.Number)
		s.add(st, &streamShard{
			number: x.Number, parent: x.Parent, from: x.From, to: x.To, start: x.Start, opened: time.Unix(0, x.Opened),
			count: x.Count, last: x.Last, trimmed: x.Trimmed, closed: restoredTime(x.Closed),
		})
	}
	if st.isOn() || len(st.shards) > 0 {
		s.all[arn] = st
	}
	return st, nil
}

// replay repeats the effect of a commit on the streams.
func (s *streams) replay(c *storedCommit, position uint64, size int) error {
	for _, r := range c.rolls {
		shard := s.shards[r.Shard]
		if shard == nil || !shard.isOpen() {
			return fmt.Errorf("a commit closes stream shard %d, which is not open", r.Shard)
		}
		s.roll(shard, r, c.at)
	}
	for i, number := range c.shards {
		if number == 0 {
			continue
		}
		shard := s.shards[number]
		if shard == nil {
			return fmt.Errorf("a change is of stream shard %d, which is not there", number)
		}
		shard.count++
		shard.last = c.sequence + uint64(i)
	}
	s.index(c, position, size)
	return nil
}

// index records the position in the journal of the changes of a commit that streams
// still show.
func (s *streams) index(c *storedCommit, position uint64, size int) {
	commit := Commit{at: c.at, Changes: make([]Change, len(c.shards))}
	for i, number := range c.shards {
		change := &commit.Changes[i]
		change.Sequence = c.sequence + uint64(i)
		if shard := s.shards[number]; shard != nil && change.Sequence > shard.trimmed {
			change.shard = shard
		}
	}
	s.keep(&commit, position, int64(size))
}

// restoreDone is called after all records of the journal are restored.
func (s *streams) restoreDone(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.restored = false
	s.trim(now)
	s.forget(now)
}
