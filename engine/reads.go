package engine

import (
	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// reading holds the read parameters besides the key, of a GetItem or of a table in a
// BatchGetItem.
type reading struct {
	projection expression
	aliases    aliases
	consistent bool
}

// decode reads the field if it belongs to a reading.
func (r *reading) decode(name, raw []byte) error {
	switch string(name) {
	case "ProjectionExpression":
		return r.projection.decode(raw)
	case "ConsistentRead":
		return decodeBool(raw, &r.consistent)
	}
	if done, err := r.aliases.decode(name, raw); done {
		return err
	}
	return refuseLegacy(name)
}

func (r *reading) compile(parser *expr.Parser) (*expr.Projection, error) {
	env, err := r.aliases.env(parser, r.projection)
	if err != nil || !r.projection.given {
		return nil, err
	}
	p, err := env.Projection(r.projection.text)
	if err != nil {
		return nil, err
	}
	return p, env.Unused()
}

// shown applies the projection to an item; nil stays nil.
func shown(p *expr.Projection, item attr.Item) attr.Item {
	if p == nil || item == nil {
		return item
	}
	return p.Apply(item)
}

// keyed is a compiled read of an item.
type keyed struct {
	from       *table
	key        attr.Item
	storage    string // empty if unfit
	unfit      error  // the key does not fit the table: refused; in a transaction a reason of cancellation
	projection *expr.Projection
}

func (e *Engine) compileRead(name string, key attr.Item, r *reading) (keyed, error) {
	if key == nil {
		return keyed{}, missing("key")
	}
	p, err := r.compile(&e.parser)
	if err != nil {
		return keyed{}, err
	}
	t, err := e.lookup(name)
	if err != nil {
		return keyed{}, err
	}
	return newKeyed(t, key, p)
}

func newKeyed(t *table, key attr.Item, p *expr.Projection) (keyed, error) {
	k := keyed{from: t, key: key, projection: p, unfit: t.keys.matchKey(key)}
	if k.unfit == nil {
		if err := t.keys.checkSizes(key); err != nil {
			return keyed{}, err
		}
		k.storage = t.keys.storage(key)
	}
	return k, nil
}

// read returns the current item. The caller holds mu for reading.
func (e *Engine) read(k *keyed) (*image, error) {
	if err := e.still(k.from); err != nil {
		return nil, err
	}
	return k.from.find(k.storage), nil
}

func (e *Engine) getItem(c *call) ([]byte, error) {
	var (
		table    string
		key      attr.Item
		r        reading
		capacity capacityMode
	)
	err := eachField(c.body, func(name, raw []byte) (err error) {
		switch string(name) {
		case "TableName":
			return decodeText(raw, &table)
		case "Key":
			key, err = decodeItem(raw)
			return err
		case "ReturnConsumedCapacity":
			return decodeCapacityMode(raw, &capacity)
		}
		return r.decode(name, raw)
	})
	if err != nil {
		return nil, err
	}
	k, err := e.compileRead(table, key, &r)
	if err == nil {
		err = k.unfit
	}
	if err != nil {
		return nil, err
	}
	found, err := e.readOne(&k)
	if err != nil {
		return nil, err
	}
	c.bill.of(table).read += readUnits(found.bytes(), r.consistent)
	o := object{b: make([]byte, 0, 256+2*found.bytes())}
	if found != nil {
		o.field("Item")
		o.b = shown(k.projection, found.item).AppendJSON(o.b)
	}
	c.bill.appendOne(&o, capacity)
	return o.end(), nil
}

func (e *Engine) readOne(k *keyed) (*image, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.read(k)
}
