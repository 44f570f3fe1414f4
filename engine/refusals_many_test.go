package engine_test

func listRefusals() []refusal {
	const p = `"ExpressionAttributeValues":{":p":{"S":"a"}}`
	query := func(what, rest, says string) refusal {
		return refusal{what: what, operation: "Query", body: `{"TableName":"tbl",` + rest + `}`, says: says}
	}
	of := func(what, rest, says string) refusal {
		return query(what, `"KeyConditionExpression":"pk = :p",`+p+`,`+rest, says)
	}
	index := func(what, name, rest, says string) refusal {
		return query(what, `"IndexName":"`+name+`","KeyConditionExpression":"g1 = :p",`+p+`,`+rest, says)
	}
	scan := func(what, rest, says string) refusal {
		return refusal{what: what, operation: "Scan", body: `{"TableName":"tbl",` + rest + `}`, says: says}
	}
	sort := func(what, condition, value, says string) refusal {
		return query(what, `"KeyConditionExpression":"pk = :p AND `+condition+`","ExpressionAttributeValues":{":p":{"S":"a"},":v":`+value+`}`, says)
	}
	return []refusal{
		query("no key condition", `"Limit":1`, "KeyConditionExpression"),
		query("no partition key", `"KeyConditionExpression":"sk = :p",`+p, "missed key schema element: pk"),
		query("partitions", `"KeyConditionExpression":"pk > :p",`+p, "not supported"),
		query("wrong type", `"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"N":"1"}}`, "schema type"),
		query("empty partition key", `"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":""}}`, "empty string value"),
		query("long partition key", `"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"<text:2049>"}}`, "2048 bytes"),
		sort("long sort key", "sk > :v", `{"S":"<text:1025>"}`, "1024 bytes"),
		sort("sort key of another type", "sk = :v", `{"N":"1"}`, "schema type"),
		sort("empty sort key", "sk = :v", `{"S":""}`, "empty string value"),
		sort("another operator", "sk <> :v", `{"S":"a"}`, "Invalid operator"),
		sort("another attribute", "n = :v", `{"S":"a"}`, "missed key schema element: sk"),
		sort("an alternative", "sk = :v OR sk = :v", `{"S":"a"}`, "Invalid operator"),
		sort("bounds", "sk BETWEEN :v AND :p", `{"S":"b"}`, "upper bound"),
		sort("three conditions", "sk > :v AND sk < :v", `{"S":"b"}`, "length 1 or 2"),
		of("limit 0", `"Limit":0`, "'limit'"),
		of("negative limit", `"Limit":-1`, "'limit'"),
		query("bad filter and no such index", `"IndexName":"nope","KeyConditionExpression":"pk = :p","FilterExpression":"a =",`+p, "Syntax error"),
		of("missing index", `"IndexName":"nope"`, "does not have the specified index: nope"),
		of("key of the table, not of the index", `"IndexName":"gall"`, "missed key schema element: g1"),
		of("filter on the sort key", `"FilterExpression":"attribute_exists(sk)"`, "Primary key attribute: sk"),
		of("filter on the partition key, by an alias", `"FilterExpression":"attribute_exists(a) OR #k = :p","ExpressionAttributeNames":{"#k":"pk"}`, "Primary key attribute: pk"),
		of("unknown Select", `"Select":"SOME"`, "'select'"),
		of("count and project", `"Select":"COUNT","ProjectionExpression":"a"`, "SPECIFIC_ATTRIBUTES"),
		of("all and project", `"Select":"ALL_ATTRIBUTES","ProjectionExpression":"a"`, "SPECIFIC_ATTRIBUTES"),
		of("specific but no projection", `"Select":"SPECIFIC_ATTRIBUTES"`, "Must specify the ProjectionExpression"),
		of("projected of a table", `"Select":"ALL_PROJECTED_ATTRIBUTES"`, "IndexName"),
		of("start in another partition", `"ExclusiveStartKey":{"pk":{"S":"b"},"sk":{"S":"1"}}`, "outside query boundaries"),
		of("start with half a key", `"ExclusiveStartKey":{"pk":{"S":"a"}}`, "starting key is invalid"),
		of("start with more than a key", `"ExclusiveStartKey":{<item>,"x":{"S":"1"}}`, "starting key is invalid"),
		of("start of another type", `"ExclusiveStartKey":{"pk":{"S":"a"},"sk":{"N":"1"}}`, "starting key is invalid"),
		of("start with an empty key", `"ExclusiveStartKey":{"pk":{"S":"a"},"sk":{"S":""}}`, "starting key is invalid"),
		of("start with nothing", `"ExclusiveStartKey":{}`, "starting key is invalid"),
		index("consistent", "gall", `"ConsistentRead":true`, "Consistent reads are not supported"),
		index("all of an index that has not all", "gkeys", `"Select":"ALL_ATTRIBUTES"`, "projection type is not ALL"),
		index("projection that the index has not", "gincl", `"ProjectionExpression":"pk, extra, g1n, n.a"`, "gincl does not project [n]"),
		index("filter that the index cannot decide", "gincl", `"FilterExpression":"attribute_exists(extra) OR n = :p OR n.a = :p"`, "gincl does not project one or more filter attributes: [n]"),
		index("filter on the index's key", "gall", `"FilterExpression":"g1n > :p"`, "Primary key attribute: g1n"),
		index("start with the table's key", "gkeys", `"ExclusiveStartKey":<key>`, "starting key is invalid"),
		scan("limit 0", `"Limit":0`, "'limit'"),
		scan("key condition", `"KeyConditionExpression":"pk = :p",`+p, "KeyConditionExpression"),
		scan("missing index", `"IndexName":"nope"`, "index: nope"),
		scan("consistent index", `"IndexName":"gall","ConsistentRead":true`, "Consistent reads"),
		scan("start with half a key", `"ExclusiveStartKey":{"pk":{"S":"a"}}`, "starting key is invalid"),
		scan("projection that the index has not", `"IndexName":"gkeys","ProjectionExpression":"n"`, "gkeys does not project [n]"),
		scan("filter that the index cannot decide", `"IndexName":"gkeys","FilterExpression":"attribute_exists(n) AND attribute_exists(a) AND attribute_exists(sk)"`, "gkeys does not project one or more filter attributes: [a, n]"),
		scan("filter that looks into the key", `"FilterExpression":"attribute_exists(n) AND attribute_exists(pk.a)"`, "map lookup '.' are not allowed: Key: pk"),
		scan("filter that looks into the index's key", `"IndexName":"gall","FilterExpression":"attribute_exists(g1[0])"`, "are not allowed: IndexKey: g1"),
		scan("unused value", `"FilterExpression":"attribute_exists(n)",`+p, "unused in expressions"),
		scan("a segment of how many", `"Segment":0`, "The TotalSegments parameter is required"),
		scan("which segment", `"TotalSegments":2`, "The Segment parameter is required"),
		scan("a segment beyond the last", `"Segment":2,"TotalSegments":2`, "Segment: 2 is not less than TotalSegments: 2"),
		scan("a segment before the first", `"Segment":-1,"TotalSegments":2`, "greater than or equal to 0"),
		scan("no segments", `"Segment":0,"TotalSegments":0`, "between 1 and 1000000"),
	}
}

func batchRefusals() []refusal {
	write := func(what, requests, says string) refusal {
		return refusal{what: what, operation: "BatchWriteItem", body: `{"RequestItems":` + requests + `}`, says: says}
	}
	get := func(what, requests, says string) refusal {
		return refusal{what: what, operation: "BatchGetItem", body: `{"RequestItems":` + requests + `}`, says: says}
	}
	missing := write("missing table", `{"tbl":[`+puts(1)+`],"nope":[`+puts(1)+`]}`, "not found")
	missing.want = "ResourceNotFoundException"
	return []refusal{
		missing,
		write("none", `{}`, "requestItems"),
		write("none of a table", `{"tbl":[]}`, "requestItems"),
		write("26 writes", `{"tbl":[`+puts(26)+`]}`, "26, at most 25"),
		write("26 writes of two tables", `{"tbl":[`+puts(13)+`],"plain":[`+puts(13)+`]}`, "26, at most 25"),
		write("the same item", `{"tbl":[`+puts(2)+`,`+puts(1)+`]}`, "duplicates"),
		write("put and delete", `{"tbl":[`+puts(1)+`,{"DeleteRequest":{"Key":{"pk":{"S":"batch"},"sk":{"S":"0"}}}}]}`, "duplicates"),
		write("an empty request", `{"tbl":[`+puts(1)+`,{}]}`, "PutRequest or a DeleteRequest"),
		write("two requests in one", `{"tbl":[{"PutRequest":{"Item":{<item>}},"DeleteRequest":{"Key":<key>}}]}`, "PutRequest or a DeleteRequest"),
		write("no item", `{"tbl":[{"PutRequest":{}}]}`, "'item'"),
		write("a condition", `{"tbl":[{"PutRequest":{"Item":{<item>},"ConditionExpression":"attribute_exists(pk)"}}]}`, "no conditions"),
		write("one too big", `{"tbl":[`+puts(1)+`,{"PutRequest":{"Item":{<item>,"d":{"S":"<text:409600>"}}}}]}`, "Item size"),
		write("one with a bad index key", `{"tbl":[`+puts(1)+`,{"PutRequest":{"Item":{<item>,"g1":{"N":"1"}}}}]}`, "Type mismatch"),
		get("none", `{}`, "requestItems"),
		get("no keys", `{"tbl":{"Keys":[]}}`, "requestItems.tbl.member.keys"),
		get("bad expression and no such table", `{"nope":{"Keys":[<key>],"ProjectionExpression":"a b"}}`, "Syntax error"),
		{what: "unknown metrics", operation: "BatchWriteItem", body: `{"RequestItems":{"tbl":[` + puts(1) + `]},"ReturnItemCollectionMetrics":"SOME"}`, says: "'returnItemCollectionMetrics'"},
		get("101 keys", `{"tbl":{"Keys":[`+keys(101)+`]}}`, "101, at most 100"),
		get("101 keys of two tables", `{"tbl":{"Keys":[`+keys(51)+`]},"plain":{"Keys":[`+keys(50)+`]}}`, "101, at most 100"),
		get("the same key", `{"tbl":{"Keys":[<key>,<key>]}}`, "duplicates"),
		get("half a key", `{"tbl":{"Keys":[{"pk":{"S":"a"}}]}}`, "does not match the schema"),
		get("bad projection", `{"tbl":{"Keys":[<key>],"ProjectionExpression":"a b"}}`, "Syntax error"),
	}
}

func transactionRefusals() []refusal {
	const (
		put    = `{"Put":{"TableName":"tbl","Item":{"pk":{"S":"t"},"sk":{"S":"%d"}}}}`
		first  = `{"Put":{"TableName":"tbl","Item":{"pk":{"S":"t"},"sk":{"S":"0"}}}}`
		get    = `{"Get":{"TableName":"tbl","Key":{"pk":{"S":"t"},"sk":{"S":"%d"}}}}`
		firstG = `{"Get":{"TableName":"tbl","Key":{"pk":{"S":"t"},"sk":{"S":"0"}}}}`
		big    = `{"Put":{"TableName":"tbl","Item":{"pk":{"S":"t"},"sk":{"S":"%d"},"d":{"S":"<text:400000>"}}}}`
	)
	write := func(what, actions, says string) refusal {
		return refusal{what: what, operation: "TransactWriteItems", body: `{"TransactItems":[` + actions + `]}`, says: says}
	}
	cancelled := func(what, action, says string) refusal {
		r := write(what, first+`,`+action, says)
		r.want = "TransactionCanceledException"
		return r
	}
	read := func(what, actions, says string) refusal {
		return refusal{what: what, operation: "TransactGetItems", body: `{"TransactItems":[` + actions + `]}`, says: says}
	}
	half := read("half a key", firstG+`,{"Get":{"TableName":"tbl","Key":{"pk":{"S":"a"}}}}`, "[None, ValidationError]")
	half.want = "TransactionCanceledException"
	missing := write("missing table", first+`,{"Delete":{"TableName":"nope","Key":<key>}}`, "not found")
	missing.want = "ResourceNotFoundException"
	return []refusal{
		missing,
		write("none", ``, "transactItems"),
		write("101 actions", actions(101, put), "less than or equal to 100"),
		write("one item twice", first+`,{"Delete":{"TableName":"tbl","Key":{"pk":{"S":"t"},"sk":{"S":"0"}}}}`, "multiple operations on one item"),
		write("one item checked and put", first+`,{"ConditionCheck":{"TableName":"tbl","Key":{"pk":{"S":"t"},"sk":{"S":"0"}},"ConditionExpression":"attribute_exists(pk)"}}`, "multiple operations on one item"),
		write("more than 4 MB", actions(11, big), "exceeded the maximum"),
		write("an empty action", first+`,{}`, "one of Check, Put, Update or Delete"),
		write("two actions in one", `{"Put":{"TableName":"tbl","Item":{<item>}},"Delete":{"TableName":"tbl","Key":<key>}}`, "one of Check, Put, Update or Delete"),
		write("an update of nothing", `{"Update":{"TableName":"tbl","Key":<key>}}`, "UpdateExpression"),
		write("a check of nothing", `{"ConditionCheck":{"TableName":"tbl","Key":<key>}}`, "ConditionExpression"),
		write("a key updated", `{"Update":{"TableName":"tbl","Key":<key>,"UpdateExpression":"REMOVE sk"}}`, "part of the key"),
		write("bad expression", first+`,{"Delete":{"TableName":"tbl","Key":<key>,"ConditionExpression":"a ="}}`, "Syntax error"),
		write("bad number", `{"Put":{"TableName":"tbl","Item":{<item>,"v":{"N":"x"}}}}`, "numeric"),
		{what: "unknown metrics", operation: "TransactWriteItems", body: `{"ReturnItemCollectionMetrics":"SOME","TransactItems":[` + first + `]}`, says: "'returnItemCollectionMetrics'"},
		{what: "empty token", operation: "TransactWriteItems", body: `{"ClientRequestToken":"","TransactItems":[` + first + `]}`, says: "clientRequestToken"},
		{what: "long token", operation: "TransactWriteItems", body: `{"ClientRequestToken":"<text:37>","TransactItems":[` + first + `]}`, says: "clientRequestToken"},
		cancelled("a text added to", `{"Update":{"TableName":"tbl","Key":<key>,"UpdateExpression":"ADD l :v","ExpressionAttributeValues":{":v":{"N":"1"}}}}`, "[None, ValidationError]"),
		cancelled("an index key of another type", `{"Put":{"TableName":"tbl","Item":{<item>,"g1":{"N":"1"}}}}`, "[None, ValidationError]"),
		cancelled("a key of another type", `{"Put":{"TableName":"tbl","Item":{"pk":{"S":"a"},"sk":{"N":"1"}}}}`, "[None, ValidationError]"),
		cancelled("keys of other types, one item twice, a condition", first+`,{"Delete":{"TableName":"tbl","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}},{"Delete":{"TableName":"tbl","Key":{"pk":{"N":"1"},"sk":{"S":"1"}}}},{"Delete":{"TableName":"tbl","Key":<key>,"ConditionExpression":"attribute_not_exists(pk)"}}`, "[None, None, ValidationError, None, None]"),
		cancelled("half a key", `{"Delete":{"TableName":"tbl","Key":{"pk":{"S":"a"}}}}`, "[None, ValidationError]"),
		cancelled("a condition", `{"Delete":{"TableName":"tbl","Key":<key>,"ConditionExpression":"attribute_not_exists(pk)"}}`, "[None, ConditionalCheckFailed]"),
		write("an empty key", `{"Put":{"TableName":"tbl","Item":{"pk":{"S":""},"sk":{"S":"1"}}}}`, "empty string value"),
		write("an empty index key", first+`,{"Put":{"TableName":"tbl","Item":{<item>,"g1":{"S":""}}}}`, "IndexKey: g1"),
		write("an index key made empty", first+`,{"Update":{"TableName":"tbl","Key":<key>,"UpdateExpression":"SET g1 = :v","ExpressionAttributeValues":{":v":{"S":""}}}}`, "IndexKey: g1"),
		write("bad expression and no such table", `{"Delete":{"TableName":"nope","Key":<key>,"ConditionExpression":"a ="}}`, "Syntax error"),
		write("a long key", `{"Delete":{"TableName":"tbl","Key":{"pk":{"S":"<text:2049>"},"sk":{"S":"1"}}}}`, "2048 bytes"),
		read("none", ``, "transactItems"),
		half,
		read("101 reads", actions(101, get), "less than or equal to 100"),
		read("one item twice", firstG+`,`+firstG, "multiple operations on one item"),
		read("an empty action", `{}`, "one Get"),
		read("bad projection", `{"Get":{"TableName":"tbl","Key":<key>,"ProjectionExpression":"a."}}`, "Syntax error"),
	}
}
