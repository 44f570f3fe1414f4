package engine

import (
	"github.com/tidwall/btree"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// span is a range of storage keys, from from up to but not including to. With an empty
// to, it has no end.
type span struct {
	from, to string
}

// span returns the range of keys that a key condition selects.
func (k *keySchema) span(c expr.KeyCondition) (span, error) {
	if err := k.part.checkOperand(c.PK, false); err != nil {
		return span{}, err
	}
	whole := partitionPrefix(c.PK)
	s := span{from: whole, to: successor(whole)}
	if c.Op == expr.SortNone {
		return s, nil
	}
	if err := k.sort.checkOperand(c.Lo, true); err != nil {
		return span{}, err
	}
	low := whole + escape(c.Lo.SortKey())
	switch c.Op {
	case expr.SortEqual:
		s = span{from: low, to: low + afterEnd}
	case expr.SortLess:
		s.to = low
	case expr.SortLessEqual:
		s.to = low + afterEnd
	case expr.SortGreater:
		s.from = low + afterEnd
	case expr.SortGreaterEqual:
		s.from = low
	case expr.SortBeginsWith:
		if k.sort.kind == attr.KindN {
			return span{}, validation("Invalid KeyConditionExpression: begins_with is not for the number %s", k.sort.name)
		}
		s = span{from: low, to: successor(low)}
	case expr.SortBetween:
		if err := k.sort.checkOperand(c.Hi, true); err != nil {
			return span{}, err
		}
		s = span{from: low, to: whole + escape(c.Hi.SortKey()) + afterEnd}
	case expr.SortNone:
	}
	return s, nil
}

// checkOperand refuses a value that the key attribute cannot have.
func (p *keyPart) checkOperand(v attr.Value, isSort bool) error {
	if v.Kind() != p.kind {
		return validation("One or more parameter values were invalid: Condition parameter type does not match schema type: "+
			"%s is of type %s", p.name, p.kind)
	}
	return p.checkSize(v, isSort)
}

func (l *listing) stored() *btree.Map[string, *row] {
	if l.over != nil {
		return &l.over.rows
	}
	return &l.from.rows
}

// walk visits the rows of the span in key order, or backward, until visit returns
// false.
func (s span) walk(rows *btree.Map[string, *row], backward bool, visit func(*row) bool) {
	if !backward {
		rows.Ascend(s.from, func(key string, r *row) bool {
			return (s.to == "" || key < s.to) && visit(r)
		})
		return
	}
	down := func(key string, r *row) bool {
		if s.to != "" && key >= s.to {
			return true // the pivot itself
		}
		return key >= s.from && visit(r)
	}
	if s.to == "" {
		rows.Reverse(down)
	} else {
		rows.Descend(s.to, down)
	}
}
