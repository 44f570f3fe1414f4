package engine

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/tidegate/tidegate/engine/attr"
)

const (
	// maxActions is the maximum number of items in a transaction.
	maxActions = 100
	// transactionFactor is the cost factor of a transaction's reads and writes: each
	// is done twice, to prepare and to commit. Index writes follow once.
	transactionFactor = 2
	// maxToken is the maximum length of a ClientRequestToken.
	maxToken = 36
)

// transaction is a TransactWriteItems request.
type transaction struct {
	writes   []*writeRequest
	token    string
	digest   [32]byte // of everything but the token; set only with a token
	capacity capacityMode
}

const severalOperations = "Transaction request cannot include multiple operations on one item"

func (e *Engine) transactWriteItems(c *call) ([]byte, error) {
	x, err := decodeTransaction(c.body)
	if err != nil {
		return nil, err
	}
	writes, err := e.compileActions(x.writes)
	if err != nil {
		return nil, err
	}
	if err := e.transact(c, x, writes); err != nil {
		return nil, err
	}
	o := object{}
	c.bill.appendAll(&o, x.capacity, true)
	return o.end(), nil
}

// compileActions compiles writes, which must all write different items. A key that
// does not fit its table cancels the transaction before this is checked, and before
// any item is read.
func (e *Engine) compileActions(requests []*writeRequest) ([]*write, error) {
	writes := make([]*write, len(requests))
	places := make([]place, len(requests))
	unfit := make([]error, len(requests))
	for i, r := range requests {
		w, err := e.compileAction(r)
		if err != nil {
			return nil, err
		}
		writes[i], places[i], unfit[i] = w, place{w.into, w.key}, w.unfit
	}
	if err := cancelUnfit(unfit); err != nil {
		return nil, err
	}
	return writes, distinct(places, severalOperations)
}

func decodeTransaction(body []byte) (*transaction, error) {
	x := &transaction{}
	var actions []byte
	err := eachField(body, func(name, raw []byte) error {
		switch string(name) {
		case "TransactItems":
			actions = raw
			return eachElement(raw, x.decodeAction)
		case "ClientRequestToken":
			if err := decodeText(raw, &x.token); err != nil {
				return err
			}
			if n := len(x.token); n < 1 || n > maxToken {
				return validation("1 validation error detected: Value at 'clientRequestToken' failed to satisfy constraint: "+
					"Member must have length between 1 and %d", maxToken)
			}
			return nil
		case "ReturnConsumedCapacity":
			return decodeCapacityMode(raw, &x.capacity)
		case "ReturnItemCollectionMetrics":
			return checkCollectionMetrics(raw)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(x.writes) == 0:
		return nil, emptyBatch("transactItems")
	case len(x.writes) > maxActions:
		return nil, validation("1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "+
			"Member must have length less than or equal to %d", maxActions)
	}
	if x.token != "" {
		x.digest, err = digest(actions)
	}
	return x, err
}

func (x *transaction) decodeAction(raw []byte) error {
	before := len(x.writes)
	err := eachField(raw, func(name, raw []byte) error {
		var kind writeKind
		switch string(name) {
		case "Put":
			kind = writePut
		case "Update":
			kind = writeUpdate
		case "Delete":
			kind = writeDelete
		case "ConditionCheck":
			kind = writeCheck
		default:
			return nil
		}
		w, err := decodeWrite(kind, raw)
		if err != nil {
			return err
		}
		if kind == writeCheck && !w.condition.given || kind == writeUpdate && !w.update.given {
			return validation("an Update needs an UpdateExpression, a ConditionCheck a ConditionExpression")
		}
		x.writes = append(x.writes, w)
		return nil
	})
	if err == nil && len(x.writes) != before+1 {
		return validation("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	return err
}

// digest identifies the actions of a transaction. It ignores the order of fields,
// because clients write maps in any order.
func digest(actions []byte) ([32]byte, error) {
	var v any
	if err := json.Unmarshal(actions, &v); err != nil {
		return [32]byte{}, serialization("%v", err)
	}
	return sha256.Sum256(mustJSON(v)), nil
}

// transact executes all writes of a transaction, or no write.
func (e *Engine) transact(c *call, x *transaction, writes []*write) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.token != "" {
		if done, err := e.replayed(c, x, writes); done || err != nil {
			return err
		}
	}
	mutations := make([]mutation, len(writes))
	refusals := make([]error, len(writes))
	size := 0
	for i, w := range writes {
		if err := e.still(w.into); err != nil {
			return err
		}
		p, err := w.plan(w.into.find(w.key), w.into.indexes)
		if refusal := (*apiError)(nil); errors.As(err, &refusal) && refusal.whole {
			return err
		}
		mutations[i], refusals[i] = p.mutation, err
		size += max(p.after.bytes(), p.before.bytes())
	}
	if err := cancelFor(refusals); err != nil {
		for i := range mutations {
			c.bill.of(mutations[i].table.name).write += transactionFactor * units(mutations[i].before.bytes(), writeUnit)
		}
		return err
	}
	if size > maxTransaction {
		return validation("Collection size in transaction exceeded the maximum of %d bytes", maxTransaction)
	}
	if x.token != "" {
		e.tokens.remember(x.token, x.digest, e.now().Add(tokenLife))
	}
	e.commit(Client, transactionFactor, c, Commit{Token: x.token, Digest: x.digest}, mutations...)
	return nil
}

// reasonFor returns the cancellation reason for a planning error.
func reasonFor(err error) cancellation {
	var refusal *apiError
	switch {
	case err == nil:
		return cancellation{code: reasonNone}
	case errors.As(err, &refusal) && refusal.name == typeConditionFailed:
		return cancellation{code: reasonCondition, message: refusal.message, item: refusal.item}
	default:
		return cancellation{code: reasonValidation, message: asAPIError(err).message}
	}
}

// replayed reports whether the token was used before. A replay applies nothing and
// costs as much as reading the items. The caller holds mu.
func (e *Engine) replayed(c *call, x *transaction, writes []*write) (bool, error) {
	known, ok := e.tokens.recall(x.token, e.now())
	if !ok {
		return false, nil
	}
	if known != x.digest {
		return false, &apiError{name: typeTokenMismatch, message: "the ClientRequestToken was used for another request " +
			"in the last 10 minutes"}
	}
	for _, w := range writes {
		size := w.into.find(w.key).bytes()
		c.bill.of(w.into.name).read += transactionFactor * units(size, readUnit)
	}
	return true, nil
}

// tokenLife is the time for which DynamoDB remembers a ClientRequestToken.
const tokenLife = 10 * time.Minute

// tokenMemory holds the tokens of the last ten minutes; guarded by Engine.mu.
type tokenMemory struct {
	digests map[string][32]byte
	order   []rememberedToken // oldest first; elements never change
}

type rememberedToken struct {
	token  string
	digest [32]byte
	until  time.Time
}

func (m *tokenMemory) remember(token string, digest [32]byte, until time.Time) {
	m.digests[token] = digest
	m.order = append(m.order, rememberedToken{token: token, digest: digest, until: until})
}

func (m *tokenMemory) recall(token string, now time.Time) ([32]byte, bool) {
	for len(m.order) > 0 && !m.order[0].until.After(now) {
		delete(m.digests, m.order[0].token)
		m.order = m.order[1:]
	}
	digest, ok := m.digests[token]
	return digest, ok
}

func (e *Engine) transactGetItems(c *call) ([]byte, error) {
	var (
		reads    []keyed
		capacity capacityMode
	)
	err := eachField(c.body, func(name, raw []byte) error {
		switch string(name) {
		case "TransactItems":
			return eachElement(raw, func(raw []byte) error {
				k, err := e.decodeGet(raw)
				reads = append(reads, k)
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
	case len(reads) == 0:
		return nil, emptyBatch("transactItems")
	case len(reads) > maxActions:
		return nil, validation("1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "+
			"Member must have length less than or equal to %d", maxActions)
	}
	if err := checkReads(reads); err != nil {
		return nil, err
	}
	items, err := e.readTogether(c, reads)
	if err != nil {
		return nil, err
	}
	o := object{}
	o.field("Responses")
	o.b = appendList(o.b, items, func(b []byte, item attr.Item) []byte {
		one := object{b: b}
		if item != nil {
			one.field("Item")
			one.b = item.AppendJSON(one.b)
		}
		return one.end()
	})
	c.bill.appendAll(&o, capacity, true)
	return o.end(), nil
}

// checkReads refuses repeated items, and cancels reads whose keys do not fit.
func checkReads(reads []keyed) error {
	places := make([]place, len(reads))
	unfit := make([]error, len(reads))
	for i := range reads {
		places[i], unfit[i] = place{reads[i].from, reads[i].storage}, reads[i].unfit
	}
	if err := cancelUnfit(unfit); err != nil {
		return err
	}
	return distinct(places, severalOperations)
}

// cancelUnfit cancels a transaction with keys that do not fit their tables. Like
// DynamoDB, it gives a reason only for the first of them.
func cancelUnfit(errs []error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		clear(errs[i+1:])
	}
	return cancelFor(errs)
}

// cancelFor cancels a transaction if an action has an error.
func cancelFor(errs []error) error {
	refused := false
	reasons := make([]cancellation, len(errs))
	for i, err := range errs {
		reasons[i] = reasonFor(err)
		refused = refused || err != nil
	}
	if refused {
		return transactionCanceled(reasons)
	}
	return nil
}

func (e *Engine) decodeGet(raw []byte) (keyed, error) {
	var (
		table string
		key   attr.Item
		r     reading
		gets  int
	)
	err := eachField(raw, func(name, raw []byte) error {
		if string(name) != "Get" {
			return nil
		}
		gets++
		return eachField(raw, func(name, raw []byte) (err error) {
			switch string(name) {
			case "TableName":
				return decodeText(raw, &table)
			case "Key":
				key, err = decodeItem(raw)
				return err
			}
			return r.decode(name, raw)
		})
	})
	if err != nil {
		return keyed{}, err
	}
	if gets != 1 {
		return keyed{}, validation("each of TransactItems is one Get")
	}
	return e.compileRead(table, key, &r)
}

// readTogether reads all items at the same moment.
func (e *Engine) readTogether(c *call, reads []keyed) ([]attr.Item, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	items := make([]attr.Item, len(reads))
	total := 0
	for i := range reads {
		found, err := e.read(&reads[i])
		if err != nil {
			return nil, err
		}
		size := found.bytes()
		if total += size; total > maxTransaction {
			return nil, validation("Collection size in transaction exceeded the maximum of %d bytes", maxTransaction)
		}
		items[i] = shown(reads[i].projection, found.attributes())
		c.bill.of(reads[i].from.name).read += transactionFactor * units(size, readUnit)
	}
	return items, nil
}
