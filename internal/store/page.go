package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// PageBytes is the size on the wire that ends a page, with the entry that reaches
	// it. A page must fit a NATS message of 1 MB, and no entry is near 400 KB.
	PageBytes    = 600 << 10
	chunkEntries = 100
	// pageQueries bounds the work for a page if many rows lead to deleted items, or
	// to items that the list does not show.
	pageQueries = 64
	// maxWidth bounds the partitions of an index that are read in parallel. A list
	// begins with a single partition, which fills the page of a long list.
	maxWidth = 8
)

// Indexes that steps query.
const (
	NoIndex      = 0 // the table itself
	ByParent     = 1 // GSI1: children; a namespace's audit events
	ByEntity     = 3 // GSI3: the entities with limits of their own for a resource
	ByEverything = 4 // GSI4: all items of a namespace, by kind
)

// Step is a part of a list: an item, or the items that a query finds.
type Step struct {
	Item       keys.Item // nil: query
	Index      int
	Query      keys.Query
	Descending bool // the last of the query first
}

// PageRequest selects a page of a list.
type PageRequest struct {
	Cursor string // of the page before; empty for the first
	Limit  int64  // entries at most; 0 is api.DefaultPage
}

// Visit takes the items of a page, in order. It returns the size that an item adds
// to the reply, rounded up, or 0 if the list does not show the item. An error ends
// the page.
type Visit func(item table.Item) (size int, err error)

// Page reads a page and returns the cursor of the next page, or an empty cursor
// after the last. It refuses bad requests with an *api.Error before any I/O.
func Page(ctx context.Context, client *dynamodb.Client, tableName string, steps []Step, req PageRequest, visit Visit) (string, error) {
	want := int(req.Limit)
	if want == 0 {
		want = api.DefaultPage
	}
	if want < 0 || want > api.MaxPage {
		return "", api.Errorf(api.CodeInvalidAmount, "limit", "%d must be from 1 to %d", req.Limit, api.MaxPage)
	}
	at, err := startOf(req.Cursor, steps)
	if err != nil {
		return "", err
	}
	p := page{table: tableName, client: client, steps: steps, at: at}
	for queries, width := 0, 1; p.at.step < len(steps); {
		if p.found >= want || p.bytes >= PageBytes || queries >= pageQueries {
			return p.at.cursor(), nil
		}
		asked := p.sideBySide(width)
		if err := p.read(ctx, min(want-p.found, chunkEntries), asked, visit); err != nil {
			return "", err
		}
		queries += len(asked)
		if width = 1; p.at.after == nil { // short steps: the next ones may be short too
			width = min(2*len(asked), maxWidth)
		}
	}
	return "", nil
}

// page is the state of a page while it is read.
type page struct {
	client *dynamodb.Client
	table  string
	steps  []Step

	at           position
	found, bytes int
}

// sideBySide returns the next steps to read together: a single item, a single query
// of the table, or at most width queries of indexes.
func (p *page) sideBySide(width int) []Step {
	next := p.steps[p.at.step:]
	n := 0
	for n < min(width, len(next)) && next[n].Item == nil && next[n].Index != NoIndex {
		n++
	}
	return next[:max(n, 1)]
}

// read reads the next steps, adds at most n items, and advances. Items that do not
// fit are read again for the next page.
func (p *page) read(ctx context.Context, n int, asked []Step, visit Visit) error {
	chunks, err := p.chunks(ctx, asked, n)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		for i, item := range c.items {
			if item == nil {
				continue
			}
			size, err := visit(item)
			if err != nil {
				return err
			}
			if size == 0 {
				continue
			}
			p.found++
			if p.bytes += size; p.bytes >= PageBytes && i < len(c.items)-1 {
				p.at.after, err = table.ItemKey(item)
				return err
			}
		}
		if p.at.after = c.last; c.last != nil {
			return nil
		}
		if p.at.step++; p.bytes >= PageBytes {
			return nil
		}
	}
	return nil
}

// cursor is the encoded position of a list: a step, and the item before it.
type cursor struct {
	Step int    `json:"s"`
	PK   string `json:"p,omitempty"` // empty: at the step's beginning
	SK   string `json:"k,omitempty"`
}

func (c cursor) encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic("a number and two strings always have a JSON form: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// position is a decoded cursor.
type position struct {
	step  int
	after keys.Item // nil: at the step's beginning
}

// startOf decodes a cursor that belongs to these steps. Cursors come from callers:
// a cursor that does not fit the steps is refused.
func startOf(text string, steps []Step) (position, error) {
	if text == "" {
		return position{}, nil
	}
	bad := api.Errorf(api.CodeInvalidCursor, "cursor", "this list has no such page: begin again without a cursor")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return position{}, bad
	}
	var c cursor
	if err := json.Unmarshal(b, &c); err != nil || c.Step < 0 || c.Step >= len(steps) {
		return position{}, bad
	}
	p := position{step: c.Step}
	if c.PK == "" && c.SK == "" {
		return p, nil
	}
	if p.after, err = keys.Parse(keys.Key{PK: c.PK, SK: c.SK}); err != nil {
		return position{}, bad
	}
	at := steps[c.Step]
	if at.Item != nil || !table.StartAfter(new(dynamodb.QueryInput), at.Index, at.Query, p.after) {
		return position{}, bad
	}
	return p, nil
}

func (p position) cursor() string {
	c := cursor{Step: p.step}
	if p.after != nil {
		k := p.after.Key()
		c.PK, c.SK = k.PK, k.SK
	}
	return c.encode()
}

// CursorBehind returns the cursor of a list's first step after an item, which need
// not exist.
func CursorBehind(item keys.Item) string { return position{after: item}.cursor() }

// CursorItem returns the item after which the page of a cursor begins. It returns
// nil at the beginning of a step and for an invalid cursor.
func CursorItem(text string) keys.Item {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	var c cursor
	if err := json.Unmarshal(b, &c); err != nil {
		return nil
	}
	item, err := keys.Parse(keys.Key{PK: c.PK, SK: c.SK})
	if err != nil {
		return nil
	}
	return item
}

// chunk is the next part of a step.
type chunk struct {
	items []table.Item // nil: a row of an index whose item is gone
	last  keys.Item    // where the step goes on, behind it; nil: the step is at its end
}

// chunks reads the next parts of steps, at most n items. Steps whose items do not
// fit, and all steps after them, have no chunk; the first step always has.
func (p *page) chunks(ctx context.Context, steps []Step, n int) ([]chunk, error) {
	if item := steps[0].Item; item != nil {
		out, err := p.client.GetItem(ctx, table.ReadInput(p.table, item.Key()))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", item.Key().PK, err)
		}
		if len(out.Item) == 0 {
			return []chunk{{}}, nil
		}
		return []chunk{{items: []table.Item{out.Item}}}, nil
	}
	pages, err := QueryAll(ctx, p.client, p.queries(steps, n))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", steps[0].Query.PK, err)
	}
	var found []chunk
	var rows []table.Item
	for _, out := range pages {
		if rows = append(rows, out.Items...); len(rows) > n && len(found) > 0 {
			rows = rows[:len(rows)-len(out.Items)]
			break
		}
		c := chunk{items: out.Items}
		if len(out.LastEvaluatedKey) > 0 {
			if c.last, err = table.ItemKey(out.LastEvaluatedKey); err != nil {
				return nil, err
			}
		}
		found = append(found, c)
	}
	if steps[0].Index == NoIndex {
		return found, nil
	}
	items, err := p.load(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i := range found {
		rows := len(found[i].items)
		found[i].items, items = items[:rows], items[rows:]
	}
	return found, nil
}

// queries returns the queries of steps. The first step may have begun.
func (p *page) queries(steps []Step, n int) []*dynamodb.QueryInput {
	queries := make([]*dynamodb.QueryInput, len(steps))
	for i, at := range steps {
		queries[i] = table.QueryInput(p.table, at.Index, at.Query)
		limit, ascending := int32(n), !at.Descending
		queries[i].Limit, queries[i].ScanIndexForward = &limit, &ascending
	}
	if p.at.after != nil {
		table.StartAfter(queries[0], steps[0].Index, steps[0].Query, p.at.after)
	}
	return queries
}

// load reads the items of rows of an index, in the rows' order. Deleted items are
// nil.
func (p *page) load(ctx context.Context, rows []table.Item) ([]table.Item, error) {
	wanted := make([]keys.Key, len(rows))
	for i, row := range rows {
		key, err := table.ItemKey(row)
		if err != nil {
			return nil, err
		}
		wanted[i] = key.Key()
	}
	items, err := BatchRead(ctx, p.client, p.table, wanted)
	if err != nil {
		return nil, err
	}
	found := make(map[keys.Key]table.Item, len(items))
	for _, item := range items {
		key, err := table.ItemKey(item)
		if err != nil {
			return nil, err
		}
		found[key.Key()] = item
	}
	inOrder := make([]table.Item, len(wanted))
	for i, k := range wanted {
		inOrder[i] = found[k]
	}
	return inOrder, nil
}
