package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/tidegate/tidegate/engine/attr"
)

// batchKeys holds the part of a BatchGetItem for a table: the keys, and the fields
// that apply to all of them.
type batchKeys map[string]json.RawMessage

func (b batchKeys) keys() (keys []json.RawMessage, err error) {
	return keys, json.Unmarshal(b["Keys"], &keys)
}

func (b batchKeys) with(keys []json.RawMessage) (json.RawMessage, error) {
	raw, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(b)
	out["Keys"] = raw
	return json.Marshal(out)
}

func eachBatchKey(r *request, visit func(table string, key *request) error) error {
	for _, table := range slices.Sorted(maps.Keys(r.RequestItems)) {
		var of struct {
			Keys           []attr.Item
			ConsistentRead bool
		}
		if err := json.Unmarshal(r.RequestItems[table], &of); err != nil {
			return err
		}
		for _, key := range of.Keys {
			if err := visit(table, &request{TableName: table, Key: key, ConsistentRead: of.ConsistentRead}); err != nil {
				return err
			}
		}
	}
	return nil
}

func eachBatchWrite(r *request, visit func(table, action string, r *request) error) error {
	for _, table := range slices.Sorted(maps.Keys(r.RequestItems)) {
		var writes []struct {
			PutRequest    *struct{ Item attr.Item }
			DeleteRequest *struct{ Key attr.Item }
		}
		if err := json.Unmarshal(r.RequestItems[table], &writes); err != nil {
			return err
		}
		for _, w := range writes {
			var err error
			switch {
			case w.PutRequest != nil:
				err = visit(table, "PutItem", &request{TableName: table, Item: w.PutRequest.Item})
			case w.DeleteRequest != nil:
				err = visit(table, "DeleteItem", &request{TableName: table, Key: w.DeleteRequest.Key})
			default:
				err = errors.New("a batch's write is neither put nor delete")
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// carryBatch passes the items for which there is capacity, and returns the others as
// unprocessed. If no item passes, it throttles the request.
func (m *model) carryBatch(ctx context.Context, s *shipment, body []byte, r *request, parts []*part) (*http.Response, error) {
	var passing, throttled []*part
	passes := make([]bool, len(parts))
	for i, p := range parts {
		if passes[i] = m.reserve(s, parts[i:i+1]); passes[i] {
			passing = append(passing, p)
		} else {
			throttled = append(throttled, p)
		}
	}
	switch {
	case len(throttled) == 0:
		return m.pass(ctx, s, body, r.ReturnConsumedCapacity, parts)
	case len(passing) == 0:
		return m.refuse(s, parts), nil
	}
	m.count(s, throttled, "Unprocessed")
	sent, back, err := divide(s.operation, r, passes)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	if fields["RequestItems"], err = json.Marshal(sent); err != nil {
		return nil, err
	}
	if body, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	resp, err := m.pass(ctx, s, body, r.ReturnConsumedCapacity, passing)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	return resp, giveBack(resp, s.operation, back)
}

// divide splits the items of a batch; passes is in the order of eachItem.
func divide(operation string, r *request, passes []bool) (sent, back map[string]json.RawMessage, err error) {
	sent, back = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, table := range slices.Sorted(maps.Keys(r.RequestItems)) {
		items, pack, err := unpack(operation, r.RequestItems[table])
		if err != nil {
			return nil, nil, err
		}
		var yes, no []json.RawMessage
		for i, item := range items {
			if passes[i] {
				yes = append(yes, item)
			} else {
				no = append(no, item)
			}
		}
		passes = passes[len(items):]
		for into, items := range map[*map[string]json.RawMessage][]json.RawMessage{&sent: yes, &back: no} {
			if len(items) == 0 {
				continue
			}
			if (*into)[table], err = pack(items); err != nil {
				return nil, nil, err
			}
		}
	}
	return sent, back, nil
}

// unpack returns the items in a table's part of a batch, and a function that packs
// another list in its place.
func unpack(operation string, raw json.RawMessage) (items []json.RawMessage, pack func([]json.RawMessage) (json.RawMessage, error), err error) {
	if operation == "BatchWriteItem" {
		err = json.Unmarshal(raw, &items)
		return items, func(l []json.RawMessage) (json.RawMessage, error) { return json.Marshal(l) }, err
	}
	var b batchKeys
	if err = json.Unmarshal(raw, &b); err != nil {
		return nil, nil, err
	}
	items, err = b.keys()
	return items, b.with, err
}

// giveBack adds throttled items to the unprocessed items of the reply.
func giveBack(resp *http.Response, operation string, back map[string]json.RawMessage) error {
	name := "UnprocessedItems"
	if operation == "BatchGetItem" {
		name = "UnprocessedKeys"
	}
	_, fields, err := fieldsOf(resp)
	if err != nil {
		return err
	}
	left := map[string]json.RawMessage{}
	if raw, ok := fields[name]; ok {
		if err := json.Unmarshal(raw, &left); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	for table, raw := range back {
		also, ok := left[table]
		if !ok {
			left[table] = raw
			continue
		}
		items, pack, err := unpack(operation, raw)
		if err != nil {
			return err
		}
		more, _, err := unpack(operation, also)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if left[table], err = pack(append(items, more...)); err != nil {
			return err
		}
	}
	if fields[name], err = json.Marshal(left); err != nil {
		return err
	}
	return setFields(resp, fields)
}
