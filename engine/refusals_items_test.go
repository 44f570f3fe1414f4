package engine_test

import "strings"

func itemRefusals() []refusal {
	const get, put, del = "GetItem", "PutItem", "DeleteItem"
	return []refusal{
		{what: "no table", operation: get, body: `{"Key":<key>}`, says: "name"},
		{what: "short table name", operation: get, body: `{"TableName":"ab","Key":<key>}`, says: "3 to 255"},
		{what: "long table name", operation: get, body: `{"TableName":"<text:256>","Key":<key>}`, says: "3 to 255"},
		{what: "bad table name", operation: get, body: `{"TableName":"a!b","Key":<key>}`, says: "a-z"},
		{what: "missing table", operation: get, body: `{"TableName":"nope","Key":<key>}`, want: "ResourceNotFoundException", says: "not found"},
		{what: "no key", operation: get, body: `{"TableName":"tbl"}`, says: "'key'"},
		{what: "no key to delete", operation: del, body: `{"TableName":"tbl"}`, says: "'key'"},
		{what: "no item", operation: put, body: `{"TableName":"tbl"}`, says: "'item'"},
		{what: "half a key", operation: get, body: `{"TableName":"tbl","Key":{"pk":{"S":"a"}}}`, says: "does not match the schema"},
		{what: "more than a key", operation: del, body: `{"TableName":"tbl","Key":{<item>,"x":{"S":"a"}}}`, says: "does not match the schema"},
		{what: "key of another type", operation: get, body: `{"TableName":"tbl","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}`, says: "does not match the schema"},
		{what: "key of a set", operation: put, body: `{"TableName":"tbl","Item":{"pk":{"SS":["a"]},"sk":{"S":"1"}}}`, says: "Type mismatch for key pk"},
		{what: "empty partition key", operation: get, body: `{"TableName":"tbl","Key":{"pk":{"S":""},"sk":{"S":"1"}}}`, says: "empty string value. Key: pk"},
		{what: "empty sort key", operation: put, body: `{"TableName":"tbl","Item":{"pk":{"S":"a"},"sk":{"S":""}}}`, says: "empty string value. Key: sk"},
		{what: "long partition key", operation: get, body: `{"TableName":"tbl","Key":{"pk":{"S":"<text:2049>"},"sk":{"S":"1"}}}`, says: "2048 bytes"},
		{what: "long sort key", operation: put, body: `{"TableName":"tbl","Item":{"pk":{"S":"a"},"sk":{"S":"<text:1025>"}}}`, says: "1024 bytes"},
		{what: "item of more than 400 KB", operation: put, body: `{"TableName":"tbl","Item":{<item>,"d":{"S":"<text:409594>"}}}`, says: "Item size"},
		{what: "no attribute name", operation: put, body: `{"TableName":"tbl","Item":{<item>,"":{"S":"x"}}}`, says: "attribute name"},
		{what: "no name in a map", operation: put, body: `{"TableName":"tbl","Item":{<item>,"m":{"M":{"":{"S":"x"}}}}}`, says: "attribute name"},
		{what: "long attribute name", operation: put, body: `{"TableName":"tbl","Item":{<item>,"<text:65536>":{"S":"x"}}}`, says: "attribute name"},
		{what: "empty index key", operation: put, body: `{"TableName":"tbl","Item":{<item>,"g1":{"S":""}}}`, says: "IndexKey: g1"},
		{what: "index key of another type", operation: put, body: `{"TableName":"tbl","Item":{<item>,"g1n":{"S":"1"}}}`, says: "Type mismatch for Index Key g1n"},
		{what: "long index key", operation: put, body: `{"TableName":"tbl","Item":{<item>,"g1":{"S":"<text:2049>"}}}`, says: "index key g1"},
		{what: "unknown ReturnValues", operation: put, body: `{"TableName":"tbl","Item":{<item>},"ReturnValues":"SOME"}`, says: "returnValues"},
		{what: "ReturnValues of updates", operation: put, body: `{"TableName":"tbl","Item":{<item>},"ReturnValues":"ALL_NEW"}`, says: "ALL_OLD or NONE"},
		{what: "ReturnValues of updates, deleting", operation: del, body: `{"TableName":"tbl","Key":<key>,"ReturnValues":"UPDATED_OLD"}`, says: "ALL_OLD or NONE"},
		{what: "unknown ReturnConsumedCapacity", operation: put, body: `{"TableName":"tbl","Item":{<item>},"ReturnConsumedCapacity":"ALL"}`, says: "returnConsumedCapacity"},
		{what: "unknown on failure", operation: put, body: `{"TableName":"tbl","Item":{<item>},"ReturnValuesOnConditionCheckFailure":"ALL"}`, says: "returnValuesOnConditionCheckFailure"},
	}
}

func valueRefusals() []refusal {
	row := func(what, value, says string) refusal {
		return refusal{what: what, operation: "PutItem", body: `{"TableName":"tbl","Item":{<item>,"v":` + value + `}}`, says: says}
	}
	malformed := func(what, value, says string) refusal {
		r := row(what, value, says)
		r.want = "SerializationException"
		return r
	}
	return []refusal{
		row("39 digits", `{"N":"123456789012345678901234567890123456789"}`, "38 significant digits"),
		row("39 digits behind the point", `{"N":"0.123456789012345678901234567890123456789"}`, "38 significant digits"),
		row("too large", `{"N":"1e126"}`, "Number overflow"),
		row("too negative", `{"N":"-10e125"}`, "Number overflow"),
		row("too small", `{"N":"1E-131"}`, "Number underflow"),
		row("no number", `{"N":"abc"}`, "numeric"),
		row("an empty number", `{"N":""}`, "numeric"),
		row("not a number", `{"N":"NaN"}`, "numeric"),
		row("infinite", `{"N":"Infinity"}`, "numeric"),
		row("hexadecimal", `{"N":"0x10"}`, "numeric"),
		row("an empty set", `{"SS":[]}`, "set"),
		row("an empty set of numbers", `{"NS":[]}`, "set"),
		row("an empty set of binaries", `{"BS":[]}`, "set"),
		row("a text twice", `{"SS":["a","b","a"]}`, "duplicates"),
		row("a number twice", `{"NS":["1","1.0"]}`, "duplicates"),
		row("a binary twice", `{"BS":["AA==","AA=="]}`, "duplicates"),
		row("33 levels", nestedValue(33), "Nesting Levels"),
		row("no type", `{}`, "AttributeValue"),
		row("unknown type", `{"X":"a"}`, "AttributeValue"),
		row("two types", `{"S":"a","N":"1"}`, "more than one datatypes"),
		row("null that is false", `{"NULL":false}`, "Null attribute"),
		malformed("no object", `"a"`, "attribute value"),
		malformed("a number as JSON has it", `{"N":1}`, "string"),
		malformed("bad base64", `{"B":"***"}`, "base64"),
	}
}

func expressionRefusals() []refusal {
	update := func(what, expression, rest, says string) refusal {
		return refusal{what: what, operation: "UpdateItem", body: `{"TableName":"tbl","Key":<key>,"UpdateExpression":"` + expression + `"` + rest + `}`, says: says}
	}
	condition := func(what, expression, rest, says string) refusal {
		return refusal{what: what, operation: "DeleteItem", body: `{"TableName":"tbl","Key":<key>,"ConditionExpression":"` + expression + `"` + rest + `}`, says: says}
	}
	get := func(what, rest, says string) refusal {
		return refusal{what: what, operation: "GetItem", body: `{"TableName":"tbl","Key":<key>` + rest + `}`, says: says}
	}
	const v = `,"ExpressionAttributeValues":{":v":{"N":"1"}}`
	deep := strings.Repeat(".a", 32)
	return []refusal{
		update("4 KB and a byte", "SET n = :v, <text:4085>", v, "size"),
		update("empty", "", "", "can not be empty"),
		update("unknown section", "PUT n :v", v, "Syntax error"),
		update("section twice", "SET a = :v SET b = :v", v, `The \"SET\" section`),
		update("reserved word", "SET status = :v", v, "reserved keyword: status"),
		update("reserved word in any case", "SET VaLuE = :v", v, "reserved keyword: VaLuE"),
		update("unused value", "REMOVE a", v, "unused in expressions: keys: {:v}"),
		update("unused name", "REMOVE a", `,"ExpressionAttributeNames":{"#n":"n"}`, "unused in expressions: keys: {#n}"),
		update("undefined value", "SET a = :w", v, "attribute value: :w"),
		update("undefined name", "SET #a = :v", v, "attribute name: #a"),
		update("values of nothing", "REMOVE a", `,"ExpressionAttributeValues":{}`, "must not be empty"),
		update("bad alias", "SET a = :v", `,"ExpressionAttributeValues":{"v":{"N":"1"}}`, "invalid key"),
		update("alias of no name", "REMOVE #a", `,"ExpressionAttributeNames":{"#a":""}`, "must not be empty"),
		update("same path", "SET a = :v, a = :v", v, "overlap"),
		update("path in a path", "SET l = :v REMOVE l[0]", v, "overlap"),
		update("same path by an alias", "SET n = :v REMOVE #n", v+`,"ExpressionAttributeNames":{"#n":"n"}`, "overlap"),
		update("map and list", "SET m.a = :v, m[0] = :v", v, "conflict"),
		update("path of 33 elements", "REMOVE a"+deep, "", "nesting"),
		update("key attribute", "SET sk = :v", v, "part of the key"),
		update("part of a key attribute", "SET pk.a = :v", v, "part of the key"),
		update("add to a key attribute", "ADD sk :v", v, "part of the key"),
		update("parent that is not there", "SET x.y = :v", v, "document path"),
		update("field of a list", "SET l.a = :v", v, "document path"),
		update("index of a number", "SET n[0] = :v", v, "document path"),
		update("attribute that is not there", "SET a = absent + :v", v, "does not exist"),
		update("sum of a list", "SET a = l + :v", v, "incorrect data type"),
		update("add a text", "ADD n :v", `,"ExpressionAttributeValues":{":v":{"S":"x"}}`, "STRING"),
		update("delete a number", "DELETE n :v", v, "NUMBER"),
		update("add a number to a list", "ADD l :v", v, "incorrect data type"),
		update("unknown function", "SET a = nope(:v)", v, "Invalid function name"),
		update("function of conditions", "SET a = size(l)", "", "not allowed"),
		update("too large a sum", "SET n = n + :v", `,"ExpressionAttributeValues":{":v":{"N":"1e60"}}`, "38 significant digits"),
		update("33 levels by a path", "SET l[0] = :v", `,"ExpressionAttributeValues":{":v":`+nestedValue(32)+`}`, "Nesting Levels"),
		update("more than 400 KB", "SET a = :v", `,"ExpressionAttributeValues":{":v":{"S":"<text:409600>"}}`, "Item size to update"),
		update("index key of another type", "SET g1 = :v", v, "Type mismatch"),
		update("unknown ReturnValues", "SET a = :v", v+`,"ReturnValues":"NEW"`, "returnValues"),
		condition("a path alone", "n", "", "Syntax error"),
		condition("operand of itself", "n = n", "", "distinct"),
		condition("function of updates", "if_not_exists(n, :v) = :v", v, "not allowed"),
		condition("operands", "begins_with(n)", "", "number of operands"),
		condition("bounds", "n BETWEEN :b AND :a", `,"ExpressionAttributeValues":{":a":{"N":"1"},":b":{"N":"2"}}`, "upper bound"),
		condition("101 operands", "n IN (:v"+strings.Repeat(",:v", 100)+")", v, "too many operands"),
		condition("301 operators", "n = :v"+strings.Repeat(" OR n = :v", 150)+" OR n = :v", v, "too many operators"),
		condition("type name", "attribute_type(n, :v)", `,"ExpressionAttributeValues":{":v":{"S":"X"}}`, "type: X"),
		condition("parentheses", "((n = :v))", v, "redundant parentheses"),
		get("names alone", `,"ExpressionAttributeNames":{"#a":"a"}`, "when using expressions"),
		get("path in a path", `,"ProjectionExpression":"a.b, a"`, "overlap"),
		get("twice", `,"ProjectionExpression":"n, n"`, "overlap"),
		get("reserved word", `,"ProjectionExpression":"name"`, "reserved keyword: name"),
		get("empty", `,"ProjectionExpression":""`, "can not be empty"),
		get("bad index", `,"ProjectionExpression":"l[-1]"`, "Syntax error"),
	}
}
