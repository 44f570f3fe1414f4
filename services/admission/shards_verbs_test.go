package admission

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// dividedAndSpent has a bucket of 100 tokens a day over four shards, of which 60 were
// taken from all of them and 3 from one, and a node that knows of it.
func dividedAndSpent(t *testing.T) (*world, *node) {
	t.Helper()
	w := shardedWorld(t, 100, 4)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, rpmOf("e", 60)).Allowed)
	require.True(t, acquire(t, nc, rpmOf("e", 3)).Allowed)
	return w, n
}

func TestStatusSeesTheWholeOfADividedBucket(t *testing.T) {
	w, _ := dividedAndSpent(t)
	nc := w.nats.Connect(t)
	one := api.LimitStatus{Entity: "e", Name: "rpm", Capacity: 100, Available: 37}
	require.Equal(t, []api.LimitStatus{one}, ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4"}`).Limits)

	holds := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4","consume":{"rpm":37}}`)
	require.True(t, *holds.Allowed, "no shard holds it, all of them do")
	short := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4","consume":{"rpm":38}}`)
	require.False(t, *short.Allowed)
	require.Equal(t, acquire(t, nc, rpmOf("e", 38)).Limits[0].Available, short.Limits[0].Available)
	require.InDelta(t, 864_000, short.RetryAfterMs, 60_000, "a hundredth of a day")
	require.True(t, ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4","consume":{"rpm":101}}`).Never)
}

func TestStatusOfAnEntityListsADividedBucketOnce(t *testing.T) {
	w, _ := dividedAndSpent(t)
	status := ask[api.StatusReply](t, w.nats.Connect(t), api.VerbStatus, `{"entity":"e"}`)
	require.Equal(t, []api.LimitStatus{{Entity: "e", Resource: "gpt-4", Name: "rpm", Capacity: 100, Available: 37}}, status.Limits)
}

func TestCapacityCountsADividedBucketOnce(t *testing.T) {
	w, _ := dividedAndSpent(t)
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, rpmOf("other", 1)).Allowed)
	reply := ask[api.CapacityReply](t, nc, api.VerbCapacity, `{"resource":"gpt-4"}`)
	rows := map[string]api.EntityCapacity{}
	for _, row := range reply.Entities {
		rows[row.Entity] = row
	}
	require.Equal(t, map[string]api.EntityCapacity{
		"e":     {Entity: "e", Shards: 4, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 100, Available: 37}}},
		"other": {Entity: "other", Shards: 1, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 100, Available: 99}}},
	}, rows)
	require.Len(t, reply.Totals, 1)
	require.EqualValues(t, 2, reply.Totals[0].Entities)
	require.EqualValues(t, 200, reply.Totals[0].Capacity)
	require.EqualValues(t, 136, reply.Totals[0].Available)
}

// Listings of limits and entities are of configuration: shards are no part of it.
func TestListsDoNotMultiplyWithShards(t *testing.T) {
	w, _ := dividedAndSpent(t)
	nc := w.nats.Connect(t)
	ask[json.RawMessage](t, nc, api.VerbEntityCreate, `{"entity":"e"}`)
	require.Len(t, ask[api.EntityListReply](t, nc, api.VerbEntityList, `{}`).Entities, 1)
	require.Len(t, ask[api.LimitsListReply](t, nc, api.VerbLimitsList, `{}`).Levels, 1)
}

// A change of the family reaches every shard, and so does its end; what was spent
// stays spent, whoever owns the bucket.
func TestADeletedEntityLeavesItsDividedBucketWhole(t *testing.T) {
	w, _ := dividedAndSpent(t)
	nc := w.nats.Connect(t)
	family := func(parent string, cascade bool, spend int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			require.True(t, acquire(t, nc, rpmOf("e", 0)).Allowed)
			return slices.ContainsFunc(w.tree(t, "e"), func(b *table.Bucket) bool { return b.Parent == parent && b.Cascade == cascade })
		}, patience, time.Millisecond)
		require.True(t, acquire(t, nc, rpmOf("e", spend)).Allowed, "gathered: all shards are of the same settings")
		for _, b := range w.tree(t, "e") {
			require.Equal(t, parent, b.Parent, "shard %d", b.Key.Shard)
			require.Equal(t, cascade, b.Cascade)
		}
	}
	ask[json.RawMessage](t, nc, api.VerbEntityCreate, `{"entity":"acme"}`)
	ask[json.RawMessage](t, nc, api.VerbEntityCreate, `{"entity":"e","parent":"acme","cascade":true}`)
	family("acme", true, 20)
	ask[json.RawMessage](t, nc, api.VerbEntityDelete, `{"entity":"e"}`)
	family("", false, 15)
	require.InDelta(t, 2000, w.leftOf(t, "e", "rpm"), 100)
	require.InDelta(t, 80_000, w.leftOf(t, "acme", "rpm"), 100)
}

func TestAPurgeTakesEveryShard(t *testing.T) {
	w := newWorld(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	tenant(t, nc, "tenant-a", perDay("rpm", 1000))
	acquireIn(t, nc, "tenant-a")
	names := ask[api.CapacityReply](t, nc, api.VerbCapacity, `{"resource":"gpt-4"}`)
	require.Empty(t, names.Entities, "of another namespace")
	id := namespaceID(t, w, "tenant-a")
	key := keys.Bucket{Namespace: id, Entity: "api-key-123", Resource: "gpt-4"}
	for from := 1; from < 8; from *= 2 {
		_, err := w.divider().Double(t.Context(), key, from)
		require.NoError(t, err)
	}
	acquireIn(t, nc, "tenant-a")
	operate(t, nc, api.VerbNamespaceDelete, "tenant-a")
	for done := false; !done; {
		var reply api.NamespacePurgeReply
		require.NoError(t, json.Unmarshal(operate(t, nc, api.VerbNamespacePurge, "tenant-a"), &reply))
		done = reply.Done
	}
	tree, err := w.divider().Read(t.Context(), key, 0)
	require.NoError(t, err)
	require.Empty(t, tree)
}

func namespaceID(t *testing.T, w *world, name string) string {
	t.Helper()
	n := w.node(t, Tuning{})
	id, err := n.namespaces.Lookup(t.Context(), name, patience)
	require.NoError(t, err)
	return id
}

// What usage is counted from: the counters of all shards grow by what was spent, and
// a split or a merge moves none of them.
func TestCountersOfAllShardsTellWhatWasConsumed(t *testing.T) {
	w, _ := dividedAndSpent(t)
	sum := func() (tokens, acquires int64) {
		for _, b := range w.tree(t, "e") {
			tokens += events.Consumed(&events.Change[events.Bucket]{New: imageOf(b)})["rpm"]
			acquires += b.Acquires
		}
		return tokens, acquires
	}
	tokens, acquires := sum()
	require.EqualValues(t, 63_000, tokens)
	require.EqualValues(t, 3, acquires, "a gathered one counts once")
	before := w.tree(t, "e")
	w.divide(t, "e", 8)
	tokens, acquires = sum()
	require.EqualValues(t, 63_000, tokens)
	require.EqualValues(t, 3, acquires)
	w.merge(t, "e", 4)
	for i, b := range w.tree(t, "e") {
		require.Equal(t, before[i].Find("rpm").Consumed, b.Find("rpm").Consumed)
		require.Equal(t, before[i].Acquires, b.Acquires)
	}
}

// imageOf is a shard as the change feed shows it, as far as usage is concerned.
func imageOf(b *table.Bucket) *events.Bucket {
	image := &events.Bucket{ShardCount: b.Level, Acquires: b.Acquires}
	for _, l := range b.Limits {
		image.Limits = append(image.Limits, events.BucketLimit{Name: l.Name, Drawn: l.Drawn, Consumed: l.Consumed})
	}
	return image
}

// Shards come and go by load: the audit log tells of what people change alone.
func TestShardsAreNoMatterOfTheAuditLog(t *testing.T) {
	w, _ := dividedAndSpent(t)
	nc := w.nats.Connect(t)
	before := ask[api.AuditListReply](t, nc, api.VerbAuditList, `{"resource":"gpt-4"}`).Events
	require.NotEmpty(t, before)
	w.divide(t, "e", 8)
	w.merge(t, "e", 1)
	require.Equal(t, before, ask[api.AuditListReply](t, nc, api.VerbAuditList, `{"resource":"gpt-4"}`).Events)
	require.Empty(t, ask[api.AuditListReply](t, nc, api.VerbAuditList, `{"entity":"e"}`).Events)
}

// A reset forgives what was spent from all shards, and the audit log tells of it.
func TestAResetMakesADividedBucketFullAndWhole(t *testing.T) {
	w, _ := dividedAndSpent(t)
	w.forgets = true // a reset counts anew
	nc := w.nats.Connect(t)
	const bucket = `{"entity":"e","resource":"gpt-4"}`
	stored := ask[api.BucketReply](t, nc, api.VerbBucketGet, bucket)
	require.Len(t, stored.Shards, 4)
	require.EqualValues(t, 4, stored.Wanted)
	held, share := int64(0), int64(0)
	for _, s := range stored.Shards {
		held += s.Limits[0].Available
		share += s.Limits[0].Capacity
		require.NotZero(t, s.WriteUnits)
	}
	require.EqualValues(t, 100, share)
	require.InDelta(t, 37, held, 4, "rounded down in each")

	require.EqualValues(t, 4, ask[api.BucketResetReply](t, nc, api.VerbBucketReset, bucket).Shards)
	require.Empty(t, w.tree(t, "e"))
	require.Eventually(t, func() bool { return acquire(t, nc, rpmOf("e", 100)).Allowed }, patience, time.Millisecond, "full again")
	require.False(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
	require.Len(t, w.tree(t, "e"), 1)
	require.Len(t, ask[api.BucketReply](t, nc, api.VerbBucketGet, bucket).Shards, 1)

	all := ask[api.AuditListReply](t, nc, api.VerbAuditList, `{"entity":"e"}`).Events
	require.Len(t, all, 1)
	require.Equal(t, api.AuditBucketReset, all[0].Action)
	var before struct {
		Resource string
		api.BucketReply
	}
	require.NoError(t, json.Unmarshal(all[0].Before, &before))
	require.Equal(t, "gpt-4", before.Resource)
	require.Equal(t, stored.Shards, before.Shards)
	require.Empty(t, all[0].After)
}

// What is settled after a reset goes to the bucket as it is then.
func TestLeasesOfAResetBucketAreSettled(t *testing.T) {
	w := shardedWorld(t, 100, 4)
	w.forgets = true // a reset counts anew
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	given, more := acquire(t, nc, rpmOf("e", 2)), acquire(t, nc, rpmOf("e", 2))
	ask[api.BucketResetReply](t, nc, api.VerbBucketReset, `{"entity":"e","resource":"gpt-4"}`)
	ask[json.RawMessage](t, nc, api.VerbRelease, `{"lease":"`+given.Lease+`"}`)
	ask[json.RawMessage](t, nc, api.VerbAdjust, `{"lease":"`+more.Lease+`","deltas":{"rpm":5}}`)
	require.Eventually(t, func() bool {
		return ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4"}`).Limits[0].Available == 95
	}, patience, time.Millisecond)
}
