package expr

import "slices"

// node is a part of a parsed expression. Placeholders are slots that each
// request fills anew, so one tree serves all requests with the same text.
type node struct {
	// op is opPath, opValue, a comparator, a keyword in capitals, an
	// arithmetic sign, or for a call the function's name.
	op      string
	call    bool
	grouped bool // stands in parentheses
	args    []*node
	path    []step // of an opPath
	slot    int    // of an opValue
}

// Ops that are not the source's own words.
const (
	opPath  = "path"
	opValue = "value"
)

// isOperand reports whether the node stands for a value.
func (n *node) isOperand() bool { return n.call || n.op == opPath || n.op == opValue }

// isCondition reports whether the node can be true or false.
func (n *node) isCondition() bool { return n.op != opPath && n.op != opValue }

// placeholders is what an expression uses, each once. The index of a
// placeholder in names or values is its slot.
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
	tests []*node // comparisons and calls, whose operands are checked when bound
}

// updateTree is a parsed update expression.
type updateTree struct {
	placeholders
	actions []action
	calls   []*node // functions and sums, whose operands are checked when bound
}

// action is one change that an update makes.
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
