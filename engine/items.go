package engine

import (
	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// write is a request compiled against its table. All checks that do not need the
// stored item have been made, first the checks that do not need the table. Only an
// action of a transaction may be unfit.
type write struct {
	*writeRequest
	into      *table
	key       string // storage key; empty if unfit
	unfit     error  // the item's or key's own fault: no key of the table
	condition *expr.Condition
	update    *expr.Update
	put       *image // of a put
}

// compile compiles a write outside a transaction, and refuses an unfit item.
func (e *Engine) compile(r *writeRequest) (*write, error) {
	w, err := e.compileAction(r)
	if err == nil && w.unfit != nil {
		return nil, w.unfit
	}
	return w, err
}

// compileAction compiles an action of a transaction. An item that does not fit the
// table's key makes the write unfit, which cancels the transaction.
func (e *Engine) compileAction(r *writeRequest) (*write, error) {
	w := &write{writeRequest: r}
	if err := w.parse(&e.parser); err != nil {
		return nil, err
	}
	if r.kind == writePut {
		if w.put = newImage(r.item); w.put.size > maxItemSize {
			return nil, validation("Item size has exceeded the maximum allowed size")
		}
	}
	t, err := e.lookup(r.table)
	if err != nil {
		return nil, err
	}
	w.into = t
	return w, w.place()
}

// place sets the storage key of the item, and refuses an item that cannot be stored.
func (w *write) place() error {
	keys := &w.into.keys
	if w.update != nil {
		if err := keys.checkUpdate(w.update); err != nil {
			return err
		}
	}
	if w.kind == writePut {
		w.unfit = keys.matchItem(w.item)
	} else {
		w.unfit = keys.matchKey(w.item)
	}
	if w.unfit == nil {
		w.key = keys.storage(w.item)
		return keys.checkSizes(w.item)
	}
	return nil
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
	}
	if w.writeRequest.condition.given {
		if w.condition, err = env.Condition(w.writeRequest.condition.text); err != nil {
			return err
		}
	}
	return env.Unused()
}

// planned is a write with its effect on the stored item.
type planned struct {
	mutation
	update *expr.Update // nil: the write is not an update, or an update without an expression
}

// plan computes the effect of the write on the found item. It needs no lock, because
// images do not change.
func (w *write) plan(found *image, indexes []*index) (planned, error) {
	p := planned{mutation: mutation{table: w.into, key: w.key, before: found}, update: w.update}
	if w.kind == writePut {
		if err := checkIndexes(indexes, w.item); err != nil {
			return p, err // before the condition: it is wrong whatever is stored
		}
	}
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
		return p, checkIndexes(indexes, p.after.attributes())
	case writeCheck:
		p.after = found
	case writeDelete:
	}
	return p, nil
}

func (w *write) refusedBy(found *image) error {
	if w.onFailure {
		return conditionFailed(found.attributes())
	}
	return conditionFailed(nil)
}

// planUpdate applies the update to the item, or to its bare key if the item is absent:
// an update creates an absent item, unless it only removes attributes.
func (w *write) planUpdate(p *planned) (err error) {
	after := p.before.attributes()
	if after == nil {
		after = w.item
	}
	if w.update != nil {
		if after, err = w.update.Apply(after); err != nil {
			return err
		}
		if p.before == nil && w.update.OnlyRemoves() {
			return nil
		}
	}
	if p.after = newImage(after); p.after.size > maxItemSize {
		return validation("Item size to update has exceeded the maximum allowed size")
	}
	return nil
}

// writeOne plans and commits a write. It plans without the lock, and again under the
// lock if the item has changed since. So it holds the lock for the shortest time, and
// writes of a hot item still make progress. A refused write costs as much as writing
// the stored item.
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

// returned returns the attributes that ReturnValues asks for.
func (p *planned) returned(want returnValues) attr.Item {
	switch want {
	case returnAllOld:
		return p.before.attributes()
	case returnAllNew:
		return p.after.attributes()
	case returnUpdatedOld:
		return p.written(p.before)
	case returnUpdatedNew:
		return p.written(p.after)
	case returnNone:
	}
	return nil
}

// written returns the parts of an image that the update names.
func (p *planned) written(i *image) attr.Item {
	if p.update == nil {
		return nil
	}
	return p.update.Pick(i.attributes())
}
