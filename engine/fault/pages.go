package fault

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// keptPages bounds the pages that can be repeated; each has up to 1 MB.
const keptPages = 64

// pages holds the last replies to GetRecords, by the iterator that each returned.
// With that iterator, the reader of a stream shard asks for the next page: answering
// with the kept page instead repeats a page and loses no record.
type pages struct {
	mu    sync.Mutex
	kept  map[string][]json.RawMessage // records; guarded by mu
	order []string                     // of kept, the oldest first; guarded by mu
	held  map[string]time.Time         // until when an iterator brings nothing; guarded by mu
}

func isPageFault(k Kind) bool { return k == PageAgain || k == PageOverlaps || k == ShardHeld }

// carryPage executes a GetRecords with its fault.
func (t *Transport) carryPage(ctx context.Context, s *shipment, f Fault) (*http.Response, error) {
	var in struct{ ShardIterator string }
	if err := json.Unmarshal(s.body, &in); err != nil {
		return s.deliver(ctx) // for the back end to refuse
	}
	before, held := t.pages.before(in.ShardIterator, f, t.o.Now())
	if held {
		t.inject(s, f, ShardHeld)
		return s.page(nil, in.ShardIterator)
	}
	if f.Kind == PageAgain && len(before) > 0 {
		t.inject(s, f, PageAgain)
		return s.page(before, in.ShardIterator)
	}
	resp, err := s.deliver(ctx)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, fields, err := fieldsOf(resp)
	if err != nil {
		return nil, err
	}
	setBody(resp, body)
	var page struct {
		Records           []json.RawMessage
		NextShardIterator string
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, err
	}
	t.pages.keep(in.ShardIterator, page.NextShardIterator, page.Records)
	if f.Kind != PageOverlaps || len(before) == 0 {
		return resp, nil
	}
	t.inject(s, f, PageOverlaps)
	again := before[s.random.IntN(len(before)):]
	if fields["Records"], err = json.Marshal(append(again[:len(again):len(again)], page.Records...)); err != nil {
		return nil, err
	}
	return resp, setFields(resp, fields)
}

// before returns the page that led to an iterator, and whether its shard is held.
func (p *pages) before(iterator string, f Fault, now time.Time) (records []json.RawMessage, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, found := p.held[iterator]
	if !found && f.Kind == ShardHeld {
		until, found = now.Add(f.Delay), true
		p.held[iterator] = until
	}
	if found && !now.Before(until) {
		delete(p.held, iterator)
		found = false
	}
	return p.kept[iterator], found
}

// keep stores a page under the iterator that it returned. After an empty page, it
// keeps the page before.
func (p *pages) keep(iterator, next string, records []json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(records) == 0 {
		records = p.kept[iterator]
	}
	if next == "" || len(records) == 0 {
		return
	}
	if _, known := p.kept[next]; !known {
		p.order = append(p.order, next)
	}
	p.kept[next] = records
	if len(p.order) > keptPages {
		delete(p.kept, p.order[0])
		p.order = p.order[1:]
	}
}

// page returns a reply to GetRecords that the layer makes itself.
func (s *shipment) page(records []json.RawMessage, next string) (*http.Response, error) {
	if records == nil {
		records = []json.RawMessage{}
	}
	body, err := json.Marshal(map[string]any{"Records": records, "NextShardIterator": next})
	if err != nil {
		return nil, err
	}
	return s.reply(http.StatusOK, body), nil
}
