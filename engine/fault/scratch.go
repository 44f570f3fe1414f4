package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/attr"
)

// scratch is an engine with the old items of a table. It evaluates the conditions,
// filters and projections of a query on them.
type scratch struct {
	s      *shipment
	table  *schema
	olds   map[string]attr.Item // by key; nil: the item did not exist
	engine *engine.InProcess
}

func newScratch(ctx context.Context, s *shipment, table *schema, olds map[string]attr.Item) (*scratch, error) {
	c := &scratch{s: s, table: table, olds: olds, engine: engine.New(engine.Options{Now: s.t.o.Now}).HTTPClient()}
	if _, err := c.do(ctx, "CreateTable", table.raw); err != nil {
		return nil, err
	}
	for _, old := range olds {
		if old == nil {
			continue
		}
		body, err := json.Marshal(map[string]any{"TableName": table.name, "Item": old})
		if err != nil {
			return nil, err
		}
		if _, err := c.do(ctx, "PutItem", body); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *scratch) do(ctx context.Context, operation string, body []byte) (map[string]json.RawMessage, error) {
	req := c.s.request(ctx, body)
	req.Header = http.Header{"X-Amz-Target": {"DynamoDB_20120810." + operation}}
	resp, err := c.engine.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	reply, fields, err := fieldsOf(resp)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of the state before: %s", operation, reply)
	}
	return fields, err
}

// item answers a GetItem.
func (c *scratch) item(ctx context.Context, body []byte, r *request, fields map[string]json.RawMessage) (changed bool, err error) {
	key, _ := c.table.keyOf(r.Key)
	if _, written := c.olds[c.table.id(key)]; !written {
		return false, nil
	}
	before, err := c.do(ctx, "GetItem", body)
	if err != nil {
		return false, err
	}
	was, is := before["Item"], fields["Item"]
	delete(fields, "Item")
	if was != nil {
		fields["Item"] = was
	}
	return string(was) != string(is), nil
}

// rows answers a Query or a Scan. It does not change rows that lack the key of their
// item, and replies that only count.
func (c *scratch) rows(ctx context.Context, body []byte, r *request, fields map[string]json.RawMessage) (changed bool, err error) {
	var now []attr.Item
	if fields["Items"] == nil {
		return false, nil
	}
	if err := json.Unmarshal(fields["Items"], &now); err != nil {
		return false, err
	}
	then := make([]attr.Item, 0, len(now))
	for _, row := range now {
		key, ok := c.table.keyOf(row)
		if !ok {
			return false, nil
		}
		if _, written := c.olds[c.table.id(key)]; !written {
			then = append(then, row)
		}
	}
	old, err := c.page(ctx, body, fields["LastEvaluatedKey"])
	if err != nil {
		return false, err
	}
	then = append(then, old...)
	if r.KeyConditionExpression != "" {
		c.sort(then, body, r.IndexName)
	}
	if slices.EqualFunc(now, then, attr.Item.Equal) {
		return false, nil
	}
	var scanned int
	if err := json.Unmarshal(fields["ScannedCount"], &scanned); err != nil {
		return false, err
	}
	for name, v := range map[string]any{"Items": then, "Count": len(then), "ScannedCount": max(scanned+len(then)-len(now), len(then))} {
		if fields[name], err = json.Marshal(v); err != nil {
			return false, err
		}
	}
	return true, nil
}

// page returns the old rows between the start of the request and the end of the
// reply's page: the rows after the start, without the rows after the end. So each
// row is on a single page, whatever the back end's order.
func (c *scratch) page(ctx context.Context, body []byte, last json.RawMessage) ([]attr.Item, error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	delete(in, "Limit")
	delete(in, "ReturnConsumedCapacity")
	rows, err := c.all(ctx, in)
	if err != nil || last == nil {
		return rows, err
	}
	in["ExclusiveStartKey"] = last
	beyond, err := c.all(ctx, in)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(row attr.Item) bool {
		return slices.ContainsFunc(beyond, row.Equal)
	}), nil
}

// all follows the pages of a read to its end.
func (c *scratch) all(ctx context.Context, in map[string]json.RawMessage) (rows []attr.Item, err error) {
	for {
		body, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		fields, err := c.do(ctx, operationOf(c.s.req), body)
		if err != nil {
			return nil, err
		}
		var some []attr.Item
		if err := json.Unmarshal(fields["Items"], &some); err != nil {
			return nil, err
		}
		rows = append(rows, some...)
		last, more := fields["LastEvaluatedKey"]
		if !more {
			return rows, nil
		}
		in["ExclusiveStartKey"] = last
	}
}

// sort puts a query's rows into the order of the sort key.
func (c *scratch) sort(rows []attr.Item, body []byte, index string) {
	var in struct{ ScanIndexForward *bool }
	_ = json.Unmarshal(body, &in) // it was read before
	name, sign := c.table.sort, 1
	if index != "" {
		name = c.table.sorts[index]
	}
	if in.ScanIndexForward != nil && !*in.ScanIndexForward {
		sign = -1
	}
	slices.SortStableFunc(rows, func(a, b attr.Item) int {
		x, has := a[name]
		y, have := b[name]
		if !has || !have {
			return 0
		}
		return sign * strings.Compare(x.SortKey(), y.SortKey())
	})
}

// keyOf returns the key within an item; it reports false if a part is missing.
func (s *schema) keyOf(item attr.Item) (attr.Item, bool) {
	key := attr.Item{}
	for _, name := range []string{s.partition, s.sort} {
		if name == "" {
			continue
		}
		v, ok := item[name]
		if !ok {
			return nil, false
		}
		key[name] = v
	}
	return key, true
}

// id returns a key as a string.
func (s *schema) id(key attr.Item) string {
	partition := key[s.partition].SortKey()
	if s.sort == "" {
		return partition
	}
	return partition + "\x00" + key[s.sort].SortKey()
}
