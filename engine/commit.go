package engine

import (
	"time"

	"github.com/tidegate/tidegate/engine/attr"
)

// Actor is the originator of a change.
type Actor uint8

const (
	// Client is a request.
	Client Actor = iota
	// TimeToLive is the engine, which deletes an expired item.
	TimeToLive
)

// Change is an item before and after a write. Change streams and the journal consist
// of Changes. A write that does not change its item makes no Change.
type Change struct {
	Table    string
	Old      attr.Item // nil: the item was absent
	New      attr.Item // nil: the item was deleted
	Sequence uint64    // strictly rising over all tables, without gaps
	At       time.Time
	By       Actor
	schema   *keySchema
	key      string       // storage key
	size     int          // of both images, bytes
	stream   *stream      // of the table; nil: the table has no stream
	shard    *streamShard // that has the change; nil: no stream shows it
}

// Keys returns the primary key of the changed item.
func (c *Change) Keys() attr.Item {
	if c.New != nil {
		return c.schema.of(c.New)
	}
	return c.schema.of(c.Old)
}

// Commit holds the changes of an atomic write, in order: the change of a single
// write, or all changes of a transaction, which may be empty.
type Commit struct {
	Changes []Change
	// Token and Digest are a transaction's ClientRequestToken and the digest of its
	// actions; Token is empty outside transactions.
	Token  string
	Digest [32]byte
	at     time.Time
	rolls  []roll // of stream shards, before the changes
}

// image is an item at a moment. It never changes: readers may keep it, and two reads
// of an item that return the same pointer have seen the same item. The nil image
// stands for an absent item.
type image struct {
	item attr.Item
	size int // bytes, as DynamoDB counts them
}

func newImage(item attr.Item) *image { return &image{item: item, size: item.Size()} }

func (i *image) attributes() attr.Item {
	if i == nil {
		return nil
	}
	return i.item
}

func (i *image) bytes() int {
	if i == nil {
		return 0
	}
	return i.size
}

// row holds a stored item; the table and its indexes share it.
type row struct {
	now *image // not nil; guarded by Engine.mu
}

// mutation is a planned write of an item.
type mutation struct {
	table         *table
	key           string // storage key
	before, after *image // the item for which the write was planned, and the result
}

// commit applies mutations to tables and indexes, adds their cost to the call's bill
// and passes the record to the journal and the observer. No other code changes items.
// factor multiplies the cost of writing an item, without its index entries: 1, or 2
// in a transaction.
//
// The caller holds mu for writing, and has checked under it that no item has changed
// since its mutation was planned.
func (e *Engine) commit(by Actor, factor float64, request *call, c Commit, mutations ...mutation) {
	c.at = e.now()
	for i := range mutations {
		m := &mutations[i]
		before, after := m.before.attributes(), m.after.attributes()
		cost := request.bill.of(m.table.name)
		cost.write += factor * units(max(m.before.bytes(), m.after.bytes()), writeUnit)
		if sameItem(before, after) {
			continue
		}
		m.apply(cost)
		e.sequence++
		c.Changes = append(c.Changes, Change{
			Table: m.table.name, Old: before, New: after,
			Sequence: e.sequence, At: c.at, By: by, schema: &m.table.keys, key: m.key, stream: m.table.changes,
			size: m.before.bytes() + m.after.bytes(),
		})
	}
	if len(c.Changes) == 0 && c.Token == "" {
		request.seen = 0 // the item is as somebody else's write has made it
		return
	}
	request.seen = e.publish(&c)
	if e.onCommit != nil {
		e.onCommit(c)
	}
}

// publish passes a commit to the streams and to the journal and returns its position
// in the journal. The caller holds mu for writing.
func (e *Engine) publish(c *Commit) uint64 {
	s := e.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range c.Changes {
		if st := c.Changes[i].stream; st != nil && st.isOn() {
			s.place(c, &c.Changes[i])
		}
	}
	bytes := 0
	position := e.record(func(b []byte) []byte {
		begin := len(b)
		b = c.appendCommit(b)
		bytes = len(b) - begin
		return b
	})
	s.keep(c, position, int64(bytes))
	s.trim(c.at)
	if e.storage != nil {
		s.evict(e.storage.journal.Settled())
	}
	return position
}

func (m *mutation) apply(cost *charge) {
	t := m.table
	t.size += int64(m.after.bytes() - m.before.bytes())
	r, _ := t.rows.Get(m.key)
	switch {
	case m.after == nil:
		t.rows.Delete(m.key)
	case r == nil:
		r = &row{now: m.after}
		t.rows.Set(m.key, r)
	default:
		r.now = m.after
	}
	for _, x := range t.indexes {
		if c := x.plan(t, m.key, m.before.attributes(), m.after.attributes()); c.cost > 0 {
			cost.index(x.name).write += c.cost
			x.apply(c, r)
		}
	}
}
