package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

// fill puts 20 items b/00 to b/19, all in the indexes under g1 = B.
func fill(x *table) {
	x.t.Helper()
	for i := range 20 {
		x.put(item("b", fmt.Sprintf("%02d", i), "g1", text("B"), "g1n", num(i), "extra", text("e"), "oth", text("o")))
	}
}

// sortKeys walks all pages of a query and returns the sort keys in order.
func (x *table) sortKeys(in *dynamodb.QueryInput) (keys []string, pages int) {
	x.t.Helper()
	in.TableName = x.name
	p := dynamodb.NewQueryPaginator(x.db, in)
	for p.HasMorePages() {
		out, err := p.NextPage(x.t.Context())
		require.NoError(x.t, err)
		for _, it := range out.Items {
			keys = append(keys, textOf(it["sk"]))
		}
		pages++
		require.Less(x.t, pages, 50, "paging never ends")
	}
	return keys, pages
}

func queryChecks() map[string]func(*testing.T, *table) {
	return map[string]func(*testing.T, *table){
		"scan by segments": checkSegments,
		"pages, both ways": func(t *testing.T, x *table) {
			fill(x)
			x.put(item("a", "05"), item("c", "05")) // neighbours stay out
			in := func(forward bool) *dynamodb.QueryInput {
				return &dynamodb.QueryInput{
					KeyConditionExpression:    aws.String("pk = :p AND sk BETWEEN :a AND :b"),
					ExpressionAttributeValues: attrs{":p": text("b"), ":a": text("03"), ":b": text("12")},
					ScanIndexForward:          &forward, Limit: aws.Int32(3),
				}
			}
			down, pages := x.sortKeys(in(false))
			require.Equal(t, "12,11,10,09,08,07,06,05,04,03", strings.Join(down, ","))
			require.Equal(t, 4, pages)
			up, _ := x.sortKeys(in(true))
			require.Equal(t, "03,04,05,06,07,08,09,10,11,12", strings.Join(up, ","))
		},
		"sort key conditions": checkSortKeyConditions,
		"count": func(t *testing.T, x *table) {
			fill(x)
			out := x.query("pk = :p AND begins_with(sk, :a)", attrs{":p": text("b"), ":a": text("1")},
				func(in *dynamodb.QueryInput) { in.Select = types.SelectCount })
			require.EqualValues(t, 10, out.Count)
			require.Empty(t, out.Items)
		},
		"filter": func(t *testing.T, x *table) {
			fill(x)
			out := x.query("pk = :p", attrs{":p": text("b"), ":n": num(15)},
				func(in *dynamodb.QueryInput) { in.FilterExpression = aws.String("g1n >= :n") })
			require.EqualValues(t, 5, out.Count)
			require.EqualValues(t, 20, out.ScannedCount)
		},
		"index projections and numeric order": func(t *testing.T, x *table) {
			fill(x)
			all, keys, include := x.queryIndex("gall", "B"), x.queryIndex("gkeys", "B"), x.queryIndex("gincl", "B")
			require.Len(t, all, 20)
			require.Len(t, keys, 20)
			require.Len(t, include, 20)
			require.Equal(t, "extra,g1,g1n,oth,pk,sk", names(all[0]))
			require.Equal(t, "g1,pk,sk", names(keys[0]))
			require.Equal(t, "extra,g1,g1n,pk,sk", names(include[0]))
			for i, it := range all {
				require.Equal(t, fmt.Sprint(i), numberOf(it["g1n"]), "2 comes before 10")
			}
		},
		"sparse indexes, moved and removed keys": func(t *testing.T, x *table) {
			fill(x)
			x.update("b", "00", change{update: "SET g1 = :n REMOVE oth", values: attrs{":n": text("C")}})
			x.update("b", "01", change{update: "REMOVE g1n"})
			require.Len(t, x.queryIndex("gall", "B"), 18)
			require.Len(t, x.queryIndex("gkeys", "B"), 19)
			moved := x.queryIndex("gall", "C")
			require.Len(t, moved, 1)
			require.Equal(t, "extra,g1,g1n,pk,sk", names(moved[0]))
			_, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: x.name, Key: key("b", "00")})
			require.NoError(t, err)
			require.Empty(t, x.queryIndex("gall", "C"))
		},
		"index pages": checkIndexPages,
		"scan": func(t *testing.T, x *table) {
			fill(x)
			x.put(item("z", "1"))
			out, err := x.db.Scan(t.Context(), &dynamodb.ScanInput{TableName: x.name, FilterExpression: aws.String("attribute_exists(g1)")})
			require.NoError(t, err)
			require.EqualValues(t, 20, out.Count)
			require.EqualValues(t, 21, out.ScannedCount)
			out, err = x.db.Scan(t.Context(), &dynamodb.ScanInput{TableName: x.name, IndexName: aws.String("gkeys")})
			require.NoError(t, err)
			require.EqualValues(t, 20, out.Count)
			p := dynamodb.NewScanPaginator(x.db, &dynamodb.ScanInput{TableName: x.name, Limit: aws.Int32(4)})
			n := 0
			for p.HasMorePages() {
				page, err := p.NextPage(t.Context())
				require.NoError(t, err)
				n += len(page.Items)
			}
			require.Equal(t, 21, n)
		},
		"a page is at most a megabyte": checkPageSize,
		"a batch is at most 16 megabytes": func(t *testing.T, x *table) {
			big := text(strings.Repeat("x", 390_000))
			keys := make([]attrs, 50)
			for i := range keys {
				keys[i] = key("big", fmt.Sprint(i))
				x.put(item("big", fmt.Sprint(i), "d", big))
			}
			want := map[string]types.KeysAndAttributes{*x.name: {Keys: keys, ProjectionExpression: aws.String("#s"), ExpressionAttributeNames: map[string]string{"#s": "sk"}}}
			seen := map[string]bool{}
			for rounds := 1; len(want) > 0; rounds++ {
				require.LessOrEqual(t, rounds, 2)
				out, err := x.db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: want})
				require.NoError(t, err)
				for _, it := range out.Responses[*x.name] {
					require.Equal(t, "sk", names(it), "the projection holds for what was left over, too")
					seen[textOf(it["sk"])] = true
				}
				if rounds == 1 {
					require.Len(t, out.Responses[*x.name], 43)
				}
				want = out.UnprocessedKeys
			}
			require.Len(t, seen, 50)
		},
	}
}

// checkSortKeyConditions compares every operator with a plain filter over keys
// that try the order: prefixes of each other, zero bytes, high bytes.
func checkSortKeyConditions(t *testing.T, x *table) {
	all := []string{"\x00", "\x00\x00", "\x00\x01", "a", "a\x00", "a\x00b", "aa", "ab", "b", "é", "\uffff", "\U0010ffff"}
	for _, sk := range all {
		x.put(item("p", sk, "g1", text("p"), "g1n", num(1)))
		x.put(item("p\x00", sk), item("o", sk))
	}
	for condition, keep := range map[string]func(sk, a, b string) bool{
		"sk = :a":                  func(sk, a, _ string) bool { return sk == a },
		"sk < :a":                  func(sk, a, _ string) bool { return sk < a },
		"sk <= :a":                 func(sk, a, _ string) bool { return sk <= a },
		"sk > :a":                  func(sk, a, _ string) bool { return sk > a },
		"sk >= :a":                 func(sk, a, _ string) bool { return sk >= a },
		"begins_with(sk, :a)":      func(sk, a, _ string) bool { return strings.HasPrefix(sk, a) },
		"sk BETWEEN :a AND :b":     func(sk, a, b string) bool { return a <= sk && sk <= b },
		"#sk = :a":                 func(sk, a, _ string) bool { return sk == a },
		"begins_with ( sk , :a  )": func(sk, a, _ string) bool { return strings.HasPrefix(sk, a) },
	} {
		for i, a := range all {
			var want []string
			b := all[min(i+3, len(all)-1)]
			for _, sk := range all {
				if keep(sk, a, b) {
					want = append(want, sk)
				}
			}
			in := &dynamodb.QueryInput{
				KeyConditionExpression:    aws.String("pk = :p AND " + condition),
				ExpressionAttributeValues: attrs{":p": text("p"), ":a": text(a)}, Limit: aws.Int32(2),
			}
			if strings.Contains(condition, ":b") {
				in.ExpressionAttributeValues[":b"] = text(b)
			}
			if strings.Contains(condition, "#sk") {
				in.ExpressionAttributeNames = map[string]string{"#sk": "sk"}
			}
			got, _ := x.sortKeys(in)
			require.Equal(t, want, got, "%s, a = %q", condition, a)
		}
	}
}

func checkIndexPages(t *testing.T, x *table) {
	fill(x)
	for _, forward := range []bool{true, false} {
		got, _ := x.sortKeys(&dynamodb.QueryInput{
			IndexName: aws.String("gkeys"), KeyConditionExpression: aws.String("g1 = :g"),
			ExpressionAttributeValues: attrs{":g": text("B")}, Limit: aws.Int32(3), ScanIndexForward: &forward,
		})
		require.Len(t, got, 20)
	}
	out := x.query("g1 = :g", attrs{":g": text("B")}, func(in *dynamodb.QueryInput) {
		in.IndexName, in.Limit = aws.String("gall"), aws.Int32(5)
	})
	require.Equal(t, "g1,g1n,pk,sk", names(out.LastEvaluatedKey), "the index's keys and the table's")
	for index, want := range map[string]string{"gall": "g1,g1n,pk,sk", "gkeys": "g1,pk,sk", "gincl": "g1,g1n,pk,sk"} {
		out, err := x.db.Scan(t.Context(), &dynamodb.ScanInput{
			TableName: x.name, IndexName: &index, Limit: aws.Int32(1), ProjectionExpression: aws.String("sk"),
		})
		require.NoError(t, err)
		require.Equal(t, want, names(out.LastEvaluatedKey), "whatever is projected: "+index)
	}
	out = x.query("pk = :g", attrs{":g": text("b")}, func(in *dynamodb.QueryInput) { in.Limit = aws.Int32(5) })
	require.Equal(t, key("b", "04"), out.LastEvaluatedKey)
}

func checkPageSize(t *testing.T, x *table) {
	big := text(strings.Repeat("x", 300_000))
	for i := range 5 {
		x.put(item("mb", fmt.Sprint(i), "d", big))
	}
	out := x.query("pk = :p", attrs{":p": text("mb")}, nil)
	require.Len(t, out.Items, 3)
	require.NotNil(t, out.LastEvaluatedKey)
	got, pages := x.sortKeys(&dynamodb.QueryInput{
		KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: attrs{":p": text("mb")},
	})
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, got)
	require.Equal(t, 2, pages)
}
