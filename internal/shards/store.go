package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// treeReads bounds the reads of a bucket until its shards are a whole tree. A
	// bucket has few splits and merges in a minute.
	treeReads = 8
	// stepTries bounds the plans of a step that is refused because another node did
	// it already, or spent the tokens that it was planned for.
	stepTries = 40
)

var (
	// ErrNoBucket says that there is no shard 0, and so no bucket.
	ErrNoBucket = errors.New("the bucket is not there: nobody has spent from it")
	// ErrTooMany says that a bucket has the largest number of shards.
	ErrTooMany = fmt.Errorf("a bucket has %d shards at most", bucket.MaxShards)
	// ErrUnsynced says that the shards to merge have different settings. The next
	// spend from each shard brings it to the new settings.
	ErrUnsynced = errors.New("the shards are of different settings")
	// ErrUnsettled says that other nodes kept changing the shards.
	ErrUnsettled = errors.New("the shards kept changing")
)

// Store reads and changes the shards of buckets. It is safe for concurrent use by
// any number of nodes on the same buckets. Keys may name any shard of a bucket.
type Store struct {
	client *dynamodb.Client
	table  string
	now    func() (bucket.Instant, error)
	nonce  func() string
}

// NewStore returns a store on a table. The client must not retry. Steps are planned
// for the moment that now returns; now fails while the time is not known. Each
// write gets its own nonce.
func NewStore(client *dynamodb.Client, tableName string, now func() (bucket.Instant, error), nonce func() string) *Store {
	return &Store{client: client, table: tableName, now: now, nonce: nonce}
}

// Read returns the whole bucket by consistent reads; empty if there is none. A
// positive hint is the expected number of shards: Read asks only for them, until
// the result is not a whole tree. The error is [ErrUnsettled] or table.ErrDamaged
// if the store replied and the reply is inconsistent.
func (s *Store) Read(ctx context.Context, key keys.Bucket, hint int) (Tree, error) {
	count := hint
	if count <= 0 || count > bucket.MaxShards {
		count = bucket.MaxShards
	}
	for n := range treeReads {
		if n > 0 {
			if err := store.Pause(ctx, n-1); err != nil {
				return nil, fmt.Errorf("read the shards of %s: %w", key.Key().PK, err)
			}
		}
		tree, err := s.readShards(ctx, key, count)
		if err != nil {
			return nil, err
		}
		if tree.Whole() {
			return tree, nil
		}
		count = bucket.MaxShards
	}
	return nil, fmt.Errorf("read the shards of %s: %w", key.Key().PK, ErrUnsettled)
}

func (s *Store) readShards(ctx context.Context, key keys.Bucket, count int) (Tree, error) {
	items, err := s.readItems(ctx, key, count)
	if err != nil {
		return nil, err
	}
	shards := make([]*table.Bucket, len(items))
	for i, item := range items {
		if shards[i], err = table.DecodeBucket(item); err != nil {
			return nil, err
		}
	}
	return newTree(shards), nil
}

func (s *Store) readItems(ctx context.Context, key keys.Bucket, count int) ([]table.Item, error) {
	wanted := make([]keys.Key, count)
	for i := range wanted {
		key.Shard = i
		wanted[i] = key.Key()
	}
	return store.BatchRead(ctx, s.client, s.table, wanted)
}

// readLegible reads all shards that can be decoded, whether or not they are a whole
// tree. damaged has the numbers of the other shards.
func (s *Store) readLegible(ctx context.Context, key keys.Bucket) (tree Tree, damaged []int, err error) {
	items, err := s.readItems(ctx, key, bucket.MaxShards)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range items {
		b, err := table.DecodeBucket(item)
		if err == nil {
			tree = append(tree, b)
			continue
		}
		of, errKey := table.BucketKey(item)
		if errKey != nil {
			return nil, nil, errKey
		}
		damaged = append(damaged, of.Shard)
	}
	slices.Sort(damaged)
	return newTree(tree), damaged, nil
}

// Double doubles the shards of a bucket that has, or should have, from shards. If
// another node did so already, it completes that work. It returns the bucket as
// stored.
func (s *Store) Double(ctx context.Context, key keys.Bucket, from int) (Tree, error) {
	if 2*from > bucket.MaxShards {
		return nil, ErrTooMany
	}
	err := s.until(ctx, key, func(tree Tree, now bucket.Instant) (done bool, err error) {
		if tree.Wanted() != from {
			return true, nil
		}
		zero := tree.Find(0)
		change := table.WantChange{From: zero.Want, To: 2 * from}
		if zero.Level != from { // not merged yet since fewer were wanted
			return s.want(ctx, zero, change)
		}
		split := PlanSplit(now, zero, s.nonce())
		split.Want = change
		return s.Transact(ctx, split.Writes(s.table))
	})
	if err != nil {
		return nil, fmt.Errorf("double the %d shards of %s: %w", from, key.Key().PK, err)
	}
	return s.Spread(ctx, key)
}

// Spread splits off the shards that are wanted and missing.
func (s *Store) Spread(ctx context.Context, key keys.Bucket) (Tree, error) {
	var last Tree
	err := s.until(ctx, key, func(tree Tree, now bucket.Instant) (done bool, err error) {
		last = tree
		for _, b := range tree {
			if ChildOf(b).Shard >= tree.Wanted() {
				continue
			}
			// Whether it was refused or not, the next step reads the bucket again.
			_, err := s.Transact(ctx, PlanSplit(now, b, s.nonce()).Writes(s.table))
			return false, err
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("spread %s over its shards: %w", key.Key().PK, err)
	}
	return last, nil
}

// SplitOff splits the ancestors of a shard until the shard exists. It reports false
// if the shard is no longer wanted.
func (s *Store) SplitOff(ctx context.Context, key keys.Bucket) (there bool, err error) {
	err = s.until(ctx, key, func(tree Tree, now bucket.Instant) (done bool, err error) {
		there = tree.Find(key.Shard) != nil
		if there || key.Shard >= tree.Wanted() {
			return true, nil
		}
		ancestor := Nearest(tree, key.Shard)
		_, err = s.Transact(ctx, PlanSplit(now, ancestor, s.nonce()).Writes(s.table))
		return false, err
	})
	if err != nil {
		return false, fmt.Errorf("split off %s: %w", key.Key().PK, err)
	}
	return there, nil
}

// Nearest returns the shard itself, or its nearest existing ancestor, which took it
// over.
func Nearest(tree Tree, shard int) *table.Bucket {
	for at := shard; ; at = (bucket.Shard{Index: at}).Parent() {
		if b := tree.Find(at); b != nil || at == 0 {
			return b
		}
	}
}

// Shrink reduces a bucket to to shards, a smaller power of two, by merging the
// other shards into them, the highest first. If another node wants more in the
// meantime, that node wins.
func (s *Store) Shrink(ctx context.Context, key keys.Bucket, to int) (Tree, error) {
	var last Tree
	lowered := false
	err := s.until(ctx, key, func(tree Tree, now bucket.Instant) (done bool, err error) {
		last = tree
		zero, wanted := tree.Find(0), tree.Wanted()
		switch {
		case wanted > to && !lowered:
			lowered, err = s.want(ctx, zero, table.WantChange{From: zero.Want, To: to})
			return false, err
		case tree[len(tree)-1].Key.Shard < wanted:
			return true, nil
		}
		gone := tree[len(tree)-1]
		into := tree.Find(gone.Shard().Parent())
		if into.Fingerprint != gone.Fingerprint {
			return false, ErrUnsynced
		}
		_, err = s.Transact(ctx, PlanMerge(now, into, gone, s.nonce()).Writes(s.table))
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("merge the shards of %s: %w", key.Key().PK, err)
	}
	return last, nil
}

// until reads the bucket and does a step, until a step reports that all is done.
func (s *Store) until(ctx context.Context, key keys.Bucket, step func(Tree, bucket.Instant) (done bool, err error)) error {
	for try := range stepTries {
		tree, err := s.Read(ctx, key, 0)
		if err != nil {
			return err
		}
		if len(tree) == 0 {
			return ErrNoBucket
		}
		now, err := s.now()
		if err != nil {
			return err
		}
		done, err := step(tree, now)
		if done || err != nil {
			return err
		}
		if try > bucket.MaxShards { // more than all that there can be to do
			if err := store.Pause(ctx, try-bucket.MaxShards); err != nil {
				return err
			}
		}
	}
	return ErrUnsettled
}
