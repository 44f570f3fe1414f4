package fault

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/engine/attr"
)

// request holds the fields of item operations that the layer needs.
type request struct {
	TableName, IndexName      string
	Key, Item                 attr.Item
	UpdateExpression          string
	ConditionExpression       string
	KeyConditionExpression    string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues attr.Item
	ConsistentRead            bool
	ReturnConsumedCapacity    string
	RequestItems              map[string]json.RawMessage
	TransactItems             []map[string]request
}

// tables returns the names of the request's tables, sorted.
func (r *request) tables() []string {
	var names []string
	if r.TableName != "" {
		names = append(names, r.TableName)
	}
	for name := range r.RequestItems {
		names = append(names, name)
	}
	for _, action := range r.TransactItems {
		for _, a := range action {
			names = append(names, a.TableName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// key returns the item's own key, or the item that contains it.
func (r *request) key() attr.Item {
	if r.Item != nil {
		return r.Item
	}
	return r.Key
}

// equated returns the value that an expression assigns to an attribute, or compares
// it with for equality: the :v in "name = :v".
func (r *request) equated(expression, attribute string) (attr.Value, bool) {
	for rest := expression; ; {
		left, right, found := strings.Cut(rest, "=")
		if !found {
			return attr.Value{}, false
		}
		rest = right
		name, value := lastWord(left), firstWord(right)
		if alias, ok := r.ExpressionAttributeNames[name]; ok {
			name = alias
		}
		if v, ok := r.ExpressionAttributeValues[value]; ok && name == attribute {
			return v, true
		}
	}
}

func lastWord(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	return s[strings.LastIndexAny(s, " \t\r\n,()<>")+1:]
}

func firstWord(s string) string {
	s = strings.TrimLeft(s, " \t\r\n")
	if end := strings.IndexAny(s, " \t\r\n,()"); end >= 0 {
		return s[:end]
	}
	return s
}

// hashOf places a partition key in the hash range: FNV-1a, then a finalizer, because
// the high bits select the range.
func hashOf(v attr.Value) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(v.SortKey()) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
