// Package attr holds DynamoDB attribute values: immutable, compact, exact.
//
//	{"PK":{"S":"a"},"n":{"N":"1e2"}}     DynamoDB JSON
//	       │ Item.UnmarshalJSON                 ▲
//	       ▼                                    │ Item.AppendJSON
//	Item{"PK": Str("a"), "n": Num(100)} ── Equal, Compare, SortKey, Size
//
// # Terms
//
//   - kind: a data type: S, N, B, BOOL, NULL, the sets SS, NS and BS, and the
//     documents L and M.
//   - value: the content of an attribute. A value never changes after it is made:
//     the slices and maps that a constructor takes or an accessor returns are
//     shared, and callers must not write to them. Callers may copy values freely,
//     and cloning the map of an Item clones the Item.
//   - sort key: a string for each value; its byte order is the order of the values.
//
// # Example
//
//	var item attr.Item
//	err := item.UnmarshalJSON([]byte(`{"hits":{"N":"41"}}`))
//	n, err := item["hits"].Number().Add(attr.Int(1))
//	item["hits"] = attr.Num(n) // {"hits":{"N":"42"}}
//
// # The JSON decoder
//
// The decoder is written by hand, because decoding takes most of the time of an
// UpdateItem. The format is narrow: objects with a single field, whose value is
// nearly always a short string. A scanner for this format needs no tokens, no
// reflection and no memory besides the values.
package attr
