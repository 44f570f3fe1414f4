package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Show returns a bucket at a moment as the wire shows it.
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

// total returns the sums of the balances of all shards, if all shards have the same
// settings.
func (t Tree) total(now bucket.Instant) []api.LimitCapacity {
	zero := t.Find(0)
	if zero == nil || !t.Whole() || !t.Synced(zero.Fingerprint) {
		return nil
	}
	var total []api.LimitCapacity
	for i := range zero.Limits {
		l := &zero.Limits[i]
		if pool := t.Pool(l.Name); pool.Complete() {
			total = append(total, api.LimitCapacity{
				Name: l.Name, Capacity: bucket.Floor(l.Capacity), Available: bucket.Floor(pool.Available(now)),
			})
		}
	}
	return total
}

// Operator shows and resets buckets for operators. It is safe for concurrent use.
type Operator struct {
	store *Store
	log   *audit.Log
}

// NewOperator returns an operator that audits its changes.
func NewOperator(s *Store, log *audit.Log) *Operator { return &Operator{store: s, log: log} }

// Describe reads a bucket for display. It names shards that cannot be decoded.
func (o *Operator) Describe(ctx context.Context, key keys.Bucket) (api.BucketReply, error) {
	tree, damaged, err := o.read(ctx, key, table.ErrDamaged)
	if err != nil {
		return api.BucketReply{}, err
	}
	return o.show(tree, damaged)
}

// read reads a bucket. If that fails for one of the given reasons, it reads all
// shards that can be decoded.
func (o *Operator) read(ctx context.Context, key keys.Bucket, mendable ...error) (tree Tree, damaged []int, err error) {
	tree, err = o.store.Read(ctx, key, 0)
	if slices.ContainsFunc(mendable, func(reason error) bool { return errors.Is(err, reason) }) {
		return o.store.readLegible(ctx, key)
	}
	return tree, nil, err
}

func (o *Operator) show(tree Tree, damaged []int) (api.BucketReply, error) {
	now, err := o.store.now() // later than what was read: a balance before its last spend would look like debt
	if err != nil {
		return api.BucketReply{}, err
	}
	reply := tree.Show(now)
	if len(damaged) == 0 {
		reply.Limits = tree.total(now)
	}
	for _, shard := range damaged {
		reply.Damaged = append(reply.Damaged, int64(shard))
	}
	return reply, nil
}

// resetBefore is the bucket before a reset, in the audit event.
type resetBefore struct {
	Resource string `json:"resource"`
	api.BucketReply
}

// errNothing ends a change that has nothing to do.
var errNothing = errors.New("there is nothing to change")

// Reset makes a bucket full again: it deletes all shards, in a transaction with the
// audit event, and a missing bucket is full. Refunds of earlier spends are dropped,
// unless the bucket exists again. It returns the number of shards; without shards
// it does nothing. It also deletes shards that do not form a whole tree or cannot
// be decoded, which cannot be repaired otherwise.
func (o *Operator) Reset(ctx context.Context, by api.Principal, key keys.Bucket) (shards int, err error) {
	err = o.log.Apply(ctx, audit.Change{
		Namespace: key.Namespace, By: by, Action: api.AuditBucketReset, Target: keys.AuditEntity(key.Entity),
		Plan: func(ctx context.Context) (audit.Plan, error) {
			tree, damaged, err := o.read(ctx, key, ErrUnsettled, table.ErrDamaged)
			if err != nil {
				return audit.Plan{}, err
			}
			if shards = len(tree) + len(damaged); shards == 0 {
				return audit.Plan{}, errNothing
			}
			before, err := o.show(tree, damaged)
			if err != nil {
				return audit.Plan{}, err
			}
			return audit.Plan{Writes: removals(o.store.table, key, tree, damaged), Before: resetBefore{key.Resource, before}}, nil
		},
	})
	if err != nil && !errors.Is(err, errNothing) {
		return 0, fmt.Errorf("reset %s: %w", key.Key().PK, err)
	}
	return shards, nil
}

// removals returns the deletions of all shards. They are refused if a shard has
// split or merged since it was read. A damaged shard is deleted by its key, because
// its split level is not known.
func removals(tableName string, key keys.Bucket, tree Tree, damaged []int) []types.TransactWriteItem {
	writes := make([]types.TransactWriteItem, 0, len(tree)+len(damaged))
	for _, b := range tree {
		writes = append(writes, table.RemoveShard(tableName, b))
	}
	for _, key.Shard = range damaged {
		writes = append(writes, table.RemoveDamaged(tableName, key))
	}
	return writes
}
