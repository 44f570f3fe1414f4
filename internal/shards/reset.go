package shards

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Show is a bucket as the wire tells of it, at a moment.
func (t Tree) Show(now bucket.Instant) api.BucketReply {
	reply := api.BucketReply{AtMs: now.Time().UnixMilli(), Wanted: int64(t.Wanted()), Shards: []api.BucketShard{}}
	for _, b := range t {
		s := api.BucketShard{Shard: int64(b.Key.Shard), Level: int64(b.Level), WriteUnits: b.WriteUnits, Limits: []api.LimitCapacity{}}
		for i := range b.Limits {
			l := &b.Limits[i]
			w := l.Window(b.Shard(), now)
			s.Limits = append(s.Limits, api.LimitCapacity{
				Name: l.Name, Capacity: bucket.Floor(w.Capacity), Available: bucket.Floor(w.Balance(l.Drawn)),
			})
		}
		reply.Shards = append(reply.Shards, s)
	}
	return reply
}

// Operator shows buckets to people, and changes them for them. It is safe for
// concurrent use.
type Operator struct {
	store *Store
	log   *audit.Log
}

// NewOperator returns an operator whose changes are audited.
func NewOperator(s *Store, log *audit.Log) *Operator { return &Operator{store: s, log: log} }

// Look reads a bucket to show it.
func (o *Operator) Look(ctx context.Context, key keys.Bucket) (api.BucketReply, error) {
	tree, err := o.store.Read(ctx, key, 0)
	if err != nil {
		return api.BucketReply{}, err
	}
	now, err := o.store.now() // later than what was read: a balance before its last spend would look like debt
	if err != nil {
		return api.BucketReply{}, err
	}
	return tree.Show(now), nil
}

// resetBefore is what an audit event tells of a bucket that was reset.
type resetBefore struct {
	Resource string `json:"resource"`
	api.BucketReply
}

// errNothing ends a change that has nothing to do.
var errNothing = errors.New("there is nothing to change")

// Reset makes a bucket full and whole again, by taking all its shards away in one
// transaction with the audit event of it: a bucket that is not there is full. What
// was spent from it and is given back later is dropped, unless the bucket is
// there again. It returns how many shards there were; where there were none, nothing
// is done. It takes away also what is no whole tree, which nothing else can mend.
func (o *Operator) Reset(ctx context.Context, by api.Principal, key keys.Bucket) (shards int, err error) {
	err = o.log.Apply(ctx, audit.Change{
		Namespace: key.Namespace, By: by, Action: api.AuditBucketReset, Target: key.Entity,
		Plan: func(ctx context.Context) (audit.Plan, error) {
			tree, err := o.store.Read(ctx, key, 0)
			if errors.Is(err, ErrUnsettled) {
				tree, err = o.store.readShards(ctx, key, bucket.MaxShards)
			}
			if err != nil {
				return audit.Plan{}, err
			}
			if shards = len(tree); shards == 0 {
				return audit.Plan{}, errNothing
			}
			now, err := o.store.now()
			if err != nil {
				return audit.Plan{}, err
			}
			return audit.Plan{Writes: removals(o.store.table, tree), Before: resetBefore{key.Resource, tree.Show(now)}}, nil
		},
	})
	if err != nil && !errors.Is(err, errNothing) {
		return 0, fmt.Errorf("reset %s: %w", key.Key().PK, err)
	}
	return shards, nil
}

// removals take all shards away, unless one of them has split or merged since.
func removals(tableName string, tree Tree) []types.TransactWriteItem {
	writes := make([]types.TransactWriteItem, len(tree))
	for i, b := range tree {
		writes[i] = table.RemoveShard(tableName, b)
	}
	return writes
}
