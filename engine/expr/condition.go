package expr

import (
	"strings"
	"unicode/utf16"

	"github.com/tidegate/tidegate/engine/attr"
)

// Condition is a condition or filter, bound to the values of a request. It is safe
// for concurrent use.
type Condition struct {
	root *node
	binding
}

// Names returns the top-level attributes that the condition reads, in the order of
// the expression. A name that the expression repeats is returned as often.
func (c *Condition) Names() []string { return c.appendNames(nil, c.root, 1) }

// Nested returns the Names for which the condition reads a nested element or entry.
func (c *Condition) Nested() []string { return c.appendNames(nil, c.root, 2) }

// appendNames adds the first element of each path with at least that many elements.
func (c *Condition) appendNames(names []string, n *node, elements int) []string {
	if n.op == opPath {
		if len(n.path) >= elements {
			names = append(names, c.element(n.path[0]).Name)
		}
		return names
	}
	for _, arg := range n.args {
		names = c.appendNames(names, arg, elements)
	}
	return names
}

// Eval reports whether the item meets the condition; a nil item has no attributes.
// A comparison with an absent operand, or of operands of different types, is false,
// so its NOT is true; only <> is then true. The error is always nil at present:
// parsing the condition finds all errors.
func (c *Condition) Eval(item attr.Item) (bool, error) {
	return c.holds(c.root, item), nil
}

func (c *Condition) holds(n *node, item attr.Item) bool {
	switch n.op {
	case "AND":
		for _, arg := range n.args {
			if !c.holds(arg, item) {
				return false
			}
		}
		return true
	case "OR":
		for _, arg := range n.args {
			if c.holds(arg, item) {
				return true
			}
		}
		return false
	case "NOT":
		return !c.holds(n.args[0], item)
	}
	first, ok := c.operand(n.args[0], item)
	switch n.op {
	case "attribute_exists":
		return ok
	case "attribute_not_exists":
		return !ok
	case "IN":
		return ok && c.isAmong(first, n.args[1:], item)
	}
	second, okSecond := c.operand(n.args[1], item)
	if !ok || !okSecond {
		return n.op == "<>"
	}
	if n.op == "BETWEEN" {
		third, okThird := c.operand(n.args[2], item)
		return okThird && compares(">=", first, second) && compares("<=", first, third)
	}
	return compares(n.op, first, second)
}

func (c *Condition) isAmong(v attr.Value, list []*node, item attr.Item) bool {
	for _, n := range list {
		if w, ok := c.operand(n, item); ok && v.Equal(w) {
			return true
		}
	}
	return false
}

// compares applies an operator or a function to two operands that are present.
func compares(op string, a, b attr.Value) bool {
	switch op {
	case "=":
		return a.Equal(b)
	case "<>":
		return !a.Equal(b)
	case "attribute_type":
		return a.Kind().String() == b.Text()
	case "begins_with":
		return hasPrefix(a, b)
	case "contains":
		return includes(a, b)
	}
	order, ok := attr.Compare(a, b)
	if !ok {
		return false
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// isText reports whether both are strings, or both binaries. The sort key of such a
// value is its bytes.
func isText(a, b attr.Value) bool {
	return a.Kind() == b.Kind() && (a.Kind() == attr.KindS || a.Kind() == attr.KindB)
}

func hasPrefix(a, b attr.Value) bool {
	return isText(a, b) && strings.HasPrefix(a.SortKey(), b.SortKey())
}

func includes(a, b attr.Value) bool {
	return isText(a, b) && strings.Contains(a.SortKey(), b.SortKey()) || a.Has(b)
}

func (c *Condition) operand(n *node, item attr.Item) (attr.Value, bool) {
	switch n.op {
	case opPath:
		return c.find(item, n.path)
	case opValue:
		return c.values[n.slot], true
	}
	v, ok := c.operand(n.args[0], item) // size is the only function that has a value
	if !ok {
		return v, false
	}
	return sizeOf(v)
}

// sizeOf implements size(): it counts UTF-16 code units, bytes or elements. It
// reports false for numbers, booleans and null, which have no size.
func sizeOf(v attr.Value) (attr.Value, bool) {
	size := 0
	switch v.Kind() {
	case attr.KindS:
		for _, r := range v.Text() {
			size += utf16.RuneLen(r)
		}
	case attr.KindB:
		size = v.Size()
	case attr.KindSS, attr.KindNS, attr.KindBS:
		size = len(v.Elems())
	case attr.KindL:
		size = len(v.List())
	case attr.KindM:
		size = len(v.Map())
	case attr.KindN, attr.KindBOOL, attr.KindNULL:
		return attr.Value{}, false
	}
	return attr.Num(attr.Int(int64(size))), true
}

// check refuses operators and functions that cannot accept the request's operands.
func (b *binding) check(tests []*node) error {
	for _, n := range tests {
		if err := b.checkTest(n); err != nil {
			return err
		}
	}
	return nil
}

func (b *binding) checkTest(n *node) error {
	if n.call {
		if err := checkCount(n); err != nil {
			return err
		}
	}
	if len(n.args) == 2 {
		if err := b.checkDistinctOperands(n); err != nil {
			return err
		}
	}
	switch n.op {
	case "attribute_exists", "attribute_not_exists":
		return requirePath(n)
	case "attribute_type":
		return b.checkTypeName(n)
	case "BETWEEN":
		return b.checkBounds(n)
	}
	for _, arg := range n.args {
		if v, ok := b.constant(arg); ok && !takes(n.op, v.Kind()) {
			what := "operator"
			if n.call {
				what = "operator or function"
			}
			return faultf("Incorrect operand type for operator or function; %s: %s, operand type: %s", what, n.op, v.Kind())
		}
		if arg.op == "size" && n.op == "size" {
			return faultf("Incorrect operand type for operator or function; operator or function: size, operand type: N")
		}
	}
	return nil
}

// takes reports whether an operator or function accepts a constant of the kind.
func takes(op string, kind attr.Kind) bool {
	switch op {
	case "<", "<=", ">", ">=":
		return kind.IsScalar()
	case "begins_with":
		return kind == attr.KindS || kind == attr.KindB
	case "size":
		return kind != attr.KindN && kind != attr.KindBOOL && kind != attr.KindNULL
	}
	return true
}

// checkCount refuses a call with too few or too many operands.
func checkCount(n *node) error {
	want := 2
	switch n.op {
	case "attribute_exists", "attribute_not_exists", "size":
		want = 1
	}
	if len(n.args) == want {
		return nil
	}
	return faultf("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d",
		n.op, len(n.args))
}

func requirePath(n *node) error {
	if n.args[0].op == opPath {
		return nil
	}
	return faultf("Operator or function requires a document path; operator or function: %s", n.op)
}

func (b *binding) checkTypeName(n *node) error {
	const all = "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}"
	v, ok := b.constant(n.args[1])
	if !ok {
		return faultf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", n.op, all)
	}
	if v.Kind() != attr.KindS {
		return faultf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", n.op, v.Kind())
	}
	if _, ok := attr.ParseKind(v.Text()); !ok {
		return faultf("Invalid attribute type name found; type: %s, valid types: %s", v.Text(), all)
	}
	return nil
}

func (b *binding) checkDistinctOperands(n *node) error {
	first, second := n.args[0], n.args[1]
	if first.op != opPath || second.op != opPath || len(first.path) != len(second.path) {
		return nil
	}
	for i := range first.path {
		if b.element(first.path[i]) != b.element(second.path[i]) {
			return nil
		}
	}
	return faultf("The first operand must be distinct from the remaining operands for this operator or function; "+
		"operator: %s, first operand: %v", n.op, b.path(first.path))
}

func (b *binding) checkBounds(n *node) error {
	for _, arg := range n.args {
		if v, ok := b.constant(arg); ok && !v.Kind().IsScalar() {
			return faultf("Incorrect operand type for operator or function; operator: BETWEEN, operand type: %s", v.Kind())
		}
	}
	lower, okLower := b.constant(n.args[1])
	upper, okUpper := b.constant(n.args[2])
	if !okLower || !okUpper {
		return nil
	}
	rule := ""
	if order, ok := attr.Compare(lower, upper); !ok {
		rule = "same data type for lower and upper bounds"
	} else if order > 0 {
		rule = "upper bound to be greater than or equal to lower bound"
	}
	if rule == "" {
		return nil
	}
	return faultf("The BETWEEN operator requires %s; lower bound operand: AttributeValue: %s, "+
		"upper bound operand: AttributeValue: %s", rule, describe(lower), describe(upper))
}

// describe prints a scalar like DynamoDB's errors: {S:abc}.
func describe(v attr.Value) string {
	content := v.SortKey()
	if v.Kind() == attr.KindN {
		content = v.Number().String()
	}
	return "{" + v.Kind().String() + ":" + content + "}"
}
