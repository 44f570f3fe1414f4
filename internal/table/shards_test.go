package table

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

func shardKey(shard int) keys.Bucket {
	key := testKey()
	key.Shard = shard
	return key
}

func transactions() map[string][]types.TransactWriteItem {
	split := func(shard, level int, want WantChange) []types.TransactWriteItem {
		return (&Split{
			Key: shardKey(shard), Level: level, Fingerprint: "k3J9x1QaZ0c", Want: want, WriteUnits: 2, Nonce: "q8ZbT1xA.2o",
			Limits: []SplitLimit{{Limit: perMinute("rpm", 100), Own: bucket.Change{Amount: -49_200_000, Min: math.MinInt64, Max: 98_450_000}}},
			Child: &Bucket{
				Key: shardKey(shard + level), Level: 2 * level, Fingerprint: "k3J9x1QaZ0c", LastWrite: "q8ZbT1xA.2o",
				Limits: []Limit{{Limit: perMinute("rpm", 100), Drawn: 49_200_000}},
			},
		}).Writes("tidegate")
	}
	merge := func(into, gone, level int, limits ...MergeLimit) []types.TransactWriteItem {
		return (&Merge{
			Into: shardKey(into), Gone: shardKey(gone), Level: level, Fingerprint: "k3J9x1QaZ0c", Limits: limits, WriteUnits: 2, Nonce: "q8ZbT1xA.2p",
		}).Writes("tidegate")
	}
	rpm := MergeLimit{Limit: perMinute("rpm", 100), Change: bucket.Change{Amount: 49_200_000, Min: 49_150_000, Max: math.MaxInt64}, GoneMax: 49_200_000, GoneExact: true}
	forgotten := rpm
	forgotten.Limit.Name, forgotten.MissingGone = "tpm", true
	return map[string][]types.TransactWriteItem{
		"double":       split(0, 1, WantChange{To: 2}),
		"double_again": split(0, 2, WantChange{From: 2, To: 4}),
		"split_first":  split(0, 2, WantChange{}),
		"split":        split(1, 2, WantChange{}),
		"merge_first":  merge(0, 1, 2, rpm, forgotten),
		"merge": merge(1, 3, 4, rpm, MergeLimit{
			Limit: perMinute("tpm", 100), MissingInto: true, GoneMax: 49_200_000,
			Change: bucket.Change{Set: true, Amount: 98_400_000, Min: math.MinInt64, Max: math.MaxInt64},
		}),
		"gather": (&MultiSpend{Parts: []Commit{
			{
				Key: shardKey(0), Guarded: true, Level: 2, Fingerprint: "k3J9x1QaZ0c", Acquires: 1, WriteUnits: 2, Nonce: "q8ZbT1xA.2q",
				Limits: []LimitChange{{Name: "rpm", Change: bucket.Change{Amount: 30_000, Min: 49_150_000, Max: 49_170_000}, Consumed: 30_000}},
			},
			{
				Key: shardKey(1), Guarded: true, Level: 2, Fingerprint: "k3J9x1QaZ0c", WriteUnits: 2, Nonce: "q8ZbT1xA.2q",
				Limits: []LimitChange{{Name: "rpm", Change: bucket.Change{Set: true, Amount: 49_180_000, Min: math.MinInt64, Max: 49_149_999}, Consumed: 30_000}},
			},
		}}).Writes("tidegate"),
	}
}

// parts are a transaction's writes as a golden file pins them.
func parts(t *testing.T, writes []types.TransactWriteItem) []form {
	t.Helper()
	forms := make([]form, len(writes))
	for i, w := range writes {
		switch {
		case w.Update != nil:
			forms[i] = form{
				Update: *w.Update.UpdateExpression, Condition: *w.Update.ConditionExpression,
				Names: w.Update.ExpressionAttributeNames, Values: plain(t, w.Update.ExpressionAttributeValues), Item: plain(t, w.Update.Key),
			}
		case w.Put != nil:
			forms[i] = form{Condition: *w.Put.ConditionExpression, Names: w.Put.ExpressionAttributeNames, Item: plain(t, w.Put.Item)}
		case w.Delete != nil:
			forms[i] = form{
				Condition: *w.Delete.ConditionExpression, Names: w.Delete.ExpressionAttributeNames,
				Values: plain(t, w.Delete.ExpressionAttributeValues), Item: plain(t, w.Delete.Key),
			}
		default:
			forms[i] = form{
				Condition: *w.ConditionCheck.ConditionExpression, Names: w.ConditionCheck.ExpressionAttributeNames,
				Values: plain(t, w.ConditionCheck.ExpressionAttributeValues), Item: plain(t, w.ConditionCheck.Key),
			}
		}
	}
	return forms
}

func TestTransactionsAreGolden(t *testing.T) {
	for name, writes := range transactions() {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(parts(t, writes), "", "  ")
			require.NoError(t, err)
			file := filepath.Join("testdata", "shards_"+name+".json")
			if *update {
				require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "run the tests of this package with -update to write it")
			require.JSONEq(t, string(want), string(got))
		})
	}
	t.Run("want", func(t *testing.T) {
		in := (&Want{Key: shardKey(3), Change: WantChange{From: 4, To: 2}, Level: 4, WriteUnits: 1, Nonce: "q8ZbT1xA.2r"}).Input("tidegate")
		golden(t, "shards_want", form{
			Update: *in.UpdateExpression, Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames,
			Values: plain(t, in.ExpressionAttributeValues), Item: plain(t, in.Key),
		})
	})
}

// A transaction may have 100 writes, and a request 64 KB of expressions: what
// spends from all shards of a bucket with the most limits stays within both.
func TestTheLargestMultiSpendIsOneTransaction(t *testing.T) {
	g := &MultiSpend{}
	for i := range bucket.MaxShards {
		c := Commit{Key: shardKey(i), Guarded: true, Level: bucket.MaxShards, Fingerprint: "k3J9x1QaZ0c", WriteUnits: 2, Nonce: "q8ZbT1xA.2q"}
		for n := range bucket.MaxLimits {
			c.Limits = append(c.Limits, LimitChange{Name: string(rune('a' + n)), Change: bucket.Change{Amount: 1, Min: 1, Max: 2}, Consumed: 1})
		}
		g.Parts = append(g.Parts, c)
	}
	writes := g.Writes("tidegate")
	require.LessOrEqual(t, len(writes), 100)
	for _, w := range writes {
		require.Less(t, len(*w.Update.UpdateExpression)+len(*w.Update.ConditionExpression), 4096, "the longest expression that DynamoDB takes")
	}
}
