package localdynamo

import (
	"github.com/tidegate/tidegate/internal/localdynamo/attr"
	"github.com/tidegate/tidegate/internal/localdynamo/expr"
)

// write is a request compiled against its table: all that can be said about
// it without the stored item has been checked.
type write struct {
	*writeRequest
	into      *table
	key       string // storage key
	condition *expr.Condition
	update    *expr.Update
	put       *image // of a put
}

func (e *Engine) compile(r *writeRequest) (*write, error) {
	t, err := e.lookup(r.table)
	if err != nil {
		return nil, err
	}
	w := &write{writeRequest: r, into: t}
	if r.kind == writePut {
		err = t.keys.checkItem(r.item)
	} else {
		err = t.keys.checkKey(r.item)
	}
	if err != nil {
		return nil, err
	}
	if err := w.parse(&e.parser); err != nil {
		return nil, err
	}
	if r.kind == writePut {
		if w.put = newImage(r.item); w.put.size > maxItemSize {
			return nil, validation("Item size has exceeded the maximum allowed size")
		}
	}
	w.key = t.keys.storage(r.item)
	return w, nil
}

func (w *write) parse(p *expr.Parser) error {
	env, err := w.aliases.env(p, w.writeRequest.condition, w.writeRequest.update)
	if err != nil {
		return err
	}
	if w.writeRequest.update.given {
		if w.update, err = env.Update(w.writeRequest.update.text); err != nil {
			return err
		}
		if err := w.into.keys.checkUpdate(w.update); err != nil {
			return err
		}
	}
	if w.writeRequest.condition.given {
		if w.condition, err = env.Condition(w.writeRequest.condition.text); err != nil {
			return err
		}
	}
	return env.Unused()
}

// planned is a write decided against the stored item.
type planned struct {
	mutation
	touched []string // top-level attributes an update named
}

// plan decides the write against what was found of the item. It needs no lock:
// images do not change.
func (w *write) plan(found *image, indexes []*index) (planned, error) {
	p := planned{mutation: mutation{table: w.into, key: w.key, before: found}}
	if w.condition != nil {
		ok, err := w.condition.Eval(found.attributes())
		if err != nil {
			return p, err
		}
		if !ok {
			return p, w.refusedBy(found)
		}
	}
	switch w.kind {
	case writePut:
		p.after = w.put
	case writeUpdate:
		if err := w.planUpdate(&p); err != nil {
			return p, err
		}
	case writeCheck:
		p.after = found
	case writeDelete:
	}
	return p, checkIndexes(indexes, p.after.attributes())
}

func (w *write) refusedBy(found *image) error {
	if w.onFailure {
		return conditionFailed(found.attributes())
	}
	return conditionFailed(nil)
}

// planUpdate applies the update to the item, or to its bare key where there is
// none: an update creates what it does not find.
func (w *write) planUpdate(p *planned) (err error) {
	after := p.before.attributes()
	if after == nil {
		after = w.item
	}
	if w.update != nil {
		if after, p.touched, err = w.update.Apply(after); err != nil {
			return err
		}
	}
	if p.after = newImage(after); p.after.size > maxItemSize {
		return validation("Item size to update has exceeded the maximum allowed size")
	}
	return nil
}

// writeOne plans and commits one write. It plans without the lock, and again
// under it where the item has changed meanwhile: so the lock is held for the
// shortest time, yet a much written item makes progress. A refused write costs
// as much as writing the item that refused it.
func (e *Engine) writeOne(c *call, w *write) (planned, error) {
	found, indexes, err := e.look(w)
	if err != nil {
		return planned{}, err
	}
	p, err := w.plan(found, indexes)
	if err == nil {
		p, err = e.settle(c, w, p)
	}
	if err != nil {
		c.bill.of(w.into.name).write += units(p.before.bytes(), writeUnit)
	}
	return p, err
}

func (e *Engine) look(w *write) (*image, []*index, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return w.into.find(w.key), w.into.indexes, e.still(w.into)
}

func (e *Engine) settle(c *call, w *write, p planned) (planned, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.still(w.into); err != nil {
		return p, err
	}
	if now := w.into.find(w.key); now != p.before {
		var err error
		if p, err = w.plan(now, w.into.indexes); err != nil {
			return p, err
		}
	}
	e.commit(Client, 1, c, Commit{}, p.mutation)
	return p, nil
}

func (e *Engine) putItem(c *call) ([]byte, error)    { return e.write(c, writePut) }
func (e *Engine) updateItem(c *call) ([]byte, error) { return e.write(c, writeUpdate) }
func (e *Engine) deleteItem(c *call) ([]byte, error) { return e.write(c, writeDelete) }

func (e *Engine) write(c *call, kind writeKind) ([]byte, error) {
	r, err := decodeWrite(kind, c.body)
	if err != nil {
		return nil, err
	}
	w, err := e.compile(r)
	if err != nil {
		return nil, err
	}
	p, err := e.writeOne(c, w)
	if err != nil {
		return nil, err
	}
	o := object{b: make([]byte, 0, 256+2*p.after.bytes())}
	if attributes := p.returned(r.returns); len(attributes) > 0 {
		o.field("Attributes")
		o.b = attributes.AppendJSON(o.b)
	}
	c.bill.appendOne(&o, r.capacity)
	return o.end(), nil
}

// returned is what ReturnValues asks for.
func (p *planned) returned(want returnValues) attr.Item {
	switch want {
	case returnAllOld:
		return p.before.attributes()
	case returnAllNew:
		return p.after.attributes()
	case returnUpdatedOld:
		return only(p.before.attributes(), p.touched)
	case returnUpdatedNew:
		return only(p.after.attributes(), p.touched)
	case returnNone:
	}
	return nil
}

func only(item attr.Item, names []string) attr.Item {
	out := make(attr.Item, len(names))
	for _, name := range names {
		if v, ok := item[name]; ok {
			out[name] = v
		}
	}
	return out
}
