package expr

import "github.com/tidegate/tidegate/engine/attr"

// SortOp is the operator on the sort key in a key condition.
type SortOp uint8

// The operators on a sort key.
const (
	SortNone SortOp = iota // every sort key
	SortEqual
	SortLess
	SortLessEqual
	SortGreater
	SortGreaterEqual
	SortBetween
	SortBeginsWith
)

// KeyCondition selects a partition and a range of its sort keys.
type KeyCondition struct {
	PK     attr.Value
	Op     SortOp
	Lo, Hi attr.Value // the operand is Lo; Hi is the upper bound of a SortBetween, which is included
}

// KeyCondition parses a KeyConditionExpression for a table or index with the
// partition key pk and the sort key sk, which is empty if there is no sort key. It
// does not compare the types of the operands with a schema.
func (e *Env) KeyCondition(src, pk, sk string) (KeyCondition, error) {
	const parameter = "KeyConditionExpression"
	c, err := e.condition(parameter, src)
	if err != nil {
		return KeyCondition{}, err
	}
	k := keyReader{binding: c.binding, pk: pk, sk: sk}
	if err := k.read(c.root); err != nil {
		return KeyCondition{}, e.refuse(parameter, err)
	}
	return k.out, nil
}

// keyReader extracts a key condition from a condition.
type keyReader struct {
	binding
	pk, sk           string
	foundPK, foundSK bool
	out              KeyCondition
}

func (k *keyReader) read(root *node) error {
	tests, err := k.flatten(nil, root)
	if err != nil {
		return err
	}
	if len(tests) > 2 {
		return validation("Conditions can be of length 1 or 2 only")
	}
	other := "" // an attribute that is not of the key
	for _, n := range tests {
		name, err := k.keyName(n)
		if err != nil {
			return err
		}
		switch {
		case name == k.pk && !k.foundPK:
			err = k.readPartition(n)
		case k.sk != "" && name == k.sk && !k.foundSK:
			err = k.readSort(n)
		case name == k.pk || k.sk != "" && name == k.sk:
			err = validation("KeyConditionExpressions must only contain one condition per key")
		default:
			other = name
		}
		if err != nil {
			return err
		}
	}
	switch {
	case !k.foundPK:
		return validation("Query condition missed key schema element: %s", k.pk)
	case other != "" && k.sk != "":
		return validation("Query condition missed key schema element: %s", k.sk)
	case other != "":
		return validation("Query key condition not supported")
	}
	return nil
}

// flatten returns the tests that the condition joins with AND.
func (k *keyReader) flatten(tests []*node, n *node) ([]*node, error) {
	var err error
	switch n.op {
	case "AND":
		for _, arg := range n.args {
			if tests, err = k.flatten(tests, arg); err != nil {
				return nil, err
			}
		}
		return tests, nil
	case "=", "<", "<=", ">", ">=", "BETWEEN", "begins_with":
		return append(tests, n), nil
	}
	return nil, faultf("Invalid operator used in KeyConditionExpression: %s", n.op)
}

// keyName returns the attribute that the test restricts.
func (k *keyReader) keyName(n *node) (string, error) {
	for _, arg := range n.args {
		if arg.call {
			return "", validation("KeyConditionExpressions cannot contain nested operations")
		}
		if arg.op == opPath && len(arg.path) > 1 {
			return "", validation("KeyConditionExpressions cannot have conditions on nested attributes")
		}
	}
	if n.args[0].op != opPath {
		return "", faultf("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand", n.op)
	}
	for _, arg := range n.args[1:] {
		if arg.op == opPath {
			return "", fault("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
		}
	}
	return k.element(n.args[0].path[0]).Name, nil
}

func (k *keyReader) readPartition(n *node) error {
	if n.op != "=" {
		return validation("Query key condition not supported")
	}
	k.foundPK = true
	k.out.PK = k.values[n.args[1].slot]
	return nil
}

func (k *keyReader) readSort(n *node) error {
	k.foundSK = true
	k.out.Op = sortOp(n.op)
	k.out.Lo = k.values[n.args[1].slot]
	if k.out.Op == SortBetween {
		k.out.Hi = k.values[n.args[2].slot]
	}
	if !k.out.Lo.Kind().IsScalar() {
		return validation("One or more parameter values were invalid: Condition parameter type does not match schema type")
	}
	return nil
}

func sortOp(op string) SortOp {
	switch op {
	case "<":
		return SortLess
	case "<=":
		return SortLessEqual
	case ">":
		return SortGreater
	case ">=":
		return SortGreaterEqual
	case "BETWEEN":
		return SortBetween
	case "begins_with":
		return SortBeginsWith
	}
	return SortEqual
}

// Match reports whether a sort key is in the range. A sort key whose type differs
// from the operand's is outside the range; a SortNone matches every sort key.
func (k KeyCondition) Match(sk attr.Value) bool {
	switch k.Op {
	case SortNone:
		return true
	case SortEqual:
		return compares("=", sk, k.Lo)
	case SortLess:
		return compares("<", sk, k.Lo)
	case SortLessEqual:
		return compares("<=", sk, k.Lo)
	case SortGreater:
		return compares(">", sk, k.Lo)
	case SortGreaterEqual:
		return compares(">=", sk, k.Lo)
	case SortBetween:
		return compares(">=", sk, k.Lo) && compares("<=", sk, k.Hi)
	case SortBeginsWith:
		return compares("begins_with", sk, k.Lo)
	}
	return false
}
