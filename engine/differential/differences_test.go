package differential

import (
	"fmt"
	"strings"
)

// difference is one way in which another engine is known to answer otherwise
// than DynamoDB does by its documentation, where this one answers like it.
type difference struct {
	name   string
	why    string
	source string // of what DynamoDB does
	// like reports whether two replies to a request differ in this way.
	like func(op operation, ours, theirs reply) bool
	// example is requests of which the last shows the difference.
	example func(x *table) []operation
}

const (
	apiReference = "DynamoDB API Reference, "
	guide        = "DynamoDB Developer Guide, "
	seen         = "seen on DynamoDB by the public suite paritysuite/dynamodb-conformance, "
)

// ofDynoxide lists the differences of dynoxide 1.2.1.
func ofDynoxide() []difference {
	return []difference{
		{
			name:   "old values of an item that was not there",
			why:    "an update that makes an item has no old item to return; dynoxide returns the key",
			source: apiReference + "UpdateItem, ReturnValues: ALL_OLD returns all attributes of the item as they appeared before the operation",
			like: func(op operation, ours, theirs reply) bool {
				return op.request["ReturnValues"] == "ALL_OLD" && ours.without("Attributes") == theirs.without("Attributes") &&
					ours.body["Attributes"] == nil && text(theirs.body["Attributes"]) == text(normal(op.request["Key"]))
			},
			example: func(x *table) []operation {
				return []operation{x.updating("SET n = :v", object{":v": number(1)}, object{"ReturnValues": "ALL_OLD"})}
			},
		},
		{
			name:   "reasons beside a key that does not fit",
			why:    "the first such key cancels a transaction before items are compared or looked at; dynoxide does both, and lists what it finds",
			source: "seen on DynamoDB in floci-io/floci pull request 3674",
			like: func(op operation, ours, theirs reply) bool {
				return strings.HasPrefix(op.name, "Transact") && ours.code == cancelled && theirs.code != "" &&
					(ours.blames("does not match the schema") || ours.blames("Type mismatch for key"))
			},
			example: func(x *table) []operation {
				check := object{"TableName": x.name, "Key": x.first(), "ConditionExpression": "attribute_exists(pk)"}
				bad := object{"TableName": x.name, "Key": object{"pk": number(1), "sk": x.sortKeys()[0]}}
				return []operation{{name: "TransactWriteItems", request: object{"TransactItems": []any{
					object{"ConditionCheck": check}, object{"Delete": bad},
				}}}}
			},
		},
		{
			name:   "an update that only removes",
			why:    "where there is no item it makes none; dynoxide makes one of the bare key",
			source: "seen on DynamoDB by ScyllaDB's Alternator suite, test_update_item_non_existant", //nolint:misspell // it is called so
			like: func(op operation, ours, theirs reply) bool {
				return onlyRemoves(op) && ours.code == "" && theirs.code == "" && text(beyondKeys(ours.body)) == text(beyondKeys(theirs.body))
			},
			example: func(x *table) []operation {
				return []operation{x.updating("REMOVE n", nil, object{"ReturnValues": "ALL_NEW"})}
			},
		},
		{
			name:   "expressions that fit nothing",
			why:    "an expression that no item could satisfy is refused before any is looked at; dynoxide evaluates it, and what it needs of it alone",
			source: guide + "Comparison operator and function reference: operand types of comparators, BETWEEN and begins_with; " + seen + "expression hygiene",
			like: func(_ operation, ours, theirs reply) bool {
				return ours.code == validation && theirs.code != validation && ours.says("Incorrect operand type",
					"The BETWEEN operator requires", "The first operand must be distinct", "Two document paths", "is not defined")
			},
			example: func(x *table) []operation {
				return []operation{x.updating("SET n = :v", object{":v": number(1), ":l": object{"L": []any{}}}, object{"ConditionExpression": "l < :l"})}
			},
		},
		{
			name:   "what an index does not carry",
			why:    "a global index neither shows nor filters by attributes that it does not project; dynoxide takes them for absent",
			source: guide + "Global secondary indexes, Attribute projections; seen on DynamoDB in localstack/localstack issue 478 and sensedeep/dynamodb-onetable issue 377",
			like: func(_ operation, ours, theirs reply) bool {
				return ours.code == validation && theirs.code != validation && ours.says("does not project")
			},
			example: func(x *table) []operation {
				return []operation{{name: "Scan", request: object{"TableName": x.name, "IndexName": "gkeys", "ProjectionExpression": "n"}}}
			},
		},
		{
			name:   "values without use",
			why:    "a value that no expression uses is refused; dynoxide looks for it only beside values that are used",
			source: seen + "unused ExpressionAttributeValues",
			like: func(_ operation, ours, theirs reply) bool {
				return ours.code == validation && theirs.code != validation && ours.says("unused in expressions")
			},
			example: func(x *table) []operation {
				return []operation{{name: "GetItem", request: object{
					"TableName": x.name, "Key": x.first(), "ProjectionExpression": "n", "ExpressionAttributeValues": object{":unused": number(1)},
				}}}
			},
		},
		{
			name:   "removal where there is no parent",
			why:    "a path below an attribute that is not there, or is no document, is invalid for REMOVE too; dynoxide ignores it",
			source: "seen on DynamoDB by ScyllaDB's Alternator suite, test_nested_attribute_update_bad_path_dot",
			like: func(_ operation, ours, theirs reply) bool {
				return ours.code != "" && ours.blames("The document path provided in the update expression is invalid for update") &&
					(theirs.code == "" || theirs.code == cancelled)
			},
			example: func(x *table) []operation { return []operation{x.updating("REMOVE m.x", nil, nil)} },
		},
		{
			name:   "projections of a transaction's items",
			why:    "a projection leaves what it names and no more, and of some items nothing; dynoxide adds the key, or answers as if the item were not there",
			source: apiReference + "TransactGetItems, Responses",
			like: func(op operation, ours, theirs reply) bool {
				return op.name == "TransactGetItems" && ours.code == "" && theirs.code == "" &&
					strings.Contains(text(op.request), "ProjectionExpression") && text(keyless(ours.body)) == text(keyless(theirs.body))
			},
			example: func(x *table) []operation {
				get := object{"TableName": x.name, "Key": x.first(), "ProjectionExpression": "absent"}
				return []operation{
					x.updating("SET n = :v", object{":v": number(1)}, nil),
					{name: "TransactGetItems", request: object{"TransactItems": []any{object{"Get": get}}}},
				}
			},
		},
		{
			name:   "elements set behind the end of a list",
			why:    "they are appended, with nothing between; dynoxide fills up with nulls",
			source: guide + "Update expressions, Adding elements to a list: DynamoDB appends the new element to the end; " + seen + "updateItem/paths",
			like: func(op operation, ours, theirs reply) bool {
				return ours.code == theirs.code && strings.Contains(text(op.request), "[") && strings.Contains(text(theirs.body), nulls) &&
					nullless(ours) == nullless(theirs)
			},
			example: func(x *table) []operation {
				return []operation{
					x.updating("SET l = :l", object{":l": object{"L": []any{}}}, nil),
					x.updating("SET l[2] = :v", object{":v": number(1)}, object{"ReturnValues": "ALL_NEW"}),
				}
			},
		},
		{
			name:   "values of an appended element",
			why:    "UPDATED_NEW and UPDATED_OLD are what stands at the update's paths; of a list that grows, dynoxide returns all, or an empty list",
			source: "seen on DynamoDB by ScyllaDB's Alternator suite, test_update_item_returnvalues_nested",
			like: func(op operation, ours, theirs reply) bool {
				returns, _ := op.request["ReturnValues"].(string)
				return strings.HasPrefix(returns, "UPDATED_") && ours.code == "" && theirs.code == "" &&
					ours.without("Attributes") == theirs.without("Attributes") &&
					text(listless(ours.body["Attributes"])) == text(listless(theirs.body["Attributes"])) && len(text(theirs.body)) > len(text(ours.body))
			},
			example: func(x *table) []operation {
				return []operation{
					x.updating("SET l = :l", object{":l": object{"L": []any{number(1)}}}, nil),
					x.updating("SET l[1] = :v", object{":v": number(2)}, object{"ReturnValues": "UPDATED_NEW"}),
				}
			},
		},
		{
			name:   "empty keys of a transaction's reads",
			why:    "an empty key is refused with the request, as in a transaction's writes; dynoxide cancels",
			source: seen + "transactWriteItems: empty-string lookup keys",
			like: func(op operation, ours, theirs reply) bool {
				return op.name == "TransactGetItems" && ours.code == validation && theirs.code == cancelled && ours.says("cannot contain an empty")
			},
			example: func(x *table) []operation {
				get := object{"TableName": x.name, "Key": object{"pk": str(""), "sk": x.sortKeys()[0]}}
				return []operation{{name: "TransactGetItems", request: object{"TransactItems": []any{object{"Get": get}}}}}
			},
		},
	}
}

const (
	validation = "ValidationException"
	cancelled  = "TransactionCanceledException"
)

// first is a key of the table.
func (x *table) first() object { return object{"pk": str("p"), "sk": x.sortKeys()[0]} }

// updating is an update of the item with the first key.
func (x *table) updating(update string, values, more object) operation {
	request := object{"TableName": x.name, "Key": x.first(), "UpdateExpression": update}
	if values != nil {
		request["ExpressionAttributeValues"] = values
	}
	for name, v := range more {
		request[name] = v
	}
	return operation{name: "UpdateItem", request: request}
}

// without is a reply as text, less one field.
func (r reply) without(field string) string {
	rest := object{}
	for name, v := range r.body {
		if name != field {
			rest[name] = v
		}
	}
	return fmt.Sprint(r.code, text(rest))
}

// onlyRemoves reports whether the operation has an update of nothing but REMOVE.
func onlyRemoves(op operation) bool {
	updates := []any{op.request}
	if actions, ok := op.request["TransactItems"].([]any); ok {
		updates = nil
		for _, action := range actions {
			updates = append(updates, action.(object)["Update"])
		}
	}
	for _, u := range updates {
		fields, _ := u.(object)
		x, _ := fields["UpdateExpression"].(string)
		if strings.HasPrefix(x, "REMOVE ") && !strings.Contains(x, " ADD ") && !strings.Contains(x, " DELETE ") {
			return true
		}
	}
	return false
}

// beyondKeys is the items of a scan's or an update's reply that are more than
// their key.
func beyondKeys(body object) []any {
	items, _ := body["Items"].([]any)
	var out []any
	for _, item := range append(items[:len(items):len(items)], body["Attributes"]) {
		fields, _ := item.(object)
		for name := range fields {
			if name != "pk" && name != "sk" {
				out = append(out, item)
				break
			}
		}
	}
	return out
}

// keyless is the responses of a TransactGetItems without keys and empty items.
func keyless(body object) []any {
	var out []any
	for _, response := range body["Responses"].([]any) {
		rest := object{}
		item, _ := response.(object)["Item"].(object)
		for name, v := range item {
			if name != "pk" && name != "sk" {
				rest[name] = v
			}
		}
		out = append(out, rest)
	}
	return out
}

// listless is a value less the lists in it, and less what has nothing else.
func listless(v any) any {
	fields, ok := v.(object)
	if !ok {
		return v
	}
	rest := object{}
	for name, inner := range fields {
		if inner = listless(inner); inner != nil && name != "L" {
			rest[name] = inner
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

const nulls = `{"NULL":true}`

// nullless is a reply as text, less nulls.
func nullless(r reply) string {
	return strings.NewReplacer(nulls+",", "", ","+nulls, "", nulls, "").Replace(text(r.body))
}

// says reports whether the message has one of the texts.
func (r reply) says(texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(r.message, t) {
			return true
		}
	}
	return false
}

// blames is says for the message or those of the reasons.
func (r reply) blames(t string) bool {
	return r.says(t) || strings.Contains(strings.Join(r.why, "\n"), t)
}

// explained names the known difference between two replies, if it is one.
func (p *pair) explained(op operation, ours, theirs reply) (name string, known bool) {
	for _, d := range p.known {
		if d.like(op, ours, theirs) {
			return d.name, true
		}
	}
	return "", false
}
