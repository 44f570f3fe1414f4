package expr

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/engine/attr"
)

// Parser parses expressions and caches the trees of the texts it has parsed, a
// bounded number of each kind. The zero Parser is ready to use. A Parser is safe
// for concurrent use.
type Parser struct {
	conditions  memo[*conditionTree] // filters and key conditions too
	updates     memo[*updateTree]
	projections memo[*projectionTree]
}

// Env holds the placeholders of a request and records which of them its
// expressions use. It is not safe for concurrent use. Every error that its methods,
// or the values they return, report belongs into a ValidationException.
type Env struct {
	parser *Parser
	names  map[string]string
	values map[string]attr.Value
	used   []*placeholders
}

// NewEnv returns the Env of a request with its ExpressionAttributeNames and
// ExpressionAttributeValues. It has its own Parser with an empty cache. A program
// that handles many requests keeps a Parser and calls [Parser.Env].
func NewEnv(names map[string]string, values map[string]attr.Value) *Env {
	return new(Parser).Env(names, values)
}

// Env returns an Env that uses this Parser. The syntax of the placeholders is
// checked when an expression fails, and by Unused: a placeholder that a valid
// expression uses is well-formed.
func (p *Parser) Env(names map[string]string, values map[string]attr.Value) *Env {
	return &Env{parser: p, names: names, values: values, used: make([]*placeholders, 0, 4)}
}

// Condition parses a ConditionExpression.
func (e *Env) Condition(src string) (*Condition, error) {
	return e.condition("ConditionExpression", src)
}

// Filter parses a FilterExpression; it differs from Condition only in its errors.
func (e *Env) Filter(src string) (*Condition, error) {
	return e.condition("FilterExpression", src)
}

func (e *Env) condition(parameter, src string) (*Condition, error) {
	tree, err := e.parser.conditions.tree(src, parseCondition)
	if err != nil {
		return nil, e.refuse(parameter, err)
	}
	c := &Condition{root: tree.root}
	if c.binding, err = e.bind(&tree.placeholders); err == nil {
		err = c.check(tree.tests)
	}
	if err != nil {
		return nil, e.refuse(parameter, err)
	}
	return c, nil
}

// Update parses an UpdateExpression.
func (e *Env) Update(src string) (*Update, error) {
	const parameter = "UpdateExpression"
	tree, err := e.parser.updates.tree(src, parseUpdate)
	if err != nil {
		return nil, e.refuse(parameter, err)
	}
	u := &Update{actions: tree.actions}
	if u.binding, err = e.bind(&tree.placeholders); err == nil {
		err = u.check(tree.calls)
	}
	if err != nil {
		return nil, e.refuse(parameter, err)
	}
	return u, nil
}

// Projection parses a ProjectionExpression.
func (e *Env) Projection(src string) (*Projection, error) {
	const parameter = "ProjectionExpression"
	tree, err := e.parser.projections.tree(src, parseProjection)
	if err != nil {
		return nil, e.refuse(parameter, err)
	}
	b, err := e.bind(&tree.placeholders)
	if err != nil {
		return nil, e.refuse(parameter, err)
	}
	p := &Projection{paths: make([]Path, len(tree.paths))}
	for i, path := range tree.paths {
		p.paths[i] = b.path(path)
	}
	if err := checkDistinctPaths(p.paths); err != nil {
		return nil, e.refuse(parameter, err)
	}
	return p, nil
}

// refuse adds the name of the parameter to a fault. If a placeholder is ill-formed,
// it returns that error, because DynamoDB checks placeholders first.
func (e *Env) refuse(parameter string, err error) error {
	if bad := e.checkPlaceholders(); bad != nil {
		return bad
	}
	var f fault
	if errors.As(err, &f) {
		return validation("Invalid %s: %s", parameter, f)
	}
	return err
}

// checkPlaceholders returns an error for the first ill-formed placeholder, if any.
func (e *Env) checkPlaceholders() error {
	for _, key := range slices.Sorted(maps.Keys(e.names)) {
		if !isPlaceholder(key, tokenName) {
			return validation(`ExpressionAttributeNames contains invalid key: Syntax error; key: "%s"`, key)
		}
		if e.names[key] == "" {
			return validation("ExpressionAttributeNames contains invalid value: "+
				"The expression attribute name must not be empty; key: %s", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.values)) {
		if !isPlaceholder(key, tokenValue) {
			return validation(`ExpressionAttributeValues contains invalid key: Syntax error; key: "%s"`, key)
		}
	}
	return nil
}

func isPlaceholder(key string, kind tokenKind) bool {
	if key == "" {
		return false
	}
	got, size := scan(key)
	return got == kind && size == len(key)
}

// Unused returns an error if no expression of this Env has used a placeholder, or
// if a placeholder is ill-formed. Call it after all of the request's expressions.
func (e *Env) Unused() error {
	names := make([][]string, 0, 4)
	values := make([][]string, 0, 4)
	for _, used := range e.used {
		names = append(names, used.sortedNames)
		values = append(values, used.sortedValues)
	}
	// Every used placeholder exists, so equal counts mean that all are used.
	if countDistinct(names) == len(e.names) && countDistinct(values) == len(e.values) {
		return nil
	}
	if err := e.checkPlaceholders(); err != nil {
		return err
	}
	if err := unused("ExpressionAttributeNames", slices.Collect(maps.Keys(e.names)), names); err != nil {
		return err
	}
	return unused("ExpressionAttributeValues", slices.Collect(maps.Keys(e.values)), values)
}

func unused(parameter string, keys []string, used [][]string) error {
	spare := slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(slices.Concat(used...), key) })
	if len(spare) == 0 {
		return nil
	}
	slices.Sort(spare)
	return validation("Value provided in %s unused in expressions: keys: {%s}", parameter, strings.Join(spare, ", "))
}

// countDistinct returns the number of different words in the sorted lists.
func countDistinct(lists [][]string) int {
	if len(lists) == 1 {
		return len(lists[0])
	}
	lists = slices.Clone(lists)
	for count := 0; ; count++ {
		least, found := "", false
		for _, list := range lists {
			if len(list) > 0 && (!found || list[0] < least) {
				least, found = list[0], true
			}
		}
		if !found {
			return count
		}
		for i, list := range lists {
			if len(list) > 0 && list[0] == least {
				lists[i] = list[1:]
			}
		}
	}
}

// binding holds the placeholders of a tree, resolved for a request.
type binding struct {
	names  []string
	values []attr.Value
}

func (e *Env) bind(p *placeholders) (binding, error) {
	b := binding{names: make([]string, len(p.names)), values: make([]attr.Value, len(p.values))}
	for i, key := range p.names {
		name, ok := e.names[key]
		if !ok {
			return b, faultf("An expression attribute name used in the document path is not defined; attribute name: %s", key)
		}
		if name == "" {
			return b, e.checkPlaceholders()
		}
		b.names[i] = name
	}
	for i, key := range p.values {
		v, ok := e.values[key]
		if !ok {
			return b, faultf("An expression attribute value used in expression is not defined; attribute value: %s", key)
		}
		b.values[i] = v
	}
	e.used = append(e.used, p)
	return b, nil
}

func (b *binding) element(s step) Element {
	switch s.kind {
	case stepName:
		return Element{Name: s.name, Index: -1}
	case stepPlaceholder:
		return Element{Name: b.names[s.n], Index: -1}
	case stepIndex:
	}
	return Element{Index: s.n}
}

func (b *binding) path(steps []step) Path {
	path := make(Path, len(steps))
	for i, s := range steps {
		path[i] = b.element(s)
	}
	return path
}

// find returns the value of the item at the path.
func (b *binding) find(item attr.Item, steps []step) (attr.Value, bool) {
	v, ok := item[b.element(steps[0]).Name]
	for _, s := range steps[1:] {
		if !ok {
			break
		}
		v, ok = child(v, b.element(s))
	}
	return v, ok
}

// child returns the value at an element directly inside v.
func child(v attr.Value, e Element) (attr.Value, bool) {
	if e.Index < 0 {
		inner, ok := v.Map()[e.Name]
		return inner, ok
	}
	if list := v.List(); e.Index < len(list) {
		return list[e.Index], true
	}
	return attr.Value{}, false
}

// constant returns the value of an operand that is a :value of the request.
func (b *binding) constant(n *node) (attr.Value, bool) {
	if n.op != opValue {
		return attr.Value{}, false
	}
	return b.values[n.slot], true
}
