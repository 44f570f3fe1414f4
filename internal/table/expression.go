package table

import (
	"math"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// aliases holds the names and values that an expression refers to. The same sequence
// of calls gives the same aliases, so that texts recur from write to write and from
// node to node.
type aliases struct {
	names       map[string]string
	values      map[string]types.AttributeValue
	byAttribute map[string]string
}

// name returns the alias of an attribute, the same for each use.
func (a *aliases) name(attribute string) string {
	if alias, ok := a.byAttribute[attribute]; ok {
		return alias
	}
	alias := "#n" + strconv.Itoa(len(a.names))
	a.names[alias], a.byAttribute[attribute] = attribute, alias
	return alias
}

// value returns the alias of a new value.
func (a *aliases) value(v types.AttributeValue) string {
	alias := ":v" + strconv.Itoa(len(a.values))
	a.values[alias] = v
	return alias
}

// condition collects the requirements of a write, or of a query's keys.
type condition struct {
	aliases
	required strings.Builder
}

// newCondition returns a condition with room for about n attributes.
func newCondition(n int) *condition { return &condition{aliases: newAliases(n)} }

func newAliases(n int) aliases {
	return aliases{
		names:       make(map[string]string, n),
		values:      make(map[string]types.AttributeValue, 2*n),
		byAttribute: make(map[string]string, n),
	}
}

// expression collects the clauses of an update and its condition.
type expression struct {
	condition
	sets    strings.Builder
	adds    strings.Builder
	removes strings.Builder
}

// newExpression returns an expression with room for about n attributes.
func newExpression(n int) *expression {
	return &expression{condition: condition{aliases: newAliases(n)}}
}

func clause(b *strings.Builder, separator string, parts ...string) {
	if b.Len() > 0 {
		b.WriteString(separator)
	}
	for _, p := range parts {
		b.WriteString(p)
	}
}

func (e *expression) set(attribute string, v types.AttributeValue) {
	clause(&e.sets, ", ", e.name(attribute), " = ", e.value(v))
}

// add does nothing if n is 0: an ADD of 0 to a missing attribute would create it.
func (e *expression) add(attribute string, n int64) {
	if n != 0 {
		clause(&e.adds, ", ", e.name(attribute), " ", e.value(number(n)))
	}
}

func (e *expression) remove(attribute string) {
	clause(&e.removes, ", ", e.name(attribute))
}

func (c *condition) require(parts ...string) {
	clause(&c.required, " AND ", parts...)
}

func (c *condition) requireEqual(attribute string, v types.AttributeValue) {
	c.require(c.name(attribute), " = ", c.value(v))
}

func (c *condition) requireExists(attribute string) {
	c.require("attribute_exists(", c.name(attribute), ")")
}

func (c *condition) requireAbsent(attribute string) {
	c.require("attribute_not_exists(", c.name(attribute), ")")
}

// change writes a limit's drawn count and requires the range for which the change
// is valid. A change without bounds still requires that the attribute exists: ADD
// would create a limit that the item does not have.
func (e *expression) change(limit string, c bucket.Change) {
	drawn := drawnOf(limit)
	switch {
	case c.Set:
		e.set(drawn, number(c.Amount))
	default:
		e.add(drawn, c.Amount)
	}
	low, high := c.Min != math.MinInt64, c.Max != math.MaxInt64
	switch {
	case low && high:
		e.require(e.name(drawn), " BETWEEN ", e.value(number(c.Min)), " AND ", e.value(number(c.Max)))
	case low:
		e.require(e.name(drawn), " >= ", e.value(number(c.Min)))
	case high:
		e.require(e.name(drawn), " <= ", e.value(number(c.Max)))
	default:
		e.requireExists(drawn)
	}
}

// update returns the text of the update expression.
func (e *expression) update() *string {
	var b strings.Builder
	for _, part := range []struct {
		verb    string
		clauses *strings.Builder
	}{{"ADD ", &e.adds}, {"SET ", &e.sets}, {"REMOVE ", &e.removes}} {
		if part.clauses.Len() > 0 {
			clause(&b, " ", part.verb, part.clauses.String())
		}
	}
	s := b.String()
	return &s
}

// conditions returns the text of the condition expression; nil without conditions.
func (c *condition) conditions() *string {
	if c.required.Len() == 0 {
		return nil
	}
	s := c.required.String()
	return &s
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func boolean(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }
