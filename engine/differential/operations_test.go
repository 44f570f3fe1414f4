package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// operation is one request of a sequence.
type operation struct {
	name    string
	request object
	// paged requests are repeated from LastEvaluatedKey to the end, and all of
	// it is compared; unordered ones give items in no order that is fixed.
	paged, unordered bool
}

// GoString is how a failing sequence shows the operation.
func (op operation) GoString() string { return op.name + " " + text(op.request) }

// writes reports whether the operation may change the table.
func (op operation) writes() bool {
	return strings.HasSuffix(op.name, "Item") && !strings.HasSuffix(op.name, "GetItem") || op.name == "TransactWriteItems"
}

func (x *table) operation(t *rapid.T) operation {
	draw := pick(t, "operation", (*table).put, (*table).put, (*table).update, (*table).update, (*table).update, (*table).delete,
		(*table).get, (*table).query, (*table).query, (*table).scan, (*table).batchGet, (*table).batchWrite,
		(*table).transactWrite, (*table).transactGet)
	op := draw(x, t)
	if chance(t, "capacity", 2) {
		op.request["ReturnConsumedCapacity"] = pick(t, "capacity mode", "INDEXES", "TOTAL")
	}
	if chance(t, "spoilt", 20) {
		spoil(t, op.request)
	}
	return op
}

// spoil makes a request wrong in a way that concerns none of the others.
func spoil(t *rapid.T, request object) {
	fields := slices.Sorted(maps.Keys(request))
	field := pick(t, "field", fields...)
	switch rapid.IntRange(0, 4).Draw(t, "spoil") {
	case 0:
		delete(request, field)
	case 1:
		request[field] = []any{true}
	case 2:
		request["TableName"] = "no-such-table"
	case 3:
		request["ConditionExpression"] = "attribute_exists(pk"
	case 4:
		request["ReturnValues"] = "EVERYTHING"
	}
}

func (x *table) put(t *rapid.T) operation {
	request := object{"TableName": x.name, "Item": x.item(t)}
	if chance(t, "returns", 3) {
		request["ReturnValues"] = pick(t, "return values", "ALL_OLD", "NONE")
	}
	return operation{name: "PutItem", request: conditionally(t, request)}
}

func (x *table) delete(t *rapid.T) operation {
	request := object{"TableName": x.name, "Key": x.key(t)}
	if chance(t, "returns", 3) {
		request["ReturnValues"] = pick(t, "return values", "ALL_OLD", "NONE")
	}
	return operation{name: "DeleteItem", request: conditionally(t, request)}
}

// conditionally adds a condition to some requests.
func conditionally(t *rapid.T, request object) object {
	if rapid.Bool().Draw(t, "conditional") {
		a := newAliases(t)
		request["ConditionExpression"] = a.condition(2)
		onFailure(t, request)
		a.into(request)
	}
	return request
}

func onFailure(t *rapid.T, request object) {
	if rapid.Bool().Draw(t, "on failure") {
		request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
	}
}

func (x *table) update(t *rapid.T) operation {
	request := x.change(t)
	if rapid.Bool().Draw(t, "returns") {
		request["ReturnValues"] = pick(t, "return values", "ALL_NEW", "ALL_OLD", "UPDATED_NEW", "UPDATED_OLD", "NONE")
	}
	return operation{name: "UpdateItem", request: request}
}

// change is what an UpdateItem and a transaction's Update have in common.
func (x *table) change(t *rapid.T) object {
	request := object{"TableName": x.name, "Key": x.key(t)}
	a := newAliases(t)
	request["UpdateExpression"] = a.update()
	if chance(t, "conditional", 3) {
		request["ConditionExpression"] = a.condition(2)
		onFailure(t, request)
	}
	a.into(request)
	return request
}

func (x *table) get(t *rapid.T) operation {
	return operation{name: "GetItem", request: x.read(t, object{"TableName": x.name, "Key": x.key(t)}, true)}
}

// read adds what all reads have in common.
func (x *table) read(t *rapid.T, request object, consistent bool) object {
	if consistent && rapid.Bool().Draw(t, "consistent") {
		request["ConsistentRead"] = true
	}
	if chance(t, "projected", 3) {
		a := newAliases(t)
		request["ProjectionExpression"] = a.projection()
		a.into(request)
	}
	return request
}

func (x *table) query(t *rapid.T) operation {
	a := newAliases(t)
	request := object{"TableName": x.name}
	op := operation{name: "Query", request: request, paged: true}
	index := pick(t, "index", "", "", "gall", "gkeys", "gincl")
	switch index {
	case "":
		request["KeyConditionExpression"] = a.keyCondition("pk", str(pick(t, "pk", "p", "q")), "sk", x.sortKeys())
	case "gkeys":
		request["KeyConditionExpression"] = a.keyCondition("g1", str(pick(t, "g1", "a", "b")), "", nil)
	default:
		request["KeyConditionExpression"] = a.keyCondition("g1", str(pick(t, "g1", "a", "b")), "g1n",
			[]object{number(1), number(2), number(10), number(-1), number("2.5")})
	}
	if index != "" {
		request["IndexName"], op.unordered = index, true
	}
	if rapid.Bool().Draw(t, "direction") {
		request["ScanIndexForward"] = rapid.Bool().Draw(t, "forward")
	}
	x.list(t, request, a, index)
	return op
}

func (x *table) scan(t *rapid.T) operation {
	a := newAliases(t)
	request := object{"TableName": x.name}
	index := pick(t, "index", "", "gall", "gkeys", "gincl")
	if index != "" {
		request["IndexName"] = index
	}
	x.list(t, request, a, index)
	return operation{name: "Scan", request: request, paged: true, unordered: true}
}

// list adds what queries and scans have in common.
func (x *table) list(t *rapid.T, request object, a *aliases, index string) {
	if chance(t, "filtered", 3) {
		request["FilterExpression"] = a.condition(1)
	}
	switch rapid.IntRange(0, 9).Draw(t, "select") {
	case 0:
		request["Select"] = "COUNT"
	case 1:
		request["ProjectionExpression"] = a.projection()
	case 2:
		request["Select"] = pick(t, "selection", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT")
	}
	if rapid.Bool().Draw(t, "limited") {
		request["Limit"] = pick(t, "limit", 1, 2, 3, 5)
	}
	if (index == "" || chance(t, "consistent index", 20)) && rapid.Bool().Draw(t, "consistent") {
		request["ConsistentRead"] = true
	}
	a.into(request)
}

func (x *table) batchGet(t *rapid.T) operation {
	keys := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return x.key(t) }), 1, 4).Draw(t, "keys")
	return operation{name: "BatchGetItem", unordered: true, request: object{"RequestItems": object{
		x.name: x.read(t, object{"Keys": distinct(t, keys)}, true),
	}}}
}

// distinct drops most repeated keys: a batch with one is refused.
func distinct(t *rapid.T, keys []any) []any {
	seen := map[string]bool{}
	return slices.DeleteFunc(keys, func(key any) bool {
		known := seen[text(key)]
		seen[text(key)] = true
		return known && !chance(t, "repeat", 10)
	})
}

func (x *table) batchWrite(t *rapid.T) operation {
	seen := map[string]bool{}
	var writes []any
	for range rapid.IntRange(1, 4).Draw(t, "writes") {
		it := x.item(t)
		key := object{"pk": it["pk"], "sk": it["sk"]}
		if seen[text(key)] && !chance(t, "repeat", 10) {
			continue
		}
		seen[text(key)] = true
		if rapid.Bool().Draw(t, "delete") {
			writes = append(writes, object{"DeleteRequest": object{"Key": key}})
		} else {
			writes = append(writes, object{"PutRequest": object{"Item": it}})
		}
	}
	return operation{name: "BatchWriteItem", request: object{"RequestItems": object{x.name: writes}}}
}

func (x *table) transactWrite(t *rapid.T) operation {
	seen := map[string]bool{}
	var actions []any
	for range rapid.IntRange(1, 3).Draw(t, "actions") {
		verb, action, key := x.action(t)
		if seen[text(key)] && !chance(t, "repeat", 10) {
			continue
		}
		seen[text(key)] = true
		actions = append(actions, object{verb: action})
	}
	request := object{"TransactItems": actions}
	if chance(t, "token", 3) {
		request["ClientRequestToken"] = fmt.Sprintf("%s-%d", x.name, rapid.IntRange(0, 2).Draw(t, "token number"))
	}
	return operation{name: "TransactWriteItems", request: request}
}

func (x *table) action(t *rapid.T) (verb string, action, key object) {
	switch verb = pick(t, "verb", "Put", "Update", "Update", "Delete", "ConditionCheck"); verb {
	case "Put":
		action = x.put(t).request
		delete(action, "ReturnValues")
		it := action["Item"].(object)
		return verb, action, object{"pk": it["pk"], "sk": it["sk"]}
	case "Update":
		action = x.change(t)
	case "Delete":
		action = x.delete(t).request
		delete(action, "ReturnValues")
	case "ConditionCheck":
		a := newAliases(t)
		action = object{"TableName": x.name, "Key": x.key(t), "ConditionExpression": a.condition(2)}
		onFailure(t, action)
		a.into(action)
	}
	return verb, action, action["Key"].(object)
}

func (x *table) transactGet(t *rapid.T) operation {
	var gets []any
	for range rapid.IntRange(1, 3).Draw(t, "gets") {
		gets = append(gets, object{"Get": x.read(t, object{"TableName": x.name, "Key": x.key(t)}, false)})
	}
	return operation{name: "TransactGetItems", request: object{"TransactItems": gets}}
}
