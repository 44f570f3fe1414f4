// Package attr holds DynamoDB attribute values: immutable, compact, exact.
//
//	{"PK":{"S":"a"},"n":{"N":"1e2"}}     DynamoDB JSON
//	       │ Item.UnmarshalJSON                 ▲
//	       ▼                                    │ Item.AppendJSON
//	Item{"PK": Str("a"), "n": Num(100)} ── Equal, Compare, SortKey, Size
//
// Words:
//
//   - A kind is a data type: S, N, B, BOOL, NULL, the sets SS, NS, BS, and the
//     documents L and M.
//   - A value is one attribute's content. It never changes after it is made:
//     slices and maps handed to a constructor, or taken from an accessor, are
//     shared and must not be written to. So values are copied freely, and an
//     Item is cloned by cloning its map alone.
//   - A sort key is a string whose byte order is DynamoDB's order of the value.
//
// Example:
//
//	var item attr.Item
//	err := item.UnmarshalJSON([]byte(`{"hits":{"N":"41"}}`))
//	n, err := item["hits"].Number().Add(attr.Int(1))
//	item["hits"] = attr.Num(n) // {"hits":{"N":"42"}}
//
// The JSON decoder is written by hand: decoding is the hottest part of an
// UpdateItem, and the shape is so narrow (objects of one field, whose value is
// nearly always a short string) that a scanner specialised to it needs no
// tokens, no reflection and no memory beyond the values themselves.
package attr
