package table

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/keys"
)

func testUsage() keys.Usage {
	return keys.Usage{Namespace: "AAAAAAAAAAA", Entity: "api-key-123", Resource: "gpt-4", Window: "hourly", Start: "2026-03-01T12:00:00Z"}
}

func position(n int) string { return fmt.Sprintf("2026-03-01T00:00:00.000/%040d", n) }

func TestUsageFormsAreGolden(t *testing.T) {
	forms := map[string]*CountUsage{
		"usage_count": {
			Key: testUsage(), Used: []Used{{"rpm", 3000}, {"tpm", -500_000}}, Acquires: 2, TTL: 1_790_000_000,
			Shards: []CountedShard{{0, position(17), position(21)}, {1, position(19), position(19)}},
		},
		"usage_replay": {
			Key: testUsage(), Used: []Used{{"rpm", 1000}}, Acquires: 1, TTL: 1_790_000_000, Replay: "4711",
		},
	}
	for name, f := range forms {
		in := f.Input("tidegate")
		require.Equal(t, types.ReturnValuesOnConditionCheckFailureAllOld, in.ReturnValuesOnConditionCheckFailure)
		golden(t, name, form{
			Update: *in.UpdateExpression, Condition: *in.ConditionExpression,
			Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues),
		})
	}
}

// An expression may be 4 KB long, whatever a snapshot counts.
func TestTheLargestCountFitsAnExpression(t *testing.T) {
	f := CountUsage{Key: testUsage(), Acquires: 1, TTL: 1_790_000_000}
	for i := range MaxUsedLimits {
		f.Used = append(f.Used, Used{fmt.Sprintf("%s%02d", strings.Repeat("x", 62), i), 1 << 62})
	}
	for i := range 32 {
		f.Shards = append(f.Shards, CountedShard{i, position(1), position(2)})
	}
	in := f.Input("tidegate")
	require.LessOrEqual(t, len(*in.UpdateExpression), 4096)
	require.LessOrEqual(t, len(*in.ConditionExpression), 4096)
}

func TestUsageIsDecoded(t *testing.T) {
	key := testUsage()
	item := KeyItem(key.Key())
	putIndexes(item, key.Indexes())
	for name, v := range (Item{
		"u_rpm": number(3000), "u_ttl": number(-1), "u_tpm": &types.AttributeValueMemberN{Value: "1319413953331200000999"},
		"u_rpd": &types.AttributeValueMemberN{Value: "1E+23"}, "u_tpd": &types.AttributeValueMemberN{Value: "-99999999999999999999999"}, "u_hw_0": number(7), "total_events": number(2), "ttl": number(1_790_000_000),
		"hw_0": text(position(21)), "hw_31": text(position(19)), "replays": &types.AttributeValueMemberSS{Value: []string{"4711"}},
		"of_a_later_release": boolean(true),
	}) {
		item[name] = v
	}
	u, err := DecodeUsage(item)
	require.NoError(t, err)
	require.Equal(t, &Usage{
		Key: key, Acquires: 2,
		Used: []UsedTotal{
			{"hw_0", 0, 7}, {"rpd", math.MaxInt64, 0}, {"rpm", 3, 0}, {"tpd", math.MinInt64, 0}, {"tpm", 1_319_413_953_331_200_000, 999}, {"ttl", -1, 999},
		},
		Counted: map[int]string{0: position(21), 31: position(19)}, Replays: []string{"4711"}, TTL: 1_790_000_000,
	}, u)

	for _, broken := range []Item{
		{"u_rpm": text("many")},
		{"u_rpm": &types.AttributeValueMemberN{Value: "1.5"}},
		{"hw_x": text(position(1))},
		{"hw_0": number(1)},
		{"replays": text("4711")},
		{"total_events": text("2")},
		{"SK": text("#META")},
		{"SK": text("")},
	} {
		damaged := maps.Clone(item)
		maps.Copy(damaged, broken)
		_, err := DecodeUsage(damaged)
		require.ErrorIs(t, err, ErrDamaged, "%v", slices.Collect(maps.Keys(broken)))
	}
}
