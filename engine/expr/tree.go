package expr

import "slices"

// node is a part of a parsed expression. Placeholders are slots that each request
// fills, so requests with the same text share the tree.
type node struct {
	// op is opPath, opValue, a comparator, a keyword in capitals, an arithmetic
	// sign, or the name of a called function.
	op      string
	call    bool
	grouped bool // stands in parentheses
	args    []*node
	path    []step // of an opPath
	slot    int    // of an opValue
}

// Ops that do not appear in the source.
const (
	opPath  = "path"
	opValue = "value"
)

// isOperand reports whether the node stands for a value.
func (n *node) isOperand() bool { return n.call || n.op == opPath || n.op == opValue }

// isCondition reports whether the node can be true or false.
func (n *node) isCondition() bool { return n.op != opPath && n.op != opValue }

// placeholders holds the placeholders of an expression, without duplicates. The
// index of a placeholder in names or values is its slot.
type placeholders struct {
	names, values             []string
	sortedNames, sortedValues []string
}

func (p *placeholders) sort() {
	p.sortedNames = slices.Sorted(slices.Values(p.names))
	p.sortedValues = slices.Sorted(slices.Values(p.values))
}

// conditionTree is a parsed condition, filter or key condition.
type conditionTree struct {
	placeholders
	root  *node
	tests []*node // comparisons and calls; binding checks their operands
}

// updateTree is a parsed update expression.
type updateTree struct {
	placeholders
	actions []action
	calls   []*node // functions and sums; binding checks their operands
}

// action is a single change of an update.
type action struct {
	verb  string // SET, REMOVE, ADD or DELETE
	path  []step
	value *node // nil for REMOVE
}

// projectionTree is a parsed projection expression.
type projectionTree struct {
	placeholders
	paths [][]step
}
