package config

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// fill puts n buckets of one entity each into a namespace.
func fill(t *testing.T, b *tabletest.Bench, id string, n int) {
	t.Helper()
	for i := range n {
		put := (&table.Create{Bucket: &table.Bucket{
			Key: keys.Bucket{Namespace: id, Entity: fmt.Sprintf("e%d", i), Resource: "gpt-4"}, Level: 1, LastWrite: "n",
		}}).Input(b.Table)
		_, err := b.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: put.Item})
		require.NoError(t, err)
	}
}

// deleted makes a namespace with n buckets, deletes it, and returns its id.
func deleted(t *testing.T, b *tabletest.Bench, n int) string {
	t.Helper()
	direct := operator(b, b.Direct)
	made, err := direct.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	fill(t, b, made.ID, n)
	_, err = direct.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	return made.ID
}

// finish purges until nothing is left, and returns how many steps it took and
// how many items they removed.
func finish(t *testing.T, r *NamespaceOperator) (steps int, removed int64) {
	t.Helper()
	for {
		reply, err := r.Purge(t.Context(), "tenant-a", alice())
		require.NoError(t, err)
		steps++
		if removed += reply.Deleted; reply.Done {
			require.Zero(t, reply.Remaining)
			return steps, removed
		}
	}
}

func TestAPurgeRemovesEverythingAndNothingElse(t *testing.T) {
	b, r := newNamespaceOperator(t)
	other, err := r.Create(t.Context(), "tenant-b", alice())
	require.NoError(t, err)
	fill(t, b, other.ID, 30)
	untouched := everything(t, b)
	id := deleted(t, b, 2*purgeItems+10)

	reply, err := r.Purge(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.Equal(t, api.NamespacePurgeReply{Deleted: purgeItems, Remaining: purgeItems + 10}, reply, "the version record goes first, and is not counted")
	steps, removed := finish(t, r)
	require.Equal(t, 3, steps)
	require.EqualValues(t, purgeItems+10, removed)
	require.ElementsMatch(t, untouched, everything(t, b))

	_, err = r.Purge(t.Context(), "tenant-a", alice())
	requireCode(t, api.CodeUnknownNamespace, err)
	again, err := r.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.NotEqual(t, id, again.ID)
}

// What a writer that had not heard of it leaves behind belongs to nobody: the
// name has another id.
func TestALateWriterBringsNothingBack(t *testing.T) {
	b, r := newNamespaceOperator(t)
	id := deleted(t, b, 3)
	finish(t, r)
	fill(t, b, id, 3)
	again, err := r.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	found, err := r.Lookup(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.Equal(t, again.ID, found)
	require.NotEqual(t, id, found)
	for _, partition := range keys.PurgePartitions(again.ID) {
		out, err := b.Direct.Query(t.Context(), table.QueryInput(b.Table, 4, keys.Query{PK: partition, SKPrefix: "BUCKET"}))
		require.NoError(t, err)
		require.Empty(t, out.Items)
	}
}

func TestAPurgeThatHasBegunCanOnlyBeFinished(t *testing.T) {
	b, r := newNamespaceOperator(t)
	deleted(t, b, purgeItems+1)
	_, err := r.Purge(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	n, err := r.Get(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.Equal(t, api.NamespacePurging, n.State)
	_, err = r.Recover(t.Context(), "tenant-a", alice())
	requireCode(t, api.CodeConflict, err)
	_, err = r.Create(t.Context(), "tenant-a", alice())
	requireCode(t, api.CodeConflict, err)
	require.ErrorContains(t, err, "being purged")
	_, err = r.Lookup(t.Context(), "tenant-a")
	requireCode(t, api.CodeUnknownNamespace, err)
	require.NotContains(t, err.Error(), "recover")

	finish(t, operator(b, b.DB)) // by another node
	_, err = r.Get(t.Context(), "tenant-a")
	requireCode(t, api.CodeUnknownNamespace, err)
}

// Wherever a purge is broken off, whether what it asked for was done or not,
// asking again finishes it.
func TestAPurgeBrokenOffAnywhereIsFinished(t *testing.T) {
	for _, operation := range []string{"GetItem", "TransactWriteItems", "Query", "BatchWriteItem"} {
		for name, f := range map[string]fault.Fault{
			"failed": fault.InternalError(), "failed but applied": fault.InternalErrorAfter(), "throttled": fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange}),
		} {
			t.Run(operation+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, r := newNamespaceOperator(t)
					deleted(t, b, 60)
					before := everything(t, b)
					for n := 0; n < 40; n += 3 { // the n-th request of the operation meets the fault
						b.Fail(operation, append(make([]fault.Fault, n), f)...)
						reply, err := r.Purge(t.Context(), "tenant-a", alice())
						if err == nil && reply.Done || isUnknownNamespace(err) {
							break
						}
						require.LessOrEqual(t, len(everything(t, b)), len(before))
					}
					for {
						reply, err := r.Purge(t.Context(), "tenant-a", alice())
						if isUnknownNamespace(err) || (err == nil && reply.Done) {
							break
						}
					}
					require.Empty(t, everything(t, b))
				})
			})
		}
	}
}

// An index that does not yet show what the table has is looked at again.
func TestAPurgeWaitsForTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newNamespaces(t)
		o := patientOperator(b, b.DB)
		id := deleted(t, b, 0)
		finish := func() api.NamespacePurgeReply {
			reply, err := o.Purge(t.Context(), "tenant-a", alice())
			require.NoError(t, err)
			return reply
		}
		time.AfterFunc(table.IndexLag-1, func() { fill(t, b, id, 2) }) // what was written before appears late
		require.Equal(t, api.NamespacePurgeReply{Deleted: 2}, finish())
		require.True(t, finish().Done)
		require.Empty(t, everything(t, b))
	})
}

// Every step of a purge ends within the time that a caller gives it by default, although
// each call of the store takes 40 ms.
func TestAStepOfAPurgeFitsTheTimeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newNamespaces(t)
		o := patientOperator(b, b.DB)
		deleted(t, b, purgeItems)
		b.Faults.Match(func(string, []byte) fault.Fault { return fault.Fault{Delay: 40 * time.Millisecond} })
		for done := false; !done; {
			ctx, cancel := context.WithTimeout(t.Context(), api.DefaultTimeout)
			reply, err := o.Purge(ctx, "tenant-a", alice())
			cancel()
			require.NoError(t, err)
			done = reply.Done
		}
		require.Empty(t, everything(t, b))
	})
}

// An index that is behind its table hides what was written a moment ago, and shows what
// was deleted: a purge leaves nothing, and comes to its end.
func TestAPurgeLeavesNothingThatTheIndexHides(t *testing.T) {
	for range 12 {
		synctest.Test(t, func(t *testing.T) {
			b := tabletest.Stale(t, time.Now, table.IndexLag)
			o := patientOperator(b, b.DB)
			made, err := o.Create(t.Context(), "tenant-a", alice())
			require.NoError(t, err)
			version := keys.Version{Namespace: made.ID} // the bucket alone is to be found
			_, err = b.Direct.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &b.Table, Key: table.KeyItem(version.Key())})
			require.NoError(t, err)
			put := (&table.Create{Bucket: &table.Bucket{
				Key: keys.Bucket{Namespace: made.ID, Entity: "e", Resource: "gpt-4"}, Level: 1, LastWrite: "n",
			}}).Input(b.Table)
			_, err = b.DB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: put.Item})
			require.NoError(t, err)
			_, err = o.Delete(t.Context(), "tenant-a", alice())
			require.NoError(t, err)
			for done := false; !done; {
				time.Sleep(table.IndexLag / 10) // the way of a request
				reply, err := o.Purge(t.Context(), "tenant-a", alice())
				require.NoError(t, err)
				done = reply.Done
			}
			require.Empty(t, everything(t, b))
		})
	}
}

// An item that the index lists in a foreign namespace is not removed.
func TestAPurgeRemovesNoForeignItem(t *testing.T) {
	b, r := newNamespaceOperator(t)
	id := deleted(t, b, 0)
	item := table.KeyItem(keys.Version{Namespace: "AAAAAAAAAAA"}.Key())
	for k, v := range table.EncodeVersion(keys.Version{Namespace: id}, 1) {
		if _, isKey := item[k]; !isKey {
			item[k] = v
		}
	}
	_, err := b.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: item})
	require.NoError(t, err)
	_, err = r.Purge(t.Context(), "tenant-a", alice())
	require.ErrorIs(t, err, table.ErrDamaged)
	require.NotEmpty(t, storedItem(t, b, keys.Version{Namespace: "AAAAAAAAAAA"}.Key()))
}
