package shards

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Found is a bucket as ReadMany found it.
type Found struct {
	// Shards is the whole bucket, empty if there is none. With an Err it has the
	// shards that could be read.
	Shards Tree
	// Err is table.ErrDamaged if an item cannot be decoded, ErrUnsettled if the shards
	// kept changing, or nil.
	Err error
}

// ReadMany reads whole buckets by consistent reads in batches, so that many buckets
// take few requests. The wanted keys are those of the shards 0, and distinct. known
// has shards that a consistent read brought already; shards of other buckets among
// them are ignored. The result has every wanted bucket. The error is a failure of the
// store, after which nothing is known.
func ReadMany(ctx context.Context, client *dynamodb.Client, tableName string, wanted []keys.Bucket, known []table.Item) (map[keys.Bucket]*Found, error) {
	r := manyReads{client: client, table: tableName, wanted: wanted, found: make(map[keys.Bucket]*Found, len(wanted))}
	for _, key := range wanted {
		r.found[key] = &Found{}
	}
	if err := r.take(known); err != nil {
		return nil, err
	}
	var firsts []keys.Key
	for _, key := range wanted {
		if f := r.found[key]; f.Err == nil && f.Shards.Find(0) == nil {
			f.Shards = nil
			firsts = append(firsts, key.Key())
		}
	}
	if err := r.load(ctx, firsts); err != nil {
		return nil, err
	}
	for n := range treeReads {
		rest := r.unfinished(n)
		if len(rest) == 0 {
			return r.found, nil
		}
		if n > 0 {
			if err := store.Pause(ctx, n-1); err != nil {
				return nil, fmt.Errorf("read the shards of %d buckets: %w", len(wanted), err)
			}
		}
		if err := r.load(ctx, rest); err != nil {
			return nil, err
		}
	}
	for _, f := range r.found {
		if f.Err == nil && !f.Shards.Whole() {
			f.Err = ErrUnsettled
		}
	}
	return r.found, nil
}

// manyReads are the reads of ReadMany.
type manyReads struct {
	client *dynamodb.Client
	table  string
	wanted []keys.Bucket
	found  map[keys.Bucket]*Found
}

// unfinished returns the keys to read for the buckets that are not whole, and forgets
// what was read of them: the shards of a bucket must be of a single moment. The first
// round trusts shard 0 for their number, later rounds ask for every shard.
func (r *manyReads) unfinished(round int) []keys.Key {
	var rest []keys.Key
	for _, key := range r.wanted {
		f := r.found[key]
		if f.Err != nil || f.Shards.Whole() {
			continue
		}
		count := bucket.MaxShards
		if first := f.Shards.Find(0); round == 0 && first != nil {
			count = min(count, max(first.Want, first.Level))
		}
		f.Shards = nil
		for key.Shard = range count {
			rest = append(rest, key.Key())
		}
	}
	return rest
}

func (r *manyReads) load(ctx context.Context, wanted []keys.Key) error {
	items, err := store.BatchRead(ctx, r.client, r.table, wanted)
	if err != nil {
		return err
	}
	return r.take(items)
}

// take adds shards to their buckets.
func (r *manyReads) take(items []table.Item) error {
	for _, item := range items {
		key, err := table.BucketKey(item)
		if err != nil {
			return err
		}
		key.Shard = 0
		f := r.found[key]
		if f == nil {
			continue
		}
		b, err := table.DecodeBucket(item)
		if err != nil {
			f.Err = err
			continue
		}
		f.Shards = newTree(append(f.Shards, b))
	}
	return nil
}
