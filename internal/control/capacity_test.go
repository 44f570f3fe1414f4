package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	ns       = "AAAAAAAAAAA"
	otherNs  = "AAAAAAAAAAE"
	resource = "gpt-4"

	now = bucket.Instant(1_000_000_000)
)

type capacityFixture struct {
	*tabletest.Bench
	t     *testing.T
	store *control.Capacity
	other *config.LimitStore
}

func newCapacityFixture(t *testing.T) *capacityFixture {
	b := tabletest.New(t)
	return &capacityFixture{
		Bench: b, t: t, other: config.NewLimitStore(b.Direct, b.Table, audit.NewLog(b.Direct, b.Table, b.Now)),
		store: control.NewCapacity(b.DB, b.Table, func() (bucket.Instant, error) { return now, nil }),
	}
}

// rpm is a limit of so many tokens, and as many a day.
func rpmOf(tokens int64) api.Limit {
	return api.Limit{Name: "rpm", Capacity: tokens, RefillAmount: tokens, RefillPeriodSeconds: 86400}
}

func (f *capacityFixture) set(target api.LimitsTarget, ls ...api.Limit) {
	f.t.Helper()
	_, err := f.other.Set(f.t.Context(), ns, api.Principal{}, api.LimitsSetRequest{LimitsTarget: target, Limits: ls})
	require.NoError(f.t, err)
}

// shard is a shard's item on which each limit has so many tokens left.
func shard(namespace, entity, of string, s bucket.Shard, left int64, ls ...api.Limit) *table.Bucket {
	b := &table.Bucket{Key: keys.Bucket{Namespace: namespace, Entity: entity, Resource: of, Shard: s.Index}, Level: s.Count}
	for _, l := range config.BucketLimits(ls) {
		b.Limits = append(b.Limits, table.Limit{Limit: l, Drawn: l.Window(s, now).Refilled - left*bucket.Milli})
	}
	return b
}

func (f *capacityFixture) put(items ...*table.Bucket) {
	f.t.Helper()
	for chunk := range slices.Chunk(items, 25) {
		var writes []types.WriteRequest
		for _, b := range chunk {
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: table.EncodeBucket(b)}})
		}
		out, err := f.Direct.BatchWriteItem(f.t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{f.Table: writes}})
		require.NoError(f.t, err)
		require.Empty(f.t, out.UnprocessedItems)
	}
}

func (f *capacityFixture) remove(key keys.Bucket) {
	f.t.Helper()
	_, err := f.Direct.DeleteItem(f.t.Context(), &dynamodb.DeleteItemInput{TableName: &f.Table, Key: table.KeyItem(key.Key())})
	require.NoError(f.t, err)
}

// report reads all pages, n rows a page at most.
func (f *capacityFixture) report(n int64) api.CapacityReply {
	f.t.Helper()
	all := api.CapacityReply{Totals: api.CapacityTotals{}, Entities: []api.EntityCapacity{}}
	for req := (api.CapacityRequest{Resource: resource, Limit: n}); ; {
		reply, err := f.store.Page(f.t.Context(), ns, req)
		require.NoError(f.t, err)
		if n > 0 {
			require.LessOrEqual(f.t, len(reply.Entities), int(n))
		}
		var counted api.CapacityTotals
		for _, row := range reply.Entities {
			counted.Count(row.Limits)
		}
		require.Equal(f.t, append(api.CapacityTotals{}, counted...), reply.Totals, "the totals are those of the page's rows")
		all.Totals.Add(reply.Totals)
		all.Entities = append(all.Entities, reply.Entities...)
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			slices.SortFunc(all.Entities, func(a, b api.EntityCapacity) int { return strings.Compare(a.Entity, b.Entity) })
			return all
		}
	}
}

func row(entity string, shards, available, capacity int64) api.EntityCapacity {
	return api.EntityCapacity{Entity: entity, Shards: shards, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: capacity, Available: available}}}
}

func TestAnEntityCountsOnceWhateverItsShards(t *testing.T) {
	f := newCapacityFixture(t)
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
	f.put(
		shard(ns, "alice", resource, bucket.Whole(), 40, rpmOf(100)),
		shard(ns, "broke", resource, bucket.Whole(), 0, rpmOf(100)),
		shard(ns, "debtor", resource, bucket.Whole(), -7, rpmOf(100)),
		// A tree of three: shard 0 has split twice, shard 1 once.
		shard(ns, "split", resource, bucket.Shard{Index: 0, Count: 4}, 20, rpmOf(100)),
		shard(ns, "split", resource, bucket.Shard{Index: 1, Count: 2}, 30, rpmOf(100)),
		shard(ns, "split", resource, bucket.Shard{Index: 2, Count: 4}, -5, rpmOf(100)),
		// What no report may show.
		shard(ns, "alice", "gpt-5", bucket.Whole(), 1, rpmOf(100)),
		shard(ns, "alice", keys.OverrideResource(resource, "fp"), bucket.Whole(), 2, rpmOf(100)),
		shard(otherNs, "alice", resource, bucket.Whole(), 3, rpmOf(100)),
	)
	want := api.CapacityReply{
		Totals: api.CapacityTotals{{Name: "rpm", Entities: 4, Capacity: 400, Available: 85, Debt: 7, Exhausted: 2, InDebt: 1}},
		Entities: []api.EntityCapacity{
			row("alice", 1, 40, 100), row("broke", 1, 0, 100), row("debtor", 1, -7, 100), row("split", 3, 45, 100),
		},
	}
	for _, n := range []int64{0, 1, 3, api.MaxPage} {
		require.Equal(t, want, f.report(n), "by %d", n)
	}
}

// What is stored may be of limits from before: the report is of those that hold.
func TestTheLimitsAreThoseThatHoldNow(t *testing.T) {
	f := newCapacityFixture(t)
	tpm := api.Limit{Name: "tpm", Capacity: 50, RefillAmount: 50, RefillPeriodSeconds: 3600}
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(10), tpm)
	f.set(api.LimitsTarget{Entity: "own"}, rpmOf(200))
	f.set(api.LimitsTarget{Entity: "closer"}, rpmOf(200))
	f.set(api.LimitsTarget{Entity: "closer", Resource: resource}, rpmOf(300))
	removed := api.Limit{Name: "removed", Capacity: 5, RefillAmount: 5, RefillPeriodSeconds: 60}
	f.put(
		shard(ns, "lowered", resource, bucket.Whole(), 40, rpmOf(100), removed), // 40 left, but 10 are the most
		shard(ns, "own", resource, bucket.Whole(), 40, rpmOf(100)),              // raised: fills at its rate
		shard(ns, "closer", resource, bucket.Whole(), -3, rpmOf(100)),           // a debt stays
	)
	require.Equal(t, []api.EntityCapacity{
		row("closer", 1, -3, 300),
		{Entity: "lowered", Shards: 1, Limits: []api.LimitCapacity{
			{Name: "rpm", Capacity: 10, Available: 10},
			{Name: "tpm", Capacity: 50, Available: 50}, // new: full
		}},
		row("own", 1, 40, 200),
	}, f.report(0).Entities)
}

func TestWithoutLimitsThereIsNothingToSay(t *testing.T) {
	f := newCapacityFixture(t)
	require.Equal(t, api.CapacityReply{Totals: api.CapacityTotals{}, Entities: []api.EntityCapacity{}}, f.report(0))
	f.put(shard(ns, "alice", resource, bucket.Whole(), 1, rpmOf(5)))
	require.Equal(t, []api.EntityCapacity{{Entity: "alice", Shards: 1, Limits: []api.LimitCapacity{}}}, f.report(0).Entities)
}

// A set of shards that was read while they split is read again.
func TestShardsThatSplitMeanwhileAreReadAgain(t *testing.T) {
	f := newCapacityFixture(t)
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
	half := func(i int) *table.Bucket {
		return shard(ns, "alice", resource, bucket.Shard{Index: i, Count: 2}, 25, rpmOf(100))
	}
	f.put(half(0)) // shard 1 is on its way
	reads := 0
	var onRead func()
	onRead = func() {
		if reads++; reads == 4 { // what the index lists, the levels, both shards, and then again
			f.put(half(1))
			return
		}
		f.Before("BatchGetItem", onRead)
	}
	f.Before("BatchGetItem", onRead)
	require.Equal(t, []api.EntityCapacity{row("alice", 2, 50, 100)}, f.report(0).Entities)
	require.Equal(t, 4, f.Calls("BatchGetItem"))
}

func TestATreeThatStaysIncompleteIsNotCounted(t *testing.T) {
	f := newCapacityFixture(t)
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
	f.put(shard(ns, "torn", resource, bucket.Shard{Index: 0, Count: 2}, 25, rpmOf(100)), shard(ns, "alice", resource, bucket.Whole(), 5, rpmOf(100)))
	require.Equal(t, api.CapacityReply{
		Totals:   api.CapacityTotals{{Name: "rpm", Entities: 1, Capacity: 100, Available: 5}},
		Entities: []api.EntityCapacity{row("alice", 1, 5, 100), {Entity: "torn", Shards: 1, Limits: []api.LimitCapacity{}, Changing: true}},
	}, f.report(0))
}

// An entity of which an item cannot be decoded is named, on whichever page it is, and
// the others are counted.
func TestADamagedItemIsNamedAndTheOthersAreCounted(t *testing.T) {
	quarter := func(i int) *table.Bucket {
		return shard(ns, "hurt", resource, bucket.Shard{Index: i, Count: 4}, 10, rpmOf(100))
	}
	for name, damage := range tabletest.Damages() {
		for _, of := range []int{0, 3} {
			t.Run(fmt.Sprint(name, of), func(t *testing.T) {
				f := newCapacityFixture(t)
				f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
				f.put(shard(ns, "alice", resource, bucket.Whole(), 5, rpmOf(100)), shard(ns, "zoe", resource, bucket.Whole(), 7, rpmOf(100)))
				f.put(quarter(0), quarter(1), quarter(2), quarter(3))
				tabletest.Damage(t.Context(), t, f.Direct, f.Table, quarter(of).Key, damage)
				for _, n := range []int64{0, 1} {
					got := f.report(n)
					require.Equal(t, api.CapacityTotals{{Name: "rpm", Entities: 2, Capacity: 200, Available: 12}}, got.Totals)
					require.Len(t, got.Entities, 3)
					require.True(t, got.Entities[1].Damaged)
					require.Equal(t, "hurt", got.Entities[1].Entity)
					require.Empty(t, got.Entities[1].Limits)
				}
			})
		}
	}
}

// A config that is an entity's own concerns no other; one that all share is an error
// that no repetition ends.
func TestADamagedConfig(t *testing.T) {
	f := newCapacityFixture(t)
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
	f.set(api.LimitsTarget{Entity: "hurt"}, rpmOf(50))
	f.put(shard(ns, "alice", resource, bucket.Whole(), 5, rpmOf(100)), shard(ns, "hurt", resource, bucket.Whole(), 7, rpmOf(100)))
	damage := func(key keys.Key) {
		_, err := f.Direct.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &f.Table, Key: table.KeyItem(key), UpdateExpression: aws.String("SET l_rpm_cp = :text"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":text": &types.AttributeValueMemberS{Value: "none"}},
		})
		require.NoError(t, err)
	}
	damage(keys.EntityConfig{Namespace: ns, Entity: "hurt", Resource: keys.DefaultResource}.Key())
	got := f.report(0)
	require.Equal(t, row("alice", 1, 5, 100), got.Entities[0])
	require.True(t, got.Entities[1].Damaged)
	require.EqualValues(t, 1, got.Totals[0].Entities)

	damage(keys.ResourceConfig{Namespace: ns, Resource: resource}.Key())
	_, err := f.store.Page(t.Context(), ns, api.CapacityRequest{Resource: resource})
	require.ErrorIs(t, err, table.ErrDamaged)
}

// Rows of an index follow the table: one may lead to an item that is gone.
func TestBucketsThatExpiredMeanwhileArePassedOver(t *testing.T) {
	f := newCapacityFixture(t)
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
	f.put(shard(ns, "alice", resource, bucket.Whole(), 1, rpmOf(100)))
	f.Before("BatchGetItem", func() { f.remove(keys.Bucket{Namespace: ns, Entity: "alice", Resource: resource}) })
	require.Empty(t, f.report(0).Entities)
	require.Equal(t, 1, f.Calls("BatchGetItem"), "the index listed it")
}

func TestTenThousandEntities(t *testing.T) {
	f := newCapacityFixture(t)
	const entities = 10_000
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
	items := make([]*table.Bucket, entities)
	for i := range items {
		items[i] = shard(ns, fmt.Sprintf("e%05d", i), resource, bucket.Whole(), int64(i%100), rpmOf(100))
	}
	f.put(items...)
	reply := f.report(api.MaxPage)
	require.Len(t, reply.Entities, entities)
	for i, r := range reply.Entities {
		require.Equal(t, row(fmt.Sprintf("e%05d", i), 1, int64(i%100), 100), r)
	}
	require.Equal(t, api.CapacityTotals{{Name: "rpm", Entities: entities, Capacity: 100 * entities, Available: 99 * entities / 2, Exhausted: entities / 100}}, reply.Totals)
}

// A page must fit a NATS message of 1 MB, however many rows are asked for.
func TestAPageOfTheLargestRowsFitsAMessage(t *testing.T) {
	f := newCapacityFixture(t)
	var ls []api.Limit
	for i := range api.MaxLimits {
		ls = append(ls, api.Limit{Name: fmt.Sprintf("l%063d", i), Capacity: api.MaxAmount, RefillAmount: api.MaxRate * 86400, RefillPeriodSeconds: api.MaxPeriodSeconds})
	}
	f.set(api.LimitsTarget{System: true}, ls...)
	const entities = 500
	items := make([]*table.Bucket, entities)
	for i := range items {
		items[i] = shard(ns, fmt.Sprintf("e%0255d", i), resource, bucket.Whole(), -1<<39, ls...)
	}
	f.put(items...)
	found := 0
	for req := (api.CapacityRequest{Resource: resource, Limit: api.MaxPage}); ; {
		reply, err := f.store.Page(t.Context(), ns, req)
		require.NoError(t, err)
		encoded, err := json.Marshal(reply)
		require.NoError(t, err)
		require.Less(t, len(encoded), 1<<20)
		found += len(reply.Entities)
		if req.Cursor = reply.Cursor; reply.Cursor == "" {
			break
		}
	}
	require.Equal(t, entities, found)
}

func TestBadRequestsOfCapacityReadNothing(t *testing.T) {
	f := newCapacityFixture(t)
	for name, c := range map[string]struct {
		req  api.CapacityRequest
		code api.Code
	}{
		"no resource":     {api.CapacityRequest{}, api.CodeInvalidResource},
		"a bad resource":  {api.CapacityRequest{Resource: "a\tb"}, api.CodeInvalidResource},
		"a negative page": {api.CapacityRequest{Resource: resource, Limit: -1}, api.CodeInvalidAmount},
		"a large page":    {api.CapacityRequest{Resource: resource, Limit: api.MaxPage + 1}, api.CodeInvalidAmount},
		"another's":       {api.CapacityRequest{Resource: resource, Cursor: "eyJzIjowLCJwIjoieCJ9"}, api.CodeInvalidCursor},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.store.Page(t.Context(), ns, c.req)
			var refusal *api.Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, c.code, refusal.Code)
		})
	}
	require.Zero(t, f.Calls(""))
}

func TestOutagesAreTold(t *testing.T) {
	f := newCapacityFixture(t)
	f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
	f.put(shard(ns, "alice", resource, bucket.Whole(), 1, rpmOf(100)))
	for operation, faults := range map[string][]fault.Fault{
		"Query":        {fault.InternalError()},
		"BatchGetItem": {{}, fault.InternalError()},
	} {
		f.Fail(operation, faults...)
		_, err := f.store.Page(t.Context(), ns, api.CapacityRequest{Resource: resource})
		require.ErrorContains(t, err, "report the capacity of resource gpt-4", operation)
	}
	failing := control.NewCapacity(f.DB, f.Table, func() (bucket.Instant, error) { return 0, errors.New("the time is not known") })
	_, err := failing.Page(t.Context(), ns, api.CapacityRequest{Resource: resource})
	require.ErrorContains(t, err, "the time is not known")
}
