package expr

import (
	"errors"
	"slices"

	"github.com/tidegate/tidegate/engine/attr"
)

// Update is an update expression, bound to the values of a request. It is safe for
// concurrent use.
type Update struct {
	actions []action
	paths   []Path // of the actions
	binding
}

// Paths returns the paths that the update writes, in the order of the expression.
// They do not overlap. The caller must not change them.
func (u *Update) Paths() []Path { return u.paths }

// Pick returns the parts of an item, before or after the update, at the update's
// paths, inside their maps and lists. An element that the update set behind the end
// of a list is not at the index of its path, and after a removal the next element
// moves up to that index: like DynamoDB, Pick leaves out the former and returns the
// latter.
func (u *Update) Pick(it attr.Item) attr.Item { return choose(it, u.paths) }

// OnlyRemoves reports whether the update has no action other than REMOVE: such an
// update does not create an item.
func (u *Update) OnlyRemoves() bool {
	return !slices.ContainsFunc(u.actions, func(a action) bool { return a.verb != "REMOVE" })
}

// Apply returns the item after the update. All actions read the old item, which may
// be nil and does not change: the new item shares its unchanged values. Apply fails
// if the item lacks an attribute that the expression needs.
func (u *Update) Apply(old attr.Item) (updated attr.Item, err error) {
	edits := make([]edit, len(u.actions))
	for i := range u.actions {
		if edits[i], err = u.evaluate(i, old); err != nil {
			return nil, err
		}
	}
	if updated = old.Clone(); updated == nil {
		updated = make(attr.Item, len(edits))
	}
	isNested := false
	for i := range edits {
		e := &edits[i]
		if len(e.path) > 1 {
			isNested = true
			continue
		}
		e.write(updated)
	}
	if isNested {
		err = applyNested(updated, edits)
	}
	if err != nil {
		return nil, err
	}
	return updated, nil
}

// edit is an action with its result.
type edit struct {
	path   Path
	effect effect
	value  attr.Value // of an effectSet
}

// effect is the kind of change that an edit makes at its path.
type effect uint8

const (
	effectNone effect = iota
	effectSet
	effectRemove
)

// write applies the edit to a field.
func (e *edit) write(fields attr.Item) {
	name := e.path[len(e.path)-1].Name
	switch e.effect {
	case effectSet:
		fields[name] = e.value
	case effectRemove:
		delete(fields, name)
	case effectNone:
	}
}

func (u *Update) evaluate(i int, old attr.Item) (edit, error) {
	a := &u.actions[i]
	e := edit{path: u.paths[i], effect: effectSet}
	var err error
	switch a.verb {
	case "REMOVE":
		e.effect = effectRemove
		return e, nil
	case "SET":
		e.value, err = u.compute(a.value, old)
		if err == nil && e.value.Kind().IsDocument() && len(e.path)-1+e.value.Depth() > attr.MaxDepth {
			err = asValidation(attr.ErrTooDeep)
		}
		return e, err
	}
	operand := u.values[a.value.slot]
	current, ok := u.find(old, a.path)
	switch {
	case !ok && a.verb == "DELETE":
		e.effect = effectNone
	case !ok:
		e.value = operand
	case current.Kind() != operand.Kind():
		return e, errOperandType
	case operand.Kind() == attr.KindN:
		e.value, err = sum("+", current, operand)
	case a.verb == "ADD":
		e.value = current.Union(operand)
	default:
		if e.value, ok = current.Without(operand); !ok {
			e.effect = effectRemove
		}
	}
	return e, err
}

// compute returns the value of the right side of a SET.
func (u *Update) compute(n *node, old attr.Item) (attr.Value, error) {
	switch n.op {
	case opValue:
		return u.values[n.slot], nil
	case opPath:
		v, ok := u.find(old, n.path)
		if !ok {
			return v, errMissing
		}
		return v, nil
	case "if_not_exists":
		if v, ok := u.find(old, n.args[0].path); ok {
			return v, nil
		}
		return u.compute(n.args[1], old)
	}
	left, err := u.compute(n.args[0], old)
	if err != nil {
		return left, err
	}
	right, err := u.compute(n.args[1], old)
	if err != nil {
		return right, err
	}
	if n.op == "list_append" {
		return appendLists(left, right)
	}
	return sum(n.op, left, right)
}

func appendLists(a, b attr.Value) (attr.Value, error) {
	if a.Kind() != attr.KindL || b.Kind() != attr.KindL {
		return attr.Value{}, errOperandType
	}
	elems := make([]attr.Value, 0, len(a.List())+len(b.List()))
	return attr.List(append(append(elems, a.List()...), b.List()...)), nil
}

// sum adds or subtracts.
func sum(op string, a, b attr.Value) (attr.Value, error) {
	if a.Kind() != attr.KindN || b.Kind() != attr.KindN {
		return attr.Value{}, errOperandType
	}
	add := attr.Number.Add
	if op == "-" {
		add = attr.Number.Sub
	}
	n, err := add(a.Number(), b.Number())
	if err != nil {
		return attr.Value{}, asValidation(err)
	}
	return attr.Num(n), nil
}

// asValidation converts a ValueError into a ValidationError.
func asValidation(err error) error {
	var refused *attr.ValueError
	if errors.As(err, &refused) {
		return &ValidationError{Message: refused.Message}
	}
	return err
}

// check resolves the paths, and refuses actions and functions that cannot accept
// the request's operands.
func (u *Update) check(calls []*node) error {
	u.paths = make([]Path, len(u.actions))
	steps := 0
	for i := range u.actions {
		steps += len(u.actions[i].path)
	}
	elements := make(Path, 0, steps)
	for i := range u.actions {
		begin := len(elements)
		for _, s := range u.actions[i].path {
			elements = append(elements, u.element(s))
		}
		u.paths[i] = elements[begin:len(elements):len(elements)]
	}
	if err := checkDistinctPaths(u.paths); err != nil {
		return err
	}
	for i := range u.actions {
		if err := u.checkAction(&u.actions[i]); err != nil {
			return err
		}
	}
	for _, n := range calls {
		if err := u.checkCall(n); err != nil {
			return err
		}
	}
	return nil
}

// checkAction refuses operands that ADD or DELETE does not accept.
func (u *Update) checkAction(a *action) error {
	if a.verb != "ADD" && a.verb != "DELETE" {
		return nil
	}
	kind := u.values[a.value.slot].Kind()
	if kind.IsSet() || a.verb == "ADD" && kind == attr.KindN {
		return nil
	}
	return faultf("Incorrect operand type for operator or function; operator: %s, operand type: %s", a.verb, longName(kind))
}

// longName returns the name of a type in some of DynamoDB's errors.
func longName(kind attr.Kind) string {
	switch kind {
	case attr.KindS:
		return "STRING"
	case attr.KindN:
		return "NUMBER"
	case attr.KindB:
		return "BINARY"
	case attr.KindBOOL:
		return "BOOLEAN"
	case attr.KindL:
		return "LIST"
	case attr.KindM:
		return "MAP"
	case attr.KindNULL, attr.KindSS, attr.KindNS, attr.KindBS:
	}
	return kind.String()
}

func (u *Update) checkCall(n *node) error {
	if err := checkCount(n); err != nil {
		return err
	}
	want := attr.KindN
	switch n.op {
	case "if_not_exists":
		return requirePath(n)
	case "list_append":
		want = attr.KindL
	}
	for _, arg := range n.args {
		if v, ok := u.constant(arg); ok && v.Kind() != want {
			return faultf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s",
				n.op, v.Kind())
		}
	}
	return nil
}
