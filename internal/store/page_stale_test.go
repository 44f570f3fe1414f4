package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
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
	ns  = "AAAAAAAAAAA"
	lag = table.IndexLag
)

// lists are all readers of indexes that answer with pages: each gives the names on one
// page, and the cursor of the next.
func lists(b *tabletest.Bench, log *audit.Log) map[string]func(ctx context.Context, cursor string) ([]string, string, error) {
	family, levels := config.NewEntityStore(b.DB, b.Table, log), config.NewLimitStore(b.DB, b.Table, log)
	now := func() (bucket.Instant, error) { return bucket.At(time.Now()), nil }
	held := control.NewCapacity(b.DB, b.Table, now)
	return map[string]func(ctx context.Context, cursor string) ([]string, string, error){
		"children": func(ctx context.Context, cursor string) (found []string, next string, err error) {
			reply, err := family.Children(ctx, ns, api.EntityChildrenRequest{ID: "team", EntityListRequest: api.EntityListRequest{Cursor: cursor, Limit: 3}})
			for _, e := range reply.Entities {
				found = append(found, e.ID)
			}
			return found, reply.Cursor, err
		},
		"entities": func(ctx context.Context, cursor string) (found []string, next string, err error) {
			reply, err := family.List(ctx, ns, api.EntityListRequest{Cursor: cursor, Limit: 3})
			for _, e := range reply.Entities {
				if e.ID != "team" {
					found = append(found, e.ID)
				}
			}
			return found, reply.Cursor, err
		},
		"limits of a resource": func(ctx context.Context, cursor string) (found []string, next string, err error) {
			reply, err := levels.List(ctx, ns, api.LimitsListRequest{LimitsTarget: api.LimitsTarget{Resource: "gpt-4"}, Cursor: cursor, Limit: 3})
			for _, l := range reply.Levels {
				found = append(found, l.Entity)
			}
			return found, reply.Cursor, err
		},
		"all limits": func(ctx context.Context, cursor string) (found []string, next string, err error) {
			reply, err := levels.List(ctx, ns, api.LimitsListRequest{Cursor: cursor, Limit: 3})
			for _, l := range reply.Levels {
				found = append(found, l.Entity)
			}
			return found, reply.Cursor, err
		},
		"capacity": func(ctx context.Context, cursor string) (found []string, next string, err error) {
			reply, err := held.Page(ctx, ns, api.CapacityRequest{Resource: "gpt-4", Cursor: cursor, Limit: 3})
			for _, e := range reply.Entities {
				found = append(found, e.Entity)
			}
			return found, reply.Cursor, err
		},
	}
}

// member makes an entity with limits of its own and a bucket, or takes all of it away.
func member(t *testing.T, b *tabletest.Bench, log *audit.Log, id string, there bool) {
	t.Helper()
	family, levels := config.NewEntityStore(b.DB, b.Table, log), config.NewLimitStore(b.DB, b.Table, log)
	target := api.LimitsTarget{Entity: id, Resource: "gpt-4"}
	key := keys.Bucket{Namespace: ns, Entity: id, Resource: "gpt-4"}
	var errs [3]error
	if there {
		_, errs[0] = family.Create(t.Context(), ns, api.Principal{}, api.EntityCreateRequest{ID: id, Parent: "team"})
		_, errs[1] = levels.Set(t.Context(), ns, api.Principal{}, api.LimitsSetRequest{
			LimitsTarget: target, Limits: []api.Limit{{Name: "rpm", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 1}},
		})
		_, errs[2] = b.DB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: table.EncodeBucket(&table.Bucket{Key: key, Level: 1, LastWrite: "n"})})
	} else {
		errs[0] = family.Delete(t.Context(), ns, api.Principal{}, api.EntityDeleteRequest{ID: id})
		errs[1] = levels.Delete(t.Context(), ns, api.Principal{}, api.LimitsDeleteRequest{LimitsTarget: target})
		_, errs[2] = b.DB.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &b.Table, Key: table.KeyItem(key.Key())})
	}
	require.NoError(t, errors.Join(errs[:]...))
}

// An index that is behind its table hides what was written a moment ago, and shows what
// was taken away. Every list has each of the others once, none that is gone, and, when the
// index has followed, all.
func TestListsUnderStaleReads(t *testing.T) {
	for range 6 {
		synctest.Test(t, func(t *testing.T) {
			b := tabletest.Stale(t, time.Now, lag)
			log := audit.NewLog(b.DB, b.Table, b.Now)
			_, err := config.NewEntityStore(b.DB, b.Table, log).Create(t.Context(), ns, api.Principal{}, api.EntityCreateRequest{ID: "team"})
			require.NoError(t, err)
			state := map[string]bool{} // of a moment ago: whether it is there
			settled := map[string]bool{}
			for i := range 10 {
				settled[fmt.Sprint("settled", i)] = true
				member(t, b, log, fmt.Sprint("settled", i), true)
				member(t, b, log, fmt.Sprint("gone", i), true)
			}
			time.Sleep(2 * lag)
			for i := range 5 {
				member(t, b, log, fmt.Sprint("gone", i), false)
				member(t, b, log, fmt.Sprint("new", i), true)
				state[fmt.Sprint("new", i)] = true
				time.Sleep(lag / 20)
			}
			for i := 5; i < 10; i++ {
				settled[fmt.Sprint("gone", i)] = true
			}
			for name, list := range lists(b, log) {
				all := func() map[string]int {
					seen := map[string]int{}
					for cursor := ""; ; {
						found, next, err := list(t.Context(), cursor)
						require.NoError(t, err, name)
						for _, id := range found {
							seen[id]++
							require.Equal(t, 1, seen[id], "%s: %s is there twice", name, id)
							require.True(t, settled[id] || state[id], "%s: %s is gone", name, id)
						}
						if cursor = next; next == "" {
							return seen
						}
					}
				}
				seen := all()
				for id := range settled {
					require.Contains(t, seen, id, name)
				}
			}
			time.Sleep(2 * lag)
			for name, list := range lists(b, log) {
				n := 0
				for cursor := ""; ; {
					found, next, err := list(t.Context(), cursor)
					require.NoError(t, err)
					if n += len(found); next == "" {
						break
					}
					cursor = next
				}
				require.Equal(t, len(settled)+len(state), n, name)
			}
		})
	}
}

// Lists over all partitions of an index end within the time that a caller gives them by
// default, although each call of the store takes 80 ms.
func TestListsOfManyPartitionsFitTheTimeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tabletest.Stale(t, time.Now, lag)
		log := audit.NewLog(b.DB, b.Table, b.Now)
		_, err := config.NewEntityStore(b.DB, b.Table, log).Create(t.Context(), ns, api.Principal{}, api.EntityCreateRequest{ID: "team"})
		require.NoError(t, err)
		for i := range 3 {
			member(t, b, log, fmt.Sprint("e", i), true)
		}
		time.Sleep(2 * lag)
		b.Faults.Match(func(string, []byte) fault.Fault { return fault.Fault{Delay: 80 * time.Millisecond} })
		for name, list := range lists(b, log) {
			ctx, cancel := context.WithTimeout(t.Context(), api.DefaultTimeout)
			_, _, err := list(ctx, "")
			cancel()
			require.NoError(t, err, name)
		}
	})
}
