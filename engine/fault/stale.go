package fault

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/engine/attr"
)

// Stale configures eventually consistent reads.
type Stale struct {
	// UpTo is the maximum age of the state that a read returns; the age of each read
	// is drawn evenly from 0 to UpTo. Default: 0, reads are never stale.
	UpTo time.Duration
	// Tables makes GetItem, Query and Scan of tables stale too, unless they ask for
	// ConsistentRead. Without it, only reads of indexes are stale.
	Tables bool
}

// change is a write that passed, with the item before it.
type change struct {
	at  time.Time // no later than the write
	key string
	old attr.Item // nil: the item did not exist
}

// past undoes, in the replies of reads, the writes after the moment of the read. It
// knows the writes that passed through this transport, and reads each item from the
// back end before it is written.
type past struct {
	o       Stale
	next    carry
	schemas *schemas
	locks   [64]sync.Mutex // by key: serializes the writes of an item

	mu      sync.Mutex
	changes map[string][]change // by table; guarded by mu
}

func newPast(o Stale, schemas *schemas, next carry) *past {
	return &past{o: o, next: next, schemas: schemas, changes: map[string][]change{}}
}

func (p *past) carry(ctx context.Context, s *shipment, body []byte) (*http.Response, error) {
	var r request
	if !isItemOperation(s.operation) || json.Unmarshal(body, &r) != nil {
		return p.next(ctx, s, body)
	}
	switch s.operation {
	case "Query", "Scan", "GetItem":
		if r.ConsistentRead || r.IndexName == "" && !p.o.Tables {
			break
		}
		return p.read(ctx, s, body, &r)
	case "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems":
		return p.write(ctx, s, body, &r)
	}
	return p.next(ctx, s, body)
}

// target is an item that a write names.
type target struct {
	table *schema
	key   attr.Item
	id    string
}

func (p *past) write(ctx context.Context, s *shipment, body []byte, r *request) (*http.Response, error) {
	var targets []target
	err := eachItem(s.operation, r, func(table, _ string, r *request) error {
		known, err := p.schemas.of(ctx, s, table)
		if err != nil {
			return err
		}
		if key, ok := known.keyOf(r.key()); ok && (p.o.Tables || len(known.indexes) > 0) {
			targets = append(targets, target{known, key, known.id(key)})
		}
		return nil
	})
	if err != nil || len(targets) == 0 {
		return p.next(ctx, s, body) // for the back end to refuse, or of no concern
	}
	defer p.lock(targets)()
	began := s.t.o.Now()
	olds := make([]attr.Item, len(targets))
	for i, t := range targets {
		var reply struct{ Item attr.Item }
		if err := s.ask(ctx, "GetItem", map[string]any{"TableName": t.table.name, "Key": t.key, "ConsistentRead": true}, &reply); err != nil {
			return nil, err
		}
		olds[i] = reply.Item
	}
	resp, err := p.next(ctx, s, body)
	if err == nil && resp.StatusCode >= 400 && resp.StatusCode < 500 {
		return resp, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range targets {
		list := p.changes[t.table.name]
		for len(list) > 0 && began.Sub(list[0].at) > p.o.UpTo {
			list = list[1:]
		}
		p.changes[t.table.name] = append(list, change{at: began, key: t.id, old: olds[i]})
	}
	return resp, err
}

// lock locks the items and returns a function that unlocks them.
func (p *past) lock(targets []target) (unlock func()) {
	var stripes []int
	for _, t := range targets {
		stripes = append(stripes, int(hashOf(attr.Str(t.id))%uint64(len(p.locks))))
	}
	slices.Sort(stripes)
	stripes = slices.Compact(stripes)
	for _, i := range stripes {
		p.locks[i].Lock()
	}
	return func() {
		for _, i := range stripes {
			p.locks[i].Unlock()
		}
	}
}

// since returns the state at a moment of the items that were written after it.
func (p *past) since(table string, moment time.Time) map[string]attr.Item {
	p.mu.Lock()
	defer p.mu.Unlock()
	type first struct {
		at  time.Time
		old attr.Item
	}
	firsts := map[string]first{}
	for _, c := range p.changes[table] {
		if known, ok := firsts[c.key]; c.at.After(moment) && (!ok || c.at.Before(known.at)) {
			firsts[c.key] = first{c.at, c.old}
		}
	}
	olds := make(map[string]attr.Item, len(firsts))
	for key, f := range firsts {
		olds[key] = f.old
	}
	return olds
}

// read returns an earlier state. From the rows of the back end, it removes the rows
// of items written since, and adds the rows that the same read finds among the old
// items.
func (p *past) read(ctx context.Context, s *shipment, body []byte, r *request) (*http.Response, error) {
	ago := time.Duration(s.random.Float64() * float64(p.o.UpTo))
	resp, err := p.next(ctx, s, body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	olds := p.since(r.TableName, s.t.o.Now().Add(-ago))
	if len(olds) == 0 {
		return resp, nil
	}
	table, err := p.schemas.of(ctx, s, r.TableName)
	if err != nil {
		return nil, err
	}
	before, err := newScratch(ctx, s, table, olds)
	if err != nil {
		return nil, err
	}
	raw, fields, err := fieldsOf(resp)
	if err != nil {
		return nil, err
	}
	setBody(resp, raw)
	changed := false
	if s.operation == "GetItem" {
		changed, err = before.item(ctx, body, r, fields)
	} else {
		changed, err = before.rows(ctx, body, r, fields)
	}
	if err != nil || !changed {
		return resp, err
	}
	s.t.counter.inject(Injection{Kind: StaleRead, Operation: s.operation, Resource: strings.TrimSuffix(r.TableName+"/index/"+r.IndexName, "/index/")})
	s.t.counter.add(s.operation, Count{Faults: 1})
	return resp, setFields(resp, fields)
}
