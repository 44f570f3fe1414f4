// Package expr evaluates DynamoDB's expressions: conditions, filters, updates,
// key conditions and projections.
//
//	source ── lex ──▶ tokens ── parse ──▶ tree ── bind ──▶ Condition, Update, …
//	   │                                   ▲      ▲                │
//	   └────────── Parser's memo ──────────┘      │                ▼
//	                       names and values of the request     stored item
//
// Words:
//
//   - A placeholder is a #name or a :value in an expression.
//   - An Env is the placeholders of one request. It notes which are used, for
//     DynamoDB refuses spare ones.
//   - A tree is a parsed expression; its placeholders are slots. It depends on
//     the source text alone, so a Parser keeps the trees of texts that recur.
//   - Binding fills the slots and checks what only the values can tell: types
//     of operands, paths that overlap.
//   - A fault is what is wrong with an expression, in DynamoDB's words.
//
// Example:
//
//	env := parser.Env(map[string]string{"#n": "hits"}, map[string]attr.Value{":one": attr.Num(attr.Int(1))})
//	update, err := env.Update("ADD #n :one")
//	condition, err := env.Condition("#n >= :one")
//	err = env.Unused()
//	ok, err := condition.Eval(item)            // false: item has no hits
//	updated, touched, err := update.Apply(item) // hits = 1; touched = [hits]
//
// Two rules surprise. A comparison with an absent attribute is false, and so
// its NOT is true; only <> is true for an absent attribute. And every operand of
// an update reads the item as it was: SET a = b, b = a swaps.
//
// No source text can harm the process: an expression is at most 4 KB, nesting
// is bounded, and so is the number of trees kept.
package expr
