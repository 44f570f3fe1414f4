package limits

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

// A page must fit a NATS message of 1 MB. A level with the longest names has
// less than 4 KB, so that the last chunk adds less than 400 KB to pageBytes.
const (
	pageBytes   = 600 << 10
	chunkLevels = 100
	// pageQueries bounds the work for one page where many rows lead to levels
	// that are gone by now, or hold a policy alone.
	pageQueries = 64
)

// Indexes that list config items.
const (
	noIndex      = 0
	byEntity     = 3 // GSI3: the entities with limits of their own for a resource
	byEverything = 4 // GSI4: all items of a namespace, by kind
)

// step is a part of a list: one item, or the items that a query finds.
type step struct {
	item  keys.Item // nil: query
	index int
	query keys.Query
}

// stepsOf are the parts of a list of the levels that a target asks for.
func stepsOf(ns string, t api.LimitsTarget) []step {
	switch {
	case t.System || (t.Entity != "" && t.Resource != ""):
		return []step{{item: itemOf(ns, t)}}
	case t.Entity != "":
		return []step{{index: noIndex, query: keys.ConfigsOf(ns, t.Entity)}}
	case t.Resource != "":
		return []step{{item: itemOf(ns, t)}, {index: byEntity, query: keys.EntitiesWithConfig(ns, t.Resource)}}
	}
	steps := []step{{item: keys.SystemConfig{Namespace: ns}}}
	for _, kind := range []string{keys.ResourceConfigs, keys.EntityConfigs} {
		for _, pk := range keys.PurgePartitions(ns) {
			steps = append(steps, step{index: byEverything, query: keys.Query{PK: pk, SKPrefix: kind}})
		}
	}
	return steps
}

// cursor is where a list goes on: in a step, behind an item.
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

// startOf reads a cursor that belongs to these steps. A cursor comes from
// outside: one that leads elsewhere is refused.
func startOf(text string, steps []step) (position, error) {
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
	if at.item != nil || !table.StartAfter(new(dynamodb.QueryInput), at.index, at.query, p.after) {
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

// List returns one page of the levels that have limits, as the request asks
// for them. Levels changed while a list is under way may or may not be in it;
// all others are, once. A level stored a moment ago may be missing: indexes
// follow the table.
func (s *Store) List(ctx context.Context, ns string, req api.LimitsListRequest) (api.LimitsListReply, error) {
	if req.LimitsTarget != (api.LimitsTarget{}) {
		if err := req.Check(); err != nil {
			return api.LimitsListReply{}, err
		}
	}
	want := int(req.Limit)
	if want == 0 {
		want = api.DefaultPage
	}
	if want < 0 || want > api.MaxPage {
		return api.LimitsListReply{}, api.Errorf(api.CodeInvalidAmount, "limit", "%d must be from 1 to %d", req.Limit, api.MaxPage)
	}
	steps := stepsOf(ns, req.LimitsTarget)
	at, err := startOf(req.Cursor, steps)
	if err != nil {
		return api.LimitsListReply{}, err
	}
	reply := api.LimitsListReply{Levels: []api.LimitsLevel{}}
	size := 0
	for queries := 0; at.step < len(steps); queries++ {
		if len(reply.Levels) >= want || size >= pageBytes || queries >= pageQueries {
			reply.Cursor = at.cursor()
			break
		}
		configs, last, err := s.chunk(ctx, steps[at.step], at.after, min(want-len(reply.Levels), chunkLevels))
		if err != nil {
			return api.LimitsListReply{}, fmt.Errorf("list limits: %w", err)
		}
		for _, c := range configs {
			if len(c.Limits) > 0 {
				level := levelOf(c)
				reply.Levels = append(reply.Levels, level)
				size += sizeOf(level)
			}
		}
		if at.after = last; last == nil {
			at.step++
		}
	}
	return reply, nil
}

// sizeOf is about how many bytes a level has on the wire, and at least that.
func sizeOf(l api.LimitsLevel) int {
	const level, limit = 128, 136 // field names, punctuation and the longest numbers
	size := level + len(l.Entity) + len(l.Resource)
	for i := range l.Limits {
		size += limit + len(l.Limits[i].Name)
	}
	return size
}

// chunk reads the next part of a step, n levels at most, and says behind which
// item to go on; nil: the step is at its end.
func (s *Store) chunk(ctx context.Context, at step, after keys.Item, n int) ([]*table.Config, keys.Item, error) {
	if at.item != nil {
		c, err := s.read(ctx, at.item)
		if c == nil || err != nil {
			return nil, nil, err
		}
		return []*table.Config{c}, nil, nil
	}
	in := table.QueryInput(s.table, at.index, at.query)
	limit := int32(n)
	in.Limit = &limit
	if after != nil {
		table.StartAfter(in, at.index, at.query, after)
	}
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return nil, nil, fmt.Errorf("query %s: %w", at.query.PK, err)
	}
	var last keys.Item
	if len(out.LastEvaluatedKey) > 0 {
		if last, err = table.ItemKey(out.LastEvaluatedKey); err != nil {
			return nil, nil, err
		}
	}
	items := out.Items
	if at.index != noIndex {
		if items, err = s.load(ctx, items); err != nil {
			return nil, nil, err
		}
	}
	configs := make([]*table.Config, len(items))
	for i, item := range items {
		if configs[i], err = table.DecodeConfig(item); err != nil {
			return nil, nil, err
		}
	}
	return configs, last, nil
}

// load reads the items that rows of an index stand for, in the rows' order.
// Rows of items that are gone lead to nothing.
func (s *Store) load(ctx context.Context, rows []table.Item) ([]table.Item, error) {
	wanted := make([]keys.Key, len(rows))
	for i, row := range rows {
		key, err := table.ItemKey(row)
		if err != nil {
			return nil, err
		}
		wanted[i] = key.Key()
	}
	items, err := table.BatchRead(ctx, s.client, s.table, wanted)
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
	inOrder := items[:0]
	for _, k := range wanted {
		if item, ok := found[k]; ok {
			inOrder = append(inOrder, item)
		}
	}
	return inOrder, nil
}
