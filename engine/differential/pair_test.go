package differential

import (
	"crypto/rand"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pair is two engines that are given the same requests.
type pair struct {
	ours, other *target
	known       []difference // of the other
	between     func()       // called between requests; nil: nothing is
}

// maxPages is more than any listing of a sequence's few items has.
const maxPages = 40

// sequence draws requests and compares all that comes of them.
func (p *pair) sequence(t *rapid.T) {
	x := &table{name: "d-" + rand.Text(), sort: pick(t, "sort key", "S", "N", "B")}
	ours, theirs := p.each(t, "CreateTable", x.definition())
	require.Empty(t, ours.code+theirs.code)
	defer p.each(t, "DeleteTable", object{"TableName": x.name})
	for range rapid.IntRange(1, 20).Draw(t, "requests") {
		if !p.compare(t, x, rapid.Custom(x.operation).Draw(t, "request")) {
			return
		}
		if p.between != nil && chance(t, "between", 10) {
			p.between()
		}
	}
	for _, index := range []string{"", "gall", "gkeys", "gincl"} {
		request := object{"TableName": x.name}
		if index != "" {
			request["IndexName"] = index
		}
		p.compare(t, x, operation{name: "Scan", request: request, paged: true, unordered: true})
	}
}

func (x *table) definition() object {
	key := func(names ...string) []object {
		out := []object{{"AttributeName": names[0], "KeyType": "HASH"}}
		for _, name := range names[1:] {
			out = append(out, object{"AttributeName": name, "KeyType": "RANGE"})
		}
		return out
	}
	index := func(name string, keys []object, projection object) object {
		return object{"IndexName": name, "KeySchema": keys, "Projection": projection}
	}
	return object{
		"TableName": x.name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": key("pk", "sk"),
		"AttributeDefinitions": []object{
			{"AttributeName": "pk", "AttributeType": "S"},
			{"AttributeName": "sk", "AttributeType": x.sort},
			{"AttributeName": "g1", "AttributeType": "S"},
			{"AttributeName": "g1n", "AttributeType": "N"},
		},
		"GlobalSecondaryIndexes": []object{
			index("gall", key("g1", "g1n"), object{"ProjectionType": "ALL"}),
			index("gkeys", key("g1"), object{"ProjectionType": "KEYS_ONLY"}),
			index("gincl", key("g1", "g1n"), object{"ProjectionType": "INCLUDE", "NonKeyAttributes": []string{"extra"}}),
		},
	}
}

func (p *pair) each(t require.TestingT, name string, request object) (ours, theirs reply) {
	return p.ours.call(t, name, request), p.other.call(t, name, request)
}

// compare sends a request to both engines and requires the same reply, and the
// same items after it. It reports whether the tables are the same: where a
// difference is known, they may not be.
func (p *pair) compare(t *rapid.T, x *table, op operation) (alike bool) {
	if op.paged {
		p.comparePages(t, op)
		return true
	}
	ours, theirs := p.each(t, op.name, op.request)
	differs := !p.same(t, op, ours, theirs)
	if ours.code != "" && theirs.code != "" || !op.writes() {
		return true
	}
	ours, theirs = p.each(t, "Scan", object{"TableName": x.name})
	sorted(ours.body["Items"].([]any))
	sorted(theirs.body["Items"].([]any))
	if differs {
		return text(ours.body) == text(theirs.body)
	}
	return p.same(t, op, ours, theirs)
}

// same requires two replies to a request to be alike, which it reports, or to
// differ as is known.
func (p *pair) same(t *rapid.T, op operation, ours, theirs reply) bool {
	if op.unordered {
		sortResponses(ours.body)
		sortResponses(theirs.body)
	}
	if ours.code == theirs.code && text(ours.body) == text(theirs.body) {
		return true
	}
	if name, known := p.explained(op, ours, theirs); known {
		t.Logf("a known difference: %s", name)
		return false
	}
	require.Equal(t, ours.describe(), theirs.describe(), "%s differs between %s and %s: %s",
		op.name, p.ours.name, p.other.name, text(op.request))
	return true
}

func (r reply) describe() string {
	return fmt.Sprintf("code %q\nmessage %s\nbody %s", r.code, r.message, text(r.body))
}

// sortResponses orders the items of a BatchGetItem's reply.
func sortResponses(body object) {
	responses, _ := body["Responses"].(object)
	for _, items := range responses {
		sorted(items.([]any))
	}
}

// comparePages reads a listing to its end, in step. Where the order is fixed
// each page must be the same, and otherwise all of them together.
func (p *pair) comparePages(t *rapid.T, op operation) {
	ours, theirs := p.each(t, op.name, op.request)
	if !op.unordered || ours.code != "" || theirs.code != "" {
		p.same(t, op, ours, theirs)
		for page := 1; ours.body["LastEvaluatedKey"] != nil && theirs.body["LastEvaluatedKey"] != nil; page++ {
			require.Less(t, page, maxPages, "paging never ends")
			op.request["ExclusiveStartKey"] = ours.body["LastEvaluatedKey"]
			ours, theirs = p.each(t, op.name, op.request)
			p.same(t, op, ours, theirs)
		}
		return
	}
	one, two := p.rest(t, p.ours, op, ours), p.rest(t, p.other, op, theirs)
	p.same(t, op, one, two)
}

// rest reads on from a first page and returns all pages as one reply: its items
// in no order, its counts added up, and the sort keys in the order they came.
func (p *pair) rest(t *rapid.T, e *target, op operation, first reply) reply {
	var (
		items          []any
		order          []any
		count, scanned int
		whole          = reply{body: object{}}
	)
	request := object{}
	for name, v := range op.request {
		request[name] = v
	}
	for page, r := 1, first; ; page++ {
		require.Less(t, page, maxPages, "%s: paging never ends", e.name)
		require.Empty(t, r.code, "%s: %s", e.name, r.message)
		more, _ := r.body["Items"].([]any)
		items = append(items, more...)
		for _, item := range more {
			if op.name == "Query" {
				order = append(order, item.(object)["g1n"])
			}
		}
		count += integer(t, r.body["Count"])
		scanned += integer(t, r.body["ScannedCount"])
		last := r.body["LastEvaluatedKey"]
		if last == nil && page == 1 {
			whole.body["ConsumedCapacity"] = r.body["ConsumedCapacity"]
		}
		if last == nil {
			break
		}
		require.Len(t, last, keyNames(request), "%s: %s", e.name, text(last))
		request["ExclusiveStartKey"] = last
		r = e.call(t, op.name, request)
	}
	whole.body["Items"], whole.body["Order"], whole.body["Count"], whole.body["Scanned"] = sorted(items), order, count, scanned
	return whole
}

// keyNames is how many attributes a listing's LastEvaluatedKey has: those of the
// table's key, and those of the index's.
func keyNames(request object) int {
	switch request["IndexName"] {
	case nil:
		return 2
	case "gkeys":
		return 3
	}
	return 4
}

func integer(t *rapid.T, v any) int {
	var n int
	_, err := fmt.Sscan(fmt.Sprint(v), &n)
	require.NoError(t, err)
	return n
}
