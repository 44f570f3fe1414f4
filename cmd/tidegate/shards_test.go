package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// TestBucketsByHand looks at a bucket and makes it full again.
func TestBucketsByHand(t *testing.T) {
	t.Parallel()
	s := share(t)
	env := s.environment()
	text := transcript(t, env,
		"shards key-1 gpt-4 --over 10ms",
		"bucket reset key-1 gpt-4",
		"limits set --resource gpt-4 rpm=10/520week tpm=1000/520week",
		"acquire key-1 gpt-4 rpm=4 tpm=250",
		"shards key-1 gpt-4 --over 10ms",
		"bucket reset key-1 gpt-4",
		"status key-1 gpt-4",
		"shards key-1 gpt-4 --over 10ms --json",
		"bucket reset key-1 gpt-4 --json",
	)
	golden(t, "shards.txt", s.placeless(steady(text)))
}

func TestShardsAsATable(t *testing.T) {
	shard := func(number, level, units, available int64) api.BucketShard {
		return api.BucketShard{Shard: number, Level: level, WriteUnits: units, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 100 / level, Available: available}}}
	}
	before := api.BucketReply{AtMs: 5000, Wanted: 2, Shards: []api.BucketShard{shard(0, 2, 1000, 50), shard(1, 2, 40, 50)}}
	after := api.BucketReply{AtMs: 7000, Wanted: 4, Shards: []api.BucketShard{shard(0, 4, 2700, 20), shard(1, 2, 40, -3), shard(2, 4, 5, 25)}}
	after.Shards[2].Limits = append(after.Shards[2].Limits, api.LimitCapacity{Name: "tpm", Capacity: 7, Available: 7})
	var text page
	printShards(&text, "key-1", "gpt-4", rates(before, after))
	text.line("")
	printShards(&text, "key-1", "gpt-4", rates(after, before)) // merged meanwhile, and split again
	after.Wanted = 2
	text.line("")
	printShards(&text, "key-1", "gpt-4", rates(before, after))
	after.Wanted, after.Limits = 4, []api.LimitCapacity{{Name: "rpm", Capacity: 100, Available: 42}}
	text.line("")
	printShards(&text, "key-1", "gpt-4", rates(before, after))
	text.line("")
	printShards(&text, "key-1", "gpt-4", rates(before, api.BucketReply{Wanted: 2, Shards: before.Shards[1:], Damaged: []int64{0, 3}}))
	text.line("")
	printShards(&text, "key-1", "gpt-4", rates(before, api.BucketReply{Wanted: 1, Damaged: []int64{0}}))
	golden(t, "shards_table.txt", text.String())
	require.Nil(t, rates(after, after).Shards[0].WritesPerSecond, "no time has passed")
}
