package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
)

// refusal is a request that DynamoDB's documents forbid, and what the answer is.
// In a body <key> is a key of the table, <item> the beginning of an item, and
// <text:N> a text of N bytes.
type refusal struct {
	what, operation, body string
	want                  string // error type; empty: ValidationException
	says                  string // part of the message
}

func refusals() map[string][]refusal {
	return map[string][]refusal{
		"keys and items": itemRefusals(), "numbers and values": valueRefusals(), "expressions": expressionRefusals(),
		"queries and scans": listRefusals(), "batches": batchRefusals(), "transactions": transactionRefusals(),
		"tables": tableRefusals(), "not supported": unsupportedRefusals(),
	}
}

func allRefusals() []refusal {
	groups, all := refusals(), []refusal(nil)
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groups[group]...)
	}
	return all
}

// TestRefusals walks the operations and their documented constraints, in raw
// requests: the SDK does not send all that a client could. Nothing that is refused
// changes the table.
func TestRefusals(t *testing.T) {
	groups := refusals()
	embedded := engine.New(engine.Options{Now: newClock().Now})
	call := func(operation, body string) (int, string) {
		w := rawCall(embedded, "DynamoDB_20120810."+operation, body)
		return w.Code, w.Body.String()
	}
	for name, indexes := range map[string]bool{"tbl": true, "plain": false} {
		in, err := json.Marshal(definition(name, indexes))
		require.NoError(t, err)
		code, reply := call("CreateTable", string(in))
		require.Equal(t, http.StatusOK, code, reply)
	}
	code, reply := call("PutItem", expand(`{"TableName":"tbl","Item":{<item>,"g1":{"S":"g"},"g1n":{"N":"1"},"n":{"N":"5"},"l":{"L":[{"N":"1"}]}}}`))
	require.Equal(t, http.StatusOK, code, reply)
	_, tables := call("ListTables", `{}`)
	_, before := call("Scan", `{"TableName":"tbl"}`)
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		t.Run(group, func(t *testing.T) {
			for _, r := range groups[group] {
				code, reply := call(r.operation, expand(r.body))
				var got map[string]any
				require.NoError(t, json.Unmarshal([]byte(reply), &got), r.what)
				want := r.want
				if want == "" {
					want = "ValidationException"
				}
				require.Equal(t, http.StatusBadRequest, code, r.what)
				_, kind, _ := strings.Cut(fmt.Sprint(got["__type"]), "#")
				require.Equal(t, want, kind, "%s: %s", r.what, reply)
				require.Contains(t, reply, r.says, r.what)
				require.NotEmpty(t, r.says, r.what)
			}
		})
	}
	_, after := call("Scan", `{"TableName":"tbl"}`)
	require.JSONEq(t, before, after)
	_, now := call("ListTables", `{}`)
	require.Equal(t, tables, now)
}

func expand(body string) string {
	body = strings.NewReplacer("<key>", `{"pk":{"S":"a"},"sk":{"S":"1"}}`, "<item>", `"pk":{"S":"a"},"sk":{"S":"1"}`).Replace(body)
	for {
		before, rest, ok := strings.Cut(body, "<text:")
		if !ok {
			return body
		}
		size, after, _ := strings.Cut(rest, ">")
		var n int
		if _, err := fmt.Sscan(size, &n); err != nil {
			panic(err)
		}
		body = before + strings.Repeat("x", n) + after
	}
}

// puts is n requests to put an item each, as batches have them.
func puts(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`{"PutRequest":{"Item":{"pk":{"S":"batch"},"sk":{"S":"%d"}}}}`, i))
	}
	return strings.Join(parts, ",")
}

// keys is n keys.
func keys(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`{"pk":{"S":"a"},"sk":{"S":"%d"}}`, i))
	}
	return strings.Join(parts, ",")
}

// actions is n actions of a transaction; %d in the action is its number.
func actions(n int, action string) string {
	var parts []string
	for i := range n {
		parts = append(parts, strings.ReplaceAll(action, "%d", fmt.Sprint(i)))
	}
	return strings.Join(parts, ",")
}

// nestedValue is a value of so many levels.
func nestedValue(levels int) string {
	return strings.Repeat(`{"L":[`, levels-1) + `{"S":"x"}` + strings.Repeat(`]}`, levels-1)
}

func tableRefusals() []refusal {
	const (
		pk     = `{"AttributeName":"pk","AttributeType":"S"}`
		hash   = `{"AttributeName":"pk","KeyType":"HASH"}`
		demand = `"BillingMode":"PAY_PER_REQUEST"`
		gsi    = `"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`
	)
	create := func(what, name, defs, schema, rest, says string) refusal {
		return refusal{what: what, operation: "CreateTable", says: says, body: `{"TableName":"` + name + `","AttributeDefinitions":[` + defs + `],"KeySchema":[` + schema + `],` + rest + `}`}
	}
	with := func(what, rest, says string) refusal { return create(what, "fresh", pk, hash, rest, says) }
	indexed := func(what, rest, says string) refusal {
		return with(what, demand+`,"GlobalSecondaryIndexes":[{"IndexName":"idx",`+rest+`}]`, says)
	}
	update := func(what, rest, says string) refusal {
		return refusal{what: what, operation: "UpdateTable", body: `{"TableName":"tbl",` + rest + `}`, says: says}
	}
	ttl := func(what, spec, says string) refusal {
		return refusal{what: what, operation: "UpdateTimeToLive", body: `{"TableName":"tbl","TimeToLiveSpecification":` + spec + `}`, says: says}
	}
	as := func(kind string, r refusal) refusal {
		r.want = kind
		return r
	}
	included := `"x0"`
	for i := range 20 {
		included += fmt.Sprintf(`,"x%d"`, i+1)
	}
	return []refusal{
		create("short name", "ab", pk, hash, demand, "3 to 255"),
		create("long name", "<text:256>", pk, hash, demand, "3 to 255"),
		create("bad name", "a b c", pk, hash, demand, "3 to 255"),
		as("ResourceInUseException", create("existing", "tbl", pk, hash, demand, "already exists")),
		create("no key", "fresh", pk, ``, demand, "keySchema"),
		create("three keys", "fresh", pk, hash+`,`+hash+`,`+hash, demand, "keySchema"),
		create("sort key alone", "fresh", pk, `{"AttributeName":"pk","KeyType":"RANGE"}`, demand, "not a HASH key type"),
		create("two partition keys", "fresh", pk, hash+`,`+hash, demand, "not a RANGE key type"),
		create("one attribute twice", "fresh", pk, hash+`,{"AttributeName":"pk","KeyType":"RANGE"}`, demand, "same name"),
		create("undefined attribute", "fresh", ``, hash, demand, "not defined"),
		create("unused attribute", "fresh", pk+`,{"AttributeName":"spare","AttributeType":"S"}`, hash, demand, "spare is in no key"),
		create("attribute defined twice", "fresh", pk+`,`+pk, hash, demand, "Duplicate AttributeName"),
		create("key of no scalar", "fresh", `{"AttributeName":"pk","AttributeType":"BOOL"}`, hash, demand, "attributeType"),
		create("long attribute name", "fresh", `{"AttributeName":"<text:256>","AttributeType":"S"}`, `{"AttributeName":"<text:256>","KeyType":"HASH"}`, demand, "attributeName"),
		with("unknown billing mode", `"BillingMode":"FREE"`, "billingMode"),
		with("no throughput", `"BillingMode":"PROVISIONED"`, "WriteCapacityUnits"),
		with("throughput 0", `"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":1}`, "1 or more"),
		with("throughput on demand", demand+`,"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`, "PAY_PER_REQUEST"),
		with("stream without a view", demand+`,"StreamSpecification":{"StreamEnabled":true}`, "streamViewType"),
		with("view without a stream", demand+`,"StreamSpecification":{"StreamEnabled":false,"StreamViewType":"KEYS_ONLY"}`, "StreamEnabled"),
		with("unknown view", demand+`,"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"ALL"}`, "streamViewType"),
		with("no indexes", demand+`,"GlobalSecondaryIndexes":[]`, "GlobalSecondaryIndexes is empty"),
		with("21 indexes", demand+`,"GlobalSecondaryIndexes":[`+actions(21, `{"IndexName":"idx%d",`+gsi+`,"Projection":{"ProjectionType":"ALL"}}`)+`]`, "per-table limit of 20"),
		with("index without throughput", `"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"GlobalSecondaryIndexes":[{"IndexName":"idx",`+gsi+`,"Projection":{"ProjectionType":"ALL"}}]`, "must be specified for index: idx"),
		indexed("index with throughput", gsi+`,"Projection":{"ProjectionType":"ALL"},"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`, "should not be specified"),
		indexed("no projection", gsi, "Unknown ProjectionType: null"),
		indexed("unknown projection", gsi+`,"Projection":{"ProjectionType":"SOME"}`, "Unknown ProjectionType: SOME"),
		indexed("include nothing", gsi+`,"Projection":{"ProjectionType":"INCLUDE"}`, "NonKeyAttributes is not specified"),
		indexed("include one twice", gsi+`,"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["a","b","a"]}`, "Duplicate AttributeName"),
		indexed("include 21", gsi+`,"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":[`+included+`]}`, "nonKeyAttributes"),
		indexed("include no name", gsi+`,"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":[""]}`, "attributeName"),
		indexed("include in all", gsi+`,"Projection":{"ProjectionType":"ALL","NonKeyAttributes":["a"]}`, "NonKeyAttributes is specified"),
		indexed("no index key", `"KeySchema":[],"Projection":{"ProjectionType":"ALL"}`, "keySchema"),
		indexed("undefined index key", `"KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}`, "not defined"),
		update("nothing", `"AttributeDefinitions":[]`, "is required"),
		{what: "no table to update", operation: "UpdateTable", body: `{}`, says: "3 to 255"},
		update("stream that is on", `"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}`, "already enabled"),
		as("ResourceNotFoundException", update("missing index removed", `"GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"nope"}}]`, "not found")),
		as("LimitExceededException", update("two indexes at once", `"GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"gall"}},{"Delete":{"IndexName":"gkeys"}}]`, "Only 1")),
		update("index that is there", `"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"gall",`+gsi+`,"Projection":{"ProjectionType":"ALL"}}}]`, "Duplicate index name: gall"),
		update("attribute of another type", `"BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"N"}]`, "type of pk"),
		update("throughput on demand", `"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`, "PAY_PER_REQUEST"),
		as("ResourceNotFoundException", refusal{what: "missing", operation: "DescribeTable", body: `{"TableName":"nope"}`, says: "nope"}),
		as("ResourceNotFoundException", refusal{what: "missing, deleted", operation: "DeleteTable", body: `{"TableName":"nope"}`, says: "not found"}),
		{what: "limit 0", operation: "ListTables", body: `{"Limit":0}`, says: "'limit'"},
		{what: "limit 101", operation: "ListTables", body: `{"Limit":101}`, says: "'limit'"},
		{what: "no time to live", operation: "UpdateTimeToLive", body: `{"TableName":"tbl"}`, says: "'timeToLiveSpecification'"},
		ttl("no attribute", `{"Enabled":true}`, "attributeName"),
		ttl("neither on nor off", `{"AttributeName":"exp"}`, "enabled"),
		ttl("off when off", `{"AttributeName":"exp","Enabled":false}`, "already disabled"),
	}
}

func unsupportedRefusals() []refusal {
	rows := []refusal{
		{what: "replicas", operation: "UpdateTable", body: `{"TableName":"tbl","ReplicaUpdates":[{}]}`, says: "ReplicaUpdates is not supported"},
		{what: "throughput of an index", operation: "UpdateTable", body: `{"TableName":"tbl","GlobalSecondaryIndexUpdates":[{"Update":{}}]}`, says: "Update is not supported"},
		{what: "local index", operation: "CreateTable", body: `{"TableName":"fresh","LocalSecondaryIndexes":[{}]}`, says: "LocalSecondaryIndexes is not supported"},
	}
	for operation, names := range map[string][]string{
		"GetItem": {"AttributesToGet"}, "UpdateItem": {"AttributeUpdates", "Expected"}, "PutItem": {"Expected", "ConditionalOperator"},
		"Query": {"KeyConditions", "QueryFilter"}, "Scan": {"ScanFilter"},
	} {
		for _, name := range names {
			rows = append(rows, refusal{
				what: name, operation: operation, says: "the legacy parameter " + name + " is not supported",
				body: `{"TableName":"tbl","` + name + `":{},"Key":<key>}`,
			})
		}
	}
	for _, operation := range []string{"ExecuteStatement", "BatchExecuteStatement", "CreateBackup", "CreateGlobalTable", "DescribeLimits"} {
		rows = append(rows, refusal{
			what: operation, operation: operation, body: `{}`, want: "UnknownOperationException", says: operation + `\" is not supported`,
		})
	}
	return rows
}
