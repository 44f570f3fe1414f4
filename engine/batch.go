package engine

import (
	"github.com/tidegate/tidegate/engine/attr"
)

// Maximum numbers of items in a batch.
const (
	maxBatchKeys   = 100
	maxBatchWrites = 25
)

// batchRead is the part of a BatchGetItem for a table.
type batchRead struct {
	table string
	raw   []byte // the table's part of the request, to return unprocessed keys
	r     reading
	keys  []attr.Item
	reads []keyed
}

func (e *Engine) batchGetItem(c *call) ([]byte, error) {
	var (
		tables   []*batchRead
		capacity capacityMode
		keys     int
	)
	err := eachField(c.body, func(name, raw []byte) error {
		switch string(name) {
		case "RequestItems":
			return eachField(raw, func(name, raw []byte) error {
				b, err := decodeBatchRead(name, raw)
				if err == nil {
					tables, keys = append(tables, b), keys+len(b.keys)
				}
				return err
			})
		case "ReturnConsumedCapacity":
			return decodeCapacityMode(raw, &capacity)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(tables) == 0:
		return nil, emptyBatch("requestItems")
	case keys > maxBatchKeys:
		return nil, validation("Too many items requested for the BatchGetItem call: %d, at most %d", keys, maxBatchKeys)
	}
	for _, b := range tables {
		if err := e.compileBatchRead(b); err != nil {
			return nil, err
		}
	}
	return e.runBatchRead(c, tables, capacity)
}

func emptyBatch(field string) error {
	return validation("1 validation error detected: Value at '%s' failed to satisfy constraint: "+
		"Member must have length greater than or equal to 1", field)
}

func decodeBatchRead(table, raw []byte) (*batchRead, error) {
	b := &batchRead{raw: raw}
	if err := decodeKey(table, &b.table); err != nil {
		return nil, err
	}
	return b, eachField(raw, func(name, raw []byte) error {
		if string(name) != "Keys" {
			return b.r.decode(name, raw)
		}
		return eachElement(raw, func(raw []byte) error {
			key, err := decodeItem(raw)
			b.keys = append(b.keys, key)
			return err
		})
	})
}

func (e *Engine) compileBatchRead(b *batchRead) error {
	if len(b.keys) == 0 {
		return emptyBatch("requestItems." + b.table + ".member.keys")
	}
	projection, err := b.r.compile(&e.parser)
	if err != nil {
		return err
	}
	t, err := e.lookup(b.table)
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(b.keys))
	for _, key := range b.keys {
		k, err := newKeyed(t, key, projection)
		if err == nil {
			err = k.unfit
		}
		if err != nil {
			return err
		}
		if seen[k.storage] {
			return validation("Provided list of item keys contains duplicates")
		}
		seen[k.storage] = true
		b.reads = append(b.reads, k)
	}
	return nil
}

// runBatchRead reads until the reply is full, and returns the remaining keys as
// unprocessed.
func (e *Engine) runBatchRead(c *call, tables []*batchRead, capacity capacityMode) ([]byte, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	responses, unprocessed := object{}, object{}
	left := maxBatchRead
	for _, b := range tables {
		var items []attr.Item
		var over []attr.Item
		for i := range b.reads {
			found, err := e.read(&b.reads[i])
			if err != nil {
				return nil, err
			}
			size := found.bytes()
			if size > left {
				left = -1 // full: all later keys are unprocessed, too
				over = append(over, b.keys[i])
				continue
			}
			left -= size
			c.bill.of(b.table).read += readUnits(size, b.r.consistent)
			if found != nil {
				items = append(items, shown(b.reads[i].projection, found.item))
			}
		}
		responses.field(b.table)
		responses.b = appendList(responses.b, items, appendItem)
		if len(over) > 0 {
			unprocessed.field(b.table)
			unprocessed.b = b.appendUnprocessed(unprocessed.b, over)
		}
	}
	o := object{b: make([]byte, 0, 256+len(responses.b))}
	o.field("Responses")
	o.b = append(o.b, responses.end()...)
	o.field("UnprocessedKeys")
	o.b = append(o.b, unprocessed.end()...)
	c.bill.appendAll(&o, capacity, false)
	return o.end(), nil
}

// appendUnprocessed repeats a table's part of the request with fewer keys.
func (b *batchRead) appendUnprocessed(dst []byte, keys []attr.Item) []byte {
	o := object{b: dst}
	o.field("Keys")
	o.b = appendList(o.b, keys, appendItem)
	_ = eachField(b.raw, func(name, raw []byte) error { // decoded once already: well-formed
		if string(name) != "Keys" {
			o.field(string(name))
			o.b = append(o.b, raw...)
		}
		return nil
	})
	return o.end()
}

func (e *Engine) batchWriteItem(c *call) ([]byte, error) {
	var (
		writes   []*writeRequest
		capacity capacityMode
	)
	err := eachField(c.body, func(name, raw []byte) error {
		switch string(name) {
		case "RequestItems":
			return eachField(raw, func(name, raw []byte) error {
				return decodeBatchWrites(name, raw, &writes)
			})
		case "ReturnConsumedCapacity":
			return decodeCapacityMode(raw, &capacity)
		case "ReturnItemCollectionMetrics":
			return checkCollectionMetrics(raw)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(writes) == 0:
		return nil, emptyBatch("requestItems")
	case len(writes) > maxBatchWrites:
		return nil, validation("Too many items requested for the BatchWriteItem call: %d, at most %d", len(writes), maxBatchWrites)
	}
	compiled, err := e.compileBatch(writes)
	if err != nil {
		return nil, err
	}
	if err := e.checkAllIndexes(compiled); err != nil {
		return nil, err
	}
	for _, w := range compiled {
		if _, err := e.writeOne(c, w); err != nil {
			return nil, err
		}
	}
	o := object{}
	o.field("UnprocessedItems")
	o.b = append(o.b, `{}`...)
	c.bill.appendAll(&o, capacity, false)
	return o.end(), nil
}

// checkAllIndexes refuses items that an index would refuse, before any is written.
func (e *Engine) checkAllIndexes(writes []*write) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range writes {
		if w.kind != writePut {
			continue
		}
		if err := checkIndexes(w.into.indexes, w.item); err != nil {
			return err
		}
	}
	return nil
}

func decodeBatchWrites(table, raw []byte, into *[]*writeRequest) error {
	var name string
	if err := decodeKey(table, &name); err != nil {
		return err
	}
	return eachElement(raw, func(raw []byte) error {
		requests := 0
		err := eachField(raw, func(field, raw []byte) error {
			kind := writePut
			switch string(field) {
			case "PutRequest":
			case "DeleteRequest":
				kind = writeDelete
			default:
				return nil
			}
			requests++
			w, err := decodeWrite(kind, raw)
			if err != nil {
				return err
			}
			if w.condition.given {
				return validation("BatchWriteItem has no conditions: use TransactWriteItems, or a request for each item")
			}
			w.table = name
			*into = append(*into, w)
			return nil
		})
		if err == nil && requests != 1 {
			return validation("Supplied AttributeValue has more than one datatypes set or none: " +
				"each write request is either a PutRequest or a DeleteRequest")
		}
		return err
	})
}

// place is the location of an item, whether or not the item exists.
type place struct {
	table *table
	key   string
}

// compileBatch compiles writes, which must all write different items.
func (e *Engine) compileBatch(requests []*writeRequest) ([]*write, error) {
	writes := make([]*write, len(requests))
	places := make([]place, len(requests))
	for i, r := range requests {
		w, err := e.compile(r)
		if err != nil {
			return nil, err
		}
		writes[i], places[i] = w, place{w.into, w.key}
	}
	return writes, distinct(places, "Provided list of item keys contains duplicates")
}

// distinct refuses places that are not all different.
func distinct(places []place, duplicate string) error {
	seen := make(map[place]bool, len(places))
	for _, at := range places {
		if seen[at] {
			return validation("%s", duplicate)
		}
		seen[at] = true
	}
	return nil
}
