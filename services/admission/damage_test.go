package admission

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// leniently is an acquire that is to be admitted while the store cannot be reached.
func leniently(entity string) string {
	return fmt.Sprintf(`{"entity":%q,"resource":"gpt-4","consume":{"rpm":1},"on_unavailable":"allow"}`, entity)
}

func (w *world) damage(t *testing.T, key keys.Bucket, expression string) {
	t.Helper()
	w.forgets = true // with the item, what it has counted
	tabletest.Damage(t.Context(), t, w.client, w.table, key, expression)
}

// An item that cannot be decoded is no outage: its bucket alone answers internal, under
// every policy, from nodes that knew it and nodes that did not, until it is reset.
func TestADamagedItemIsNoOutage(t *testing.T) {
	for name, damage := range tabletest.Damages() {
		for _, count := range []int{1, 4} {
			for _, knows := range []bool{true, false} {
				t.Run(fmt.Sprint(name, " of ", count, " shards, known before: ", knows), func(t *testing.T) {
					w := shardedWorld(t, 100, count)
					n := w.node(t, Tuning{})
					nc := w.nats.Connect(t)
					if knows {
						require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
					}
					w.damage(t, w.bucketKey("e"), damage)
					n.router.member(w.bucketKey("e")).bucket().forgetTree()

					for range 3 {
						e := refused(t, nc, api.VerbAcquire, leniently("e"), patience)
						require.Equal(t, api.CodeInternal, e.Code, e.Message)
					}
					require.True(t, acquire(t, nc, leniently("other")).Allowed)
					require.Equal(t, api.CodeInternal, refused(t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4"}`, patience).Code)

					reset := ask[api.BucketResetReply](t, nc, api.VerbBucketReset, `{"entity":"e","resource":"gpt-4"}`)
					require.EqualValues(t, count, reset.Shards)
					require.Eventually(t, func() bool {
						m := send(t, nc, api.VerbAcquire, leniently("e"), patience)
						return m.Header.Get(api.HeaderErrorCode) == ""
					}, patience, time.Millisecond)
					after := acquire(t, nc, leniently("e"))
					require.True(t, after.Allowed)
					require.False(t, after.Degraded)
				})
			}
		}
	}
}

// A shard that somebody took away leaves a set that is no whole bucket, which no node
// can mend either.
func TestAMissingShardIsNoOutage(t *testing.T) {
	w := shardedWorld(t, 100, 2)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	key := w.bucketKey("e")
	key.Shard = 1
	_, err := w.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.table, Key: table.KeyItem(key.Key())})
	require.NoError(t, err)
	require.Equal(t, api.CodeInternal, refused(t, nc, api.VerbAcquire, leniently("e"), patience).Code)
	require.EqualValues(t, 1, ask[api.BucketResetReply](t, nc, api.VerbBucketReset, `{"entity":"e","resource":"gpt-4"}`).Shards)
}

// A write whose reply is lost, on an item that cannot be decoded afterwards, admits
// nobody; nor does an acquire whose parent's item is damaged.
func TestADamagedItemAdmitsNobodyWhateverBecomesOfTheWrite(t *testing.T) {
	for name, lost := range map[string]fault.Fault{
		"reply lost":          {Kind: fault.ReplyLost},
		"failed, but applied": fault.InternalErrorAfter(),
		"failed":              fault.InternalError(),
		"refused or applied":  {},
	} {
		for damaged, damage := range tabletest.Damages() {
			t.Run(name+", "+damaged, func(t *testing.T) {
				w := shardedWorld(t, 100, 1)
				n := w.node(t, Tuning{})
				nc := w.nats.Connect(t)
				require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
				w.damage(t, w.bucketKey("e"), damage)
				n.faults.Match(func(operation string, _ []byte) fault.Fault {
					if operation == "UpdateItem" {
						return lost
					}
					return fault.Fault{}
				})
				require.Equal(t, api.CodeInternal, refused(t, nc, api.VerbAcquire, leniently("e"), patience).Code)
			})
		}
	}
}

func TestADamagedParentIsNoOutage(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 100))
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	ask[json.RawMessage](t, nc, api.VerbEntityCreate, `{"entity":"acme"}`)
	ask[json.RawMessage](t, nc, api.VerbEntityCreate, `{"entity":"e","parent":"acme","cascade":true}`)
	require.True(t, acquire(t, nc, leniently("e")).Allowed)
	w.damage(t, w.bucketKey("acme"), tabletest.Damages()["a wrong type"])
	for range 2 {
		require.Equal(t, api.CodeInternal, refused(t, nc, api.VerbAcquire, leniently("e"), patience).Code)
	}
	require.EqualValues(t, 99_000, w.item(t, "e", "gpt-4").Find("rpm").Capacity-w.item(t, "e", "gpt-4").Find("rpm").Consumed, "the child has its tokens back")
}

// The status of an entity answers for the other buckets and names the one it cannot.
func TestStatusOfAnEntityNamesADamagedBucket(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	for _, resource := range []string{"gpt-4", "gpt-5", "gpt-6"} {
		require.True(t, acquire(t, nc, fmt.Sprintf(`{"entity":"e","resource":%q,"consume":{"rpm":3}}`, resource)).Allowed)
	}
	w.damage(t, keys.Bucket{Namespace: w.ns, Entity: "e", Resource: "gpt-5"}, tabletest.Damages()["a missing attribute"])
	status := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e"}`)
	require.Equal(t, []string{"gpt-5"}, status.Damaged)
	require.Equal(t, []api.LimitStatus{
		{Entity: "e", Resource: "gpt-4", Name: "rpm", Capacity: 100, Available: 97},
		{Entity: "e", Resource: "gpt-6", Name: "rpm", Capacity: 100, Available: 97},
	}, status.Limits)
}

// Limits that cannot be decoded are no outage either.
func TestADamagedConfigIsNoOutage(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 100))
	key := keys.ResourceConfig{Namespace: w.ns, Resource: "gpt-4"}.Key()
	_, err := w.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.table, Key: table.KeyItem(key), UpdateExpression: aws.String("SET l_rpm_cp = :text"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":text": &types.AttributeValueMemberS{Value: "none"}},
	})
	require.NoError(t, err)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.Equal(t, api.CodeInternal, refused(t, nc, api.VerbAcquire, leniently("e"), patience).Code)
	require.Equal(t, api.CodeInternal, refused(t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4"}`, patience).Code)
}
