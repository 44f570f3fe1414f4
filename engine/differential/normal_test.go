package differential

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/engine/attr"
)

// normal gives what DynamoDB leaves open one form: the elements of sets are
// sorted, numbers have one spelling. No attribute of the tests is called like a
// type, so a field N is a number and SS a set wherever they stand.
func normal(v any) any {
	switch v := v.(type) {
	case object:
		for name, inner := range v {
			v[name] = normalField(name, inner)
		}
		return v
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
		return v
	case json.Number:
		return canonical(v.String())
	}
	return v
}

func normalField(name string, v any) any {
	if s, ok := v.(string); ok && name == "N" {
		return canonical(s)
	}
	elems, ok := v.([]any)
	if !ok {
		return normal(v)
	}
	switch name {
	case "NS":
		for i := range elems {
			elems[i] = canonical(fmt.Sprint(elems[i]))
		}
		return sorted(elems)
	case "SS", "BS":
		return sorted(elems)
	}
	return normal(v)
}

func canonical(number string) string {
	n, err := attr.ParseNumber(number)
	if err != nil {
		return number
	}
	return n.String()
}

// sorted puts what has no order of its own into one.
func sorted(elems []any) []any {
	slices.SortFunc(elems, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	return elems
}

// text is a value as JSON, whose fields are in order.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
