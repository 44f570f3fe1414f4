package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestIndexesFollowTheTable writes at random and compares each index with what
// the table's items say it should hold.
func TestIndexesFollowTheTable(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := inProcess(t).table(t)
		for range rapid.IntRange(1, 40).Draw(r, "writes") {
			writeAtRandom(r, x)
		}
		all := scanAll(x, "")
		for index, needs := range map[string][]string{"gall": {"g1", "g1n"}, "gkeys": {"g1"}, "gincl": {"g1", "g1n"}} {
			shows := map[string]string{"gall": "", "gkeys": "pk,sk,g1", "gincl": "pk,sk,g1,g1n,extra"}[index]
			var want []string
			for _, it := range all {
				if !slices.ContainsFunc(needs, func(name string) bool { return it[name] == nil }) {
					want = append(want, signature(it, shows))
				}
			}
			var got []string
			for _, it := range scanAll(x, index) {
				got = append(got, signature(it, ""))
			}
			require.ElementsMatch(t, want, got, index)
		}
		requireSizes(t, x, all)
	})
}

// writeAtRandom changes one of a few items, so that keys are met again.
func writeAtRandom(r *rapid.T, x *table) {
	sk := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r, "sk")
	g := text(rapid.SampledFrom([]string{"a", "b"}).Draw(r, "g1"))
	n := num(rapid.IntRange(-2, 2).Draw(r, "g1n"))
	var err error
	switch rapid.SampledFrom([]string{"put", "move", "leave", "other", "delete", "cancel", "transact"}).Draw(r, "write") {
	case "put":
		err = x.tryPut(item("p", sk, "g1", g, "g1n", n))
	case "move":
		_, err = x.tryUpdate("p", sk, change{update: "SET g1 = :g, g1n = :n", values: attrs{":g": g, ":n": n}})
	case "leave":
		_, err = x.tryUpdate("p", sk, change{update: "REMOVE g1n"})
	case "other":
		_, err = x.tryUpdate("p", sk, change{update: "SET extra = :g, spare = :n", values: attrs{":g": g, ":n": n}})
	case "delete":
		_, err = x.db.DeleteItem(x.t.Context(), &dynamodb.DeleteItemInput{TableName: x.name, Key: key("p", sk)})
	case "cancel":
		requireCode(x.t, x.transact(
			types.TransactWriteItem{Put: &types.Put{TableName: x.name, Item: item("p", sk, "g1", g)}},
			x.add("never", "1", 1, "attribute_exists(pk)", nil),
		), "TransactionCanceledException")
	case "transact":
		err = x.transact(
			types.TransactWriteItem{Put: &types.Put{TableName: x.name, Item: item("p", sk, "g1", g)}},
			types.TransactWriteItem{Delete: &types.Delete{TableName: x.name, Key: key("p", "9")}},
		)
	}
	require.NoError(x.t, err)
}

func scanAll(x *table, index string) []attrs {
	x.t.Helper()
	in := &dynamodb.ScanInput{TableName: x.name}
	if index != "" {
		in.IndexName = &index
	}
	out, err := x.db.Scan(x.t.Context(), in)
	require.NoError(x.t, err)
	return out.Items
}

// signature is an item as text, or the attributes that shows names.
func signature(it attrs, shows string) string {
	var parts []string
	for name, v := range it {
		if shows == "" || slices.Contains(strings.Split(shows, ","), name) {
			parts = append(parts, fmt.Sprintf("%s=%s%s", name, textOf(v), numberOf(v)))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// requireSizes compares the table's and the full index's counters with the items.
func requireSizes(t *testing.T, x *table, all []attrs) {
	t.Helper()
	out, err := x.db.DescribeTable(x.t.Context(), &dynamodb.DescribeTableInput{TableName: x.name})
	require.NoError(t, err)
	require.EqualValues(t, len(all), aws.ToInt64(out.Table.ItemCount))
	if len(all) == 0 {
		require.Zero(t, aws.ToInt64(out.Table.TableSizeBytes))
		for _, index := range out.Table.GlobalSecondaryIndexes {
			require.Zero(t, aws.ToInt64(index.IndexSizeBytes), aws.ToString(index.IndexName))
		}
	}
}
