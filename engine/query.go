package engine

import (
	"slices"
	"strings"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// selection is the parameter Select.
type selection uint8

const (
	selectDefault selection = iota // all attributes that are there
	selectAll
	selectProjected
	selectSpecific
	selectCount
)

// listRequest is a Query or a Scan: a Query has a key condition.
type listRequest struct {
	isQuery   bool
	table     string
	index     string
	condition expression // on the key
	filter    expression
	r         reading
	selects   selection
	backward  bool
	limit     int // items to look at; 0: no limit
	segment   scanSegment
	start     attr.Item
	capacity  capacityMode
}

func decodeList(isQuery bool, body []byte) (*listRequest, error) {
	l := &listRequest{isQuery: isQuery}
	if err := eachField(body, l.decode); err != nil {
		return nil, err
	}
	if l.isQuery && !l.condition.given {
		return nil, validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	if !l.isQuery && l.condition.given {
		return nil, validation("KeyConditionExpression is not a parameter of Scan")
	}
	if err := l.segment.check(); err != nil {
		return nil, err
	}
	return l, l.checkSelect()
}

func (l *listRequest) decode(name, raw []byte) (err error) {
	switch string(name) {
	case "TableName":
		return decodeText(raw, &l.table)
	case "IndexName":
		return decodeText(raw, &l.index)
	case "KeyConditionExpression":
		return l.condition.decode(raw)
	case "FilterExpression":
		return l.filter.decode(raw)
	case "Select":
		return l.decodeSelect(raw)
	case "ScanIndexForward":
		forward := true
		err = decodeBool(raw, &forward)
		l.backward = l.isQuery && !forward // no parameter of Scan
		return err
	case "Limit":
		if err = decodeInt(raw, &l.limit); err == nil && l.limit < 1 {
			err = validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: "+
				"Member must have value greater than or equal to 1", l.limit)
		}
		return err
	case "ExclusiveStartKey":
		l.start, err = decodeItem(raw)
		return err
	case "ReturnConsumedCapacity":
		return decodeCapacityMode(raw, &l.capacity)
	case "Segment", "TotalSegments":
		if !l.isQuery {
			return l.segment.decode(string(name), raw)
		}
	}
	return l.r.decode(name, raw)
}

func (l *listRequest) decodeSelect(raw []byte) error {
	var s string
	if err := decodeText(raw, &s); err != nil {
		return err
	}
	switch s {
	case "ALL_ATTRIBUTES":
		l.selects = selectAll
	case "ALL_PROJECTED_ATTRIBUTES":
		l.selects = selectProjected
	case "SPECIFIC_ATTRIBUTES":
		l.selects = selectSpecific
	case "COUNT":
		l.selects = selectCount
	default:
		return notMember("select", s, "SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES")
	}
	return nil
}

func (l *listRequest) checkSelect() error {
	projects := l.r.projection.given
	switch {
	case projects && l.selects != selectDefault && l.selects != selectSpecific:
		return validation("Cannot specify the ProjectionExpression when choosing to get other than SPECIFIC_ATTRIBUTES")
	case !projects && l.selects == selectSpecific:
		return validation("Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case l.selects == selectProjected && l.index == "":
		return validation("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return nil
}

// listing is a listRequest compiled against its table.
type listing struct {
	*listRequest
	from       *table
	over       *index // nil: the table itself
	rng        span
	filter     *expr.Condition
	projection *expr.Projection
}

func (e *Engine) query(c *call) ([]byte, error) { return e.list(c, true) }
func (e *Engine) scan(c *call) ([]byte, error)  { return e.list(c, false) }

func (e *Engine) list(c *call, isQuery bool) ([]byte, error) {
	r, err := decodeList(isQuery, c.body)
	if err != nil {
		return nil, err
	}
	l, err := e.compileList(r)
	if err != nil {
		return nil, err
	}
	p, err := e.page(l)
	if err != nil {
		return nil, err
	}
	cost := readUnits(p.size, r.r.consistent)
	if l.over == nil {
		c.bill.of(r.table).read += cost
	} else {
		c.bill.of(r.table).index(r.index).read += cost
	}
	items, err := l.show(p.items)
	if err != nil {
		return nil, err
	}
	return l.reply(c, p, items), nil
}

func (e *Engine) compileList(r *listRequest) (*listing, error) {
	l := &listing{listRequest: r}
	env, err := l.parse(&e.parser)
	if err != nil {
		return nil, err
	}
	if l.from, err = e.lookup(r.table); err != nil {
		return nil, err
	}
	if err = e.chooseIndex(l); err != nil {
		return nil, err
	}
	if r.isQuery {
		condition, err := env.KeyCondition(r.condition.text, l.keys().part.name, l.keys().sort.name)
		if err != nil {
			return nil, err
		}
		if l.rng, err = l.keys().span(condition); err != nil {
			return nil, err
		}
	}
	if err := l.checkFilter(); err != nil {
		return nil, err
	}
	if err := l.checkProjection(); err != nil {
		return nil, err
	}
	if r.start != nil {
		if err := l.startAfter(r.start); err != nil {
			return nil, err
		}
	}
	return l, env.Unused()
}

// parse reads the expressions that need no table.
func (l *listing) parse(p *expr.Parser) (*expr.Env, error) {
	r := l.listRequest
	env, err := r.r.aliases.env(p, r.condition, r.filter, r.r.projection)
	if err == nil && r.filter.given {
		l.filter, err = env.Filter(r.filter.text)
	}
	if err == nil && r.r.projection.given {
		l.projection, err = env.Projection(r.r.projection.text)
	}
	return env, err
}

// checkFilter refuses a filter that reads the key of a Query's order, an element inside
// a key, or an attribute that a global index does not carry.
func (l *listing) checkFilter() error {
	if l.filter == nil {
		return nil
	}
	names := l.filter.Names()
	for _, name := range names {
		if l.isQuery && l.keys().has(name) {
			return validation("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
		}
	}
	for _, name := range l.filter.Nested() {
		kind := "Key"
		switch {
		case l.from.keys.has(name):
		case l.keys().has(name):
			kind = "IndexKey"
		default:
			continue
		}
		return validation("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: %s: %s", kind, name)
	}
	if absent := l.notCarried(names); len(absent) > 0 {
		return validation("One or more parameter values were invalid: Secondary index %s does not project one or more "+
			"filter attributes: [%s]", l.index, strings.Join(absent, ", "))
	}
	return nil
}

// checkProjection refuses attributes that a global index does not carry.
func (l *listing) checkProjection() error {
	if l.projection == nil {
		return nil
	}
	var names []string
	for _, path := range l.projection.Paths() {
		names = append(names, path[0].Name)
	}
	if absent := l.notCarried(names); len(absent) > 0 {
		return validation("One or more parameter values were invalid: Global secondary index %s does not project [%s]",
			l.index, strings.Join(absent, ", "))
	}
	return nil
}

// notCarried returns the distinct names that the index lacks: queries add no table attributes.
func (l *listing) notCarried(names []string) []string {
	if l.over == nil {
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return l.over.shows(&l.from.keys, name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// keys returns the key that orders the listing.
func (l *listing) keys() *keySchema {
	if l.over != nil {
		return &l.over.keys
	}
	return &l.from.keys
}

func (e *Engine) chooseIndex(l *listing) error {
	if l.index == "" {
		return nil
	}
	e.mu.RLock()
	l.over = l.from.index(l.index)
	e.mu.RUnlock()
	switch {
	case l.over == nil:
		return validation("The table does not have the specified index: %s", l.index)
	case l.r.consistent:
		return validation("Consistent reads are not supported on global secondary indexes")
	case l.selects == selectAll && l.over.project != projectAll:
		return validation("One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for "+
			"global secondary index %s because its projection type is not ALL", l.index)
	}
	return nil
}

// startAfter restricts the range to the keys behind a LastEvaluatedKey.
func (l *listing) startAfter(key attr.Item) error {
	own := l.from.keys.of(key)
	if l.over != nil {
		l.over.keys.copyInto(own, key)
	}
	invalid := len(own) != len(key) || l.from.keys.checkItem(key) != nil
	if l.over != nil {
		invalid = invalid || !l.over.carries(key) || l.over.check(key) != nil
	}
	if invalid {
		return validation("The provided starting key is invalid")
	}
	if !l.segment.has(key[l.keys().part.name]) {
		return validation("The provided starting key is invalid: it is not of the segment")
	}
	place := l.from.keys.storage(key)
	if l.over != nil {
		place = l.over.storage(key, place)
	}
	if place < l.rng.from || l.rng.to != "" && place >= l.rng.to {
		return validation("The provided starting key is outside query boundaries based on provided conditions")
	}
	if l.backward {
		l.rng.to = place
	} else {
		l.rng.from = place + "\x00"
	}
	return nil
}

// found is a page of items as the index or table shows them.
type found struct {
	items []attr.Item
	size  int       // bytes looked at
	last  attr.Item // where to go on; nil: nothing is left
}

// page reads items up to the limit, a megabyte or the end.
func (e *Engine) page(l *listing) (found, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var p found
	if err := e.still(l.from); err != nil {
		return p, err
	}
	full := false
	l.rng.walk(l.stored(), l.backward, func(r *row) bool {
		item, size := r.now.item, r.now.size
		if !l.segment.has(item[l.keys().part.name]) {
			return true
		}
		if l.over != nil && l.over.project != projectAll {
			item = l.over.projected(&l.from.keys, item)
			size = item.Size()
		}
		if p.size+size > maxPage && len(p.items) > 0 {
			full = true
			return false
		}
		p.size += size
		p.items = append(p.items, item)
		full = len(p.items) == l.limit
		return !full
	})
	if full {
		last := p.items[len(p.items)-1]
		p.last = l.from.keys.of(last)
		l.keys().copyInto(p.last, last)
	}
	return p, nil
}

func (l *listing) show(items []attr.Item) ([]attr.Item, error) {
	out := items[:0:0]
	for _, item := range items {
		if l.filter != nil {
			ok, err := l.filter.Eval(item)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		out = append(out, shown(l.projection, item))
	}
	return out, nil
}

func (l *listing) reply(c *call, p found, items []attr.Item) []byte {
	o := object{b: make([]byte, 0, 512+2*p.size)}
	if l.selects != selectCount {
		o.field("Items")
		o.b = appendList(o.b, items, appendItem)
	}
	o.field("Count")
	o.b = appendUnits(o.b, float64(len(items)))
	o.field("ScannedCount")
	o.b = appendUnits(o.b, float64(len(p.items)))
	if p.last != nil {
		o.field("LastEvaluatedKey")
		o.b = p.last.AppendJSON(o.b)
	}
	c.bill.appendOne(&o, l.capacity)
	return o.end()
}
