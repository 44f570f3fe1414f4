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
	// treeReads is how often the shards of a bucket are read until they are a whole
	// tree: a bucket has few splits and merges in a minute.
	treeReads = 8
	// stepTries is how often a step is planned anew that was refused: by others who
	// did it already, or spent what it was planned for.
	stepTries = 40
)

var (
	// ErrNoBucket says that there is no shard 0, and so no bucket.
	ErrNoBucket = errors.New("the bucket is not there: nobody has spent from it")
	// ErrTooMany says that a bucket has as many shards as it can have.
	ErrTooMany = fmt.Errorf("a bucket has %d shards at most", bucket.MaxShards)
	// ErrUnsynced says that shards to merge are of different settings: each is
	// brought to the new ones by the next spend from it.
	ErrUnsynced = errors.New("the shards are of different settings")
	// ErrUnsettled says that others kept changing the shards.
	ErrUnsettled = errors.New("the shards kept changing")
)

// Store reads and changes the shards of buckets. It is safe for concurrent use, by
// any number of nodes on the same buckets. Keys may name any shard of theirs.
type Store struct {
	client *dynamodb.Client
	table  string
	now    func() (bucket.Instant, error)
	nonce  func() string
}

// NewStore returns a store on a table. The client must make one attempt for
// each request. Steps are planned for the moment that now tells, which may fail
// while the time is not known; each write gets a nonce of its own.
func NewStore(client *dynamodb.Client, tableName string, now func() (bucket.Instant, error), nonce func() string) *Store {
	return &Store{client: client, table: tableName, now: now, nonce: nonce}
}

// Read returns the whole bucket by consistent reads, empty if there is none. It asks
// only for as many shards as a bucket of hint shards can have, until they turn out to
// be no whole tree; 0 stands for not known. The error is [ErrUnsettled] or
// table.ErrDamaged if the store answered and the answer makes no sense.
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

// readLegible reads all shards that there are and that can be decoded, whether or not
// they are a whole tree. damaged are the numbers of the others.
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

// Double makes twice as many shards of a bucket that has, or shall have, from; where
// others have done that already it only completes their work. It returns the
// bucket as it is then.
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

// Spread splits off the shards that are wanted and not there.
func (s *Store) Spread(ctx context.Context, key keys.Bucket) (Tree, error) {
	var last Tree
	err := s.until(ctx, key, func(tree Tree, now bucket.Instant) (done bool, err error) {
		last = tree
		for _, b := range tree {
			if ChildOf(b).Shard >= tree.Wanted() {
				continue
			}
			// Refused or not, what is there is read again.
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

// SplitOff splits the shards above one, until it is there. It reports false where
// it is not wanted any more.
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

// Nearest is the shard itself, or the nearest of its ancestors that is there:
// the one that has taken it over.
func Nearest(tree Tree, shard int) *table.Bucket {
	for at := shard; ; at = (bucket.Shard{Index: at}).Parent() {
		if b := tree.Find(at); b != nil || at == 0 {
			return b
		}
	}
}

// Shrink makes a bucket have to shards, a power of two below what it has, by
// merging the others into them, the highest first. Who wants more meanwhile wins.
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

// until does steps on the bucket as it is each time, until one says that all is done.
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
