package table

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

var update = flag.Bool("update", false, "write the golden files anew")

func testKey() keys.Bucket {
	return keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: "api-key-123", Resource: "gpt-4"}
}

func perMinute(name string, tokens int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: tokens * bucket.Milli, Refill: tokens * bucket.Milli, Period: 60_000}
}

func testBucket() *Bucket {
	return &Bucket{
		Key: testKey(), Level: 1, Fingerprint: "k3J9x1QaZ0c", Acquires: 7, WriteUnits: 9,
		LastWrite: "q8ZbT1xA.2n", TTL: 1_790_000_000, Cascade: true, Parent: "acme",
		Limits: []Limit{
			{Limit: perMinute("rpm", 100), Drawn: 98_500_000, Consumed: 7000},
			{Limit: perMinute("tpm", 10_000), Drawn: 9_850_000_000, Consumed: 3_500_000},
		},
	}
}

// form is the part of a write that a golden file pins.
type form struct {
	Update    string            `json:"update,omitempty"`
	Condition string            `json:"condition"`
	Names     map[string]string `json:"names,omitempty"`
	Values    map[string]any    `json:"values,omitempty"`
	Item      map[string]any    `json:"item,omitempty"`
}

func plain(t *testing.T, item Item) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, attributevalue.UnmarshalMap(item, &out))
	return out
}

func golden(t *testing.T, name string, f form) {
	t.Helper()
	got, err := json.MarshalIndent(f, "", "  ")
	require.NoError(t, err)
	file := filepath.Join("testdata", name+".json")
	if *update {
		require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the tests of this package with -update to write it")
	require.JSONEq(t, string(want), string(got))
}

func TestFormsAreGolden(t *testing.T) {
	commits := map[string]*Commit{
		"spend_busy": {
			Key: testKey(), Guarded: true, Level: 1, Fingerprint: "k3J9x1QaZ0c", Acquires: 2, WriteUnits: 1,
			Nonce: "q8ZbT1xA.2o", TTL: TTL{Set: 1_790_000_420},
			Limits: []LimitChange{
				{Name: "rpm", Change: bucket.Change{Amount: 2000, Min: 98_400_000, Max: 98_498_000}, Consumed: 2000},
				{Name: "tpm", Change: bucket.Change{Min: math.MinInt64, Max: 9_860_000_000}},
			},
		},
		"spend_idle": {
			Key: testKey(), Guarded: true, Level: 1, Fingerprint: "k3J9x1QaZ0c", Acquires: 1, WriteUnits: 3,
			Nonce: "q8ZbT1xA.2p",
			Limits: []LimitChange{
				{Name: "rpm", Change: bucket.Change{Set: true, Amount: 98_401_000, Min: math.MinInt64, Max: 98_399_999}, Consumed: 1000},
			},
		},
		"settle_debit": {
			Key: testKey(), Guarded: true, Level: 1, Fingerprint: "k3J9x1QaZ0c", WriteUnits: 1,
			Nonce: "q8ZbT1xA.2q", TTL: TTL{Remove: true},
			Limits: []LimitChange{{Name: "tpm", Change: bucket.Change{Amount: 1_500_000, Min: 9_840_000_000, Max: math.MaxInt64}, Consumed: 1_500_000}},
		},
		"settle_credit": {
			Key: testKey(), WriteUnits: 1, Nonce: "q8ZbT1xA.2r",
			Limits: []LimitChange{{Name: "tpm", Change: bucket.Change{Amount: -300_000, Min: math.MinInt64, Max: math.MaxInt64}, Consumed: -300_000}},
		},
	}
	for name, c := range commits {
		t.Run(name, func(t *testing.T) {
			in := c.Input("tidegate")
			golden(t, name, form{Update: *in.UpdateExpression, Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
		})
	}
	t.Run("create", func(t *testing.T) {
		in := (&Create{Bucket: testBucket()}).Input("tidegate")
		golden(t, "create", form{Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Item: plain(t, in.Item)})
	})
	t.Run("sync", func(t *testing.T) {
		in := testSync().Input("tidegate")
		golden(t, "sync", form{Update: *in.UpdateExpression, Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
	})
}

func testSync() *Sync {
	return &Sync{
		Key: testKey(), Level: 1, From: "k3J9x1QaZ0c", To: "Zb81mmQp0aE", WriteUnits: 1, Nonce: "q8ZbT1xA.2s",
		Kept: []KeptLimit{{
			From: perMinute("rpm", 100), To: perMinute("rpm", 5),
			Change: bucket.Change{Amount: -93_000_000, Min: math.MinInt64, Max: math.MaxInt64},
		}},
		Added:   []Limit{{Limit: perMinute("daily", 10), Drawn: 4_000_000}},
		Dropped: []DroppedLimit{{Limit: perMinute("tpm", 10_000), Max: 9_840_000_000}},
	}
}

func TestSyncApplyShowsWhatTheWriteLeaves(t *testing.T) {
	before := testBucket()
	after := testSync().Apply(before)
	require.Equal(t, testBucket(), before, "the known item is not changed")
	require.Equal(t, "Zb81mmQp0aE", after.Fingerprint)
	require.False(t, after.Cascade)
	require.Zero(t, after.TTL)
	require.Len(t, after.Limits, 2)
	require.Equal(t, perMinute("rpm", 5), after.Find("rpm").Limit)
	require.EqualValues(t, 5_500_000, after.Find("rpm").Drawn)
	require.EqualValues(t, 4_000_000, after.Find("daily").Drawn)
	require.Nil(t, after.Find("tpm"))
}

func TestBucketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := testBucket()
		b.Key.Shard = rapid.IntRange(0, 31).Draw(t, "shard")
		b.Level, b.Want = 32, rapid.SampledFrom([]int{0, 1, 32}).Draw(t, "want")
		b.Cascade, b.Parent = rapid.Bool().Draw(t, "cascade"), rapid.SampledFrom([]string{"", "acme"}).Draw(t, "parent")
		b.TTL = rapid.Int64Range(0, 1<<40).Draw(t, "ttl")
		b.Limits = nil
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "a_dr", "a_tc", "b-1", "ttl", "x.y", "want"}), 0, 7, rapid.ID[string]).Draw(t, "names")
		for _, name := range names {
			l := Limit{Limit: perMinute(name, 5), Drawn: rapid.Int64().Draw(t, "drawn"), Consumed: rapid.Int64().Draw(t, "consumed")}
			b.Limits = append(b.Limits, l)
		}
		got, err := DecodeBucket(EncodeBucket(b))
		require.NoError(t, err)
		require.ElementsMatch(t, b.Limits, got.Limits)
		got.Limits, b.Limits = nil, nil
		require.Equal(t, b, got)
	})
}

func TestDamagedItemsAreRefused(t *testing.T) {
	for name, damage := range map[string]func(Item){
		"no key":              func(i Item) { delete(i, attrPK) },
		"another item's key":  func(i Item) { i[attrPK], i[attrSK] = text("AAAAAAAAAAA/SYSTEM#"), text("#CONFIG") },
		"no level":            func(i Item) { delete(i, attrLevel) },
		"level below shard":   func(i Item) { i[attrLevel] = number(0) },
		"drawn is text":       func(i Item) { i[drawnOf("rpm")] = text("1") },
		"capacity missing":    func(i Item) { delete(i, capacityOf("rpm")) },
		"fraction":            func(i Item) { i[drawnOf("rpm")] = fraction() },
		"cascade is a number": func(i Item) { i[attrCascade] = number(1) },
		"print is a number":   func(i Item) { i[attrPrint] = number(1) },
		"beyond int64":        func(i Item) { i[drawnOf("rpm")] = &types.AttributeValueMemberN{Value: "9223372036854775808"} },
		"a foreign limit":     func(i Item) { i[drawnOf("foreign")] = number(1) },
		"no such level":       func(i Item) { i[attrLevel] = number(3) },
		"too high a level":    func(i Item) { i[attrLevel] = number(2 * bucket.MaxShards) },
		"wanted below zero":   func(i Item) { i[attrWant] = number(-2) },
		"a period of nothing": func(i Item) { i[periodOf("rpm")] = number(0) },
		"no refill":           func(i Item) { i[refillOf("rpm")] = number(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			item := EncodeBucket(testBucket())
			damage(item)
			_, err := DecodeBucket(item)
			require.ErrorIs(t, err, ErrDamaged)
		})
	}
}

// A bucket item of ordinary names costs one write unit: with ids of 36
// characters, a parent and four limits it stays below 1 KB.
func TestOrdinaryItemsStayBelowOneKilobyte(t *testing.T) {
	b := testBucket()
	b.Key.Entity, b.Key.Resource = "550e8400-e29b-41d4-a716-446655440000", "openai/gpt-4"
	b.Parent = "org-0123456789abcdef"
	b.Limits = nil
	for _, name := range []string{"rpm", "tpm", "rpd", "tokens_per_minute"} {
		b.Limits = append(b.Limits, Limit{Limit: perMinute(name, 1_000_000), Drawn: 1 << 55, Consumed: 1 << 50})
	}
	require.Less(t, sizeOf(t, EncodeBucket(b)), 1024)
}

// Settlements add to the counters without a bound; that must not make an item
// unreadable.
func TestCountersBeyond64BitsAreReadable(t *testing.T) {
	item := EncodeBucket(testBucket())
	item["b_rpm_tc"] = &types.AttributeValueMemberN{Value: "9223372036854775808"}
	item["b_tpm_tc"] = &types.AttributeValueMemberN{Value: "-9223372036854775809"}
	b, err := DecodeBucket(item)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64, b.Find("rpm").Consumed)
	require.EqualValues(t, math.MinInt64, b.Find("tpm").Consumed)
	item["b_rpm_tc"] = &types.AttributeValueMemberN{Value: "1.5"}
	_, err = DecodeBucket(item)
	require.ErrorIs(t, err, ErrDamaged)
}
