package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/tidegate/tidegate/engine/journal"
)

// maxSegmentsRead is the maximum number of segments that a page reads from the disk. A
// page may therefore have fewer records than requested, although more exist.
const maxSegmentsRead = 32

// page is the result of a GetRecords.
type page struct {
	shard *streamShard
	next  uint64 // the least sequence number behind the page
	ended bool   // nothing will ever be behind the page
	seen  uint64 // position of a commit in the journal, behind all that the page shows
	limit int
	full  bool
	bytes int // as DynamoDB counts them

	changes []Change
	sizes   []int
}

func (e *Engine) getRecords(c *call) ([]byte, error) {
	var in struct {
		ShardIterator string
		Limit         *int
	}
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	limit, err := between(in.Limit, maxRecords)
	if err != nil {
		return nil, err
	}
	i, err := parseIterator(in.ShardIterator)
	if err != nil {
		return nil, err
	}
	if err := i.check(e.now()); err != nil {
		return nil, err
	}
	p := page{limit: limit, next: i.Next, seen: 1}
	if err := e.fill(&p, i); err != nil {
		return nil, err
	}
	c.seen = p.seen
	o := object{b: make([]byte, 0, 512+4*p.bytes)}
	o.field("Records")
	o.b = append(o.b, '[')
	for n := range p.changes {
		if n > 0 {
			o.b = append(o.b, ',')
		}
		o.b = e.appendStreamRecord(o.b, p.shard.of, &p.changes[n], p.sizes[n])
	}
	o.b = append(o.b, ']')
	if !p.ended {
		i.Next, i.At = p.next, e.now().UnixMilli()
		o.field("NextShardIterator")
		o.b = appendText(o.b, i.String())
	}
	return o.end(), nil
}

// fill reads records into a page until it is full or there are no more.
func (e *Engine) fill(p *page, i iterator) error {
	e.streams.trimDue(e.now())
	for read := 0; ; {
		g, more, err := e.streams.part(p, i)
		if err != nil || !more {
			return err
		}
		if g.inMemory {
			p.take(g.changes)
		} else {
			if read++; read > maxSegmentsRead {
				return nil
			}
			err := e.readPart(p, &g)
			if errors.Is(err, journal.ErrCut) {
				return p.cut()
			}
			if err != nil {
				return &apiError{name: typeInternal, message: "the stream's log cannot be read: " + err.Error()}
			}
		}
		p.seen = max(p.seen, g.until)
		if p.full {
			return nil
		}
		p.next = g.last + 1
	}
}

// cut handles records that were removed while the page was filled: the page ends
// before them, and if it is empty, cut returns the error for trimmed records.
func (p *page) cut() error {
	if len(p.changes) > 0 {
		return nil
	}
	return trimmed()
}

// trimDue trims if a segment is due.
func (s *streams) trimDue(now time.Time) {
	s.mu.RLock()
	due := s.due(now)
	s.mu.RUnlock()
	if due {
		s.refresh(now)
	}
}

// part finds the next part of the records for a page; more is false at the end of the
// existing records.
func (s *streams) part(p *page, i iterator) (g part, more bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.lookup(i.arn)
	if err != nil {
		return g, false, err
	}
	if p.shard = s.shard(st, i.Shard); p.shard == nil {
		return g, false, p.cut()
	}
	if p.next <= p.shard.trimmed {
		return g, false, p.cut()
	}
	if p.next <= p.shard.last {
		g, more = s.find(p.shard, p.next)
	}
	if !more && !p.shard.isOpen() {
		p.ended, p.seen = true, 0 // that it is closed is a record of its own
	}
	return g, more, nil
}

// take adds the changes of the page's shard that are behind the changes of the page.
func (p *page) take(changes []Change) {
	for n := range changes {
		if changes[n].shard != p.shard || changes[n].Sequence < p.next {
			continue
		}
		if p.full = !p.add(changes[n]); p.full {
			return
		}
	}
}

// add adds a change, unless the page is full.
func (p *page) add(c Change) bool {
	size := p.shard.of.sizeOf(&c)
	if len(p.changes) == p.limit || len(p.changes) > 0 && p.bytes+size > maxRecordsBytes {
		return false
	}
	p.changes, p.sizes = append(p.changes, c), append(p.sizes, size)
	p.bytes += size
	p.next = c.Sequence + 1
	return true
}

// readPart reads changes from the journal.
func (e *Engine) readPart(p *page, g *part) error {
	enough := errors.New("the page is full")
	err := e.storage.journal.Read(g.position, g.until, func(_ uint64, b []byte) error {
		if len(b) == 0 || b[0] != recordCommit {
			return nil
		}
		c, err := decodeCommit(b[1:], false)
		if err != nil {
			return err
		}
		changes, err := c.shown(p)
		if err != nil {
			return err
		}
		if p.take(changes); p.full {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

// shown returns the changes of a commit that a page may show.
func (c *storedCommit) shown(p *page) (changes []Change, err error) {
	if !slices.Contains(c.shards, p.shard.number) {
		return nil, nil
	}
	n := 0
	err = eachElement(c.changes, func(raw []byte) error {
		number, sequence := c.shards[n], c.sequence+uint64(n)
		n++
		if number != p.shard.number || sequence < p.next {
			return nil
		}
		stored, err := decodeChange(raw)
		if err != nil {
			return err
		}
		change := Change{
			Table: stored.table, Sequence: sequence, At: c.at, By: c.by, schema: &p.shard.of.keys, shard: p.shard,
		}
		if stored.old != nil {
			change.Old, err = decodeItem(stored.old)
		}
		if err == nil && stored.new != nil {
			change.New, err = decodeItem(stored.new)
		}
		changes = append(changes, change)
		return err
	})
	return changes, err
}
