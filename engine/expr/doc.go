// Package expr evaluates DynamoDB's expressions: conditions, filters, updates,
// key conditions and projections.
//
//	source ── lex ──▶ tokens ── parse ──▶ tree ── bind ──▶ Condition, Update, …
//	   │                                   ▲      ▲                │
//	   └────────── Parser's memo ──────────┘      │                ▼
//	                       names and values of the request     stored item
//
// # Terms
//
//   - placeholder: a #name or a :value in an expression.
//   - Env: the placeholders of a request. It records which of them the expressions
//     use, because DynamoDB refuses unused placeholders.
//   - tree: a parsed expression, with slots for its placeholders. A tree depends
//     only on the source text, so a Parser caches the trees of repeated texts.
//   - binding: filling the slots, and checking the types of operands and the
//     overlap of paths, which depend on the request's names and values.
//   - fault: an error in an expression, with DynamoDB's message.
//
// # Example
//
//	env := parser.Env(map[string]string{"#n": "hits"}, map[string]attr.Value{":n": attr.Num(attr.Int(1))})
//	update, err := env.Update("ADD #n :n")
//	condition, err := env.Condition("#n >= :n")
//	err = env.Unused()
//	ok, err := condition.Eval(item)   // false: item has no hits
//	updated, err := update.Apply(item) // hits = 1; update.Paths() = [[hits]]
//
// # Semantics
//
// A comparison with an absent attribute is false, so its NOT is true; only <> is
// true for an absent attribute.
//
// Every operand of an update reads the item as it was before the update:
// SET a = b, b = a swaps the attributes.
//
// An expression has at most 4 KB, its nesting is bounded, and so is the number of
// cached trees: no source text can exhaust the process.
package expr
