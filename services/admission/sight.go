package admission

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// formTree is a read of all shards of a bucket, as metrics name it.
const formTree = "read shards"

// wholeSight is a whole bucket as it was read.
type wholeSight struct {
	tree shards.Tree
	at   time.Duration // monotonic time at which it was asked for
}

// wholeRead is a read of a whole bucket that is under way.
type wholeRead struct {
	done chan struct{}
	err  error // once done
}

// sharded reports whether the bucket, of which c is shard 0, was seen to have
// other shards.
func (c *committer) sharded() bool {
	seen := c.seen.Load()
	return seen != nil && seen.item != nil && seen.item.Level > 1
}

// recent is the whole bucket from a read that is at most so old, with what shards
// have shown since; nil where there is none. What was seen of several moments may
// be no whole tree.
func (c *committer) recent(age time.Duration) shards.Tree {
	read := c.whole.Load()
	if read == nil || c.node.clock.Mono()-read.at > age {
		return nil
	}
	tree := make(shards.Tree, len(read.tree))
	for i, b := range read.tree {
		tree[i] = b
		if seen := c.sightOf(b.Key); seen != nil && seen.at > read.at {
			if seen.item == nil {
				return nil
			}
			tree[i] = seen.item
		}
	}
	if !tree.Whole() {
		return nil
	}
	return tree
}

// sightOf is what a shard of the bucket has shown last, nil where nothing is
// remembered.
func (c *committer) sightOf(key keys.Bucket) *sighting {
	if key == c.key {
		return c.seen.Load() // also where the node has forgotten c meanwhile
	}
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	if of, ok := c.node.buckets.Peek(key); ok {
		return of.seen.Load()
	}
	return nil
}

// tree is the whole bucket, at most maxDenialAge old. Whoever asks while it is
// being read waits for that read, until its time is up. It is read again beside
// everything else before it is too old, so that under load nobody waits.
func (c *committer) tree(ctx context.Context) (shards.Tree, error) {
	for {
		if tree := c.recent(maxDenialAge); tree != nil {
			if read := c.whole.Load(); read != nil && c.node.clock.Mono()-read.at > maxDenialAge/2 {
				c.readWhole()
			}
			return tree, nil
		}
		read := c.readWhole()
		select {
		case <-ctx.Done():
			return nil, errStoreSlow
		case <-read.done:
			if read.err != nil {
				return nil, read.err
			}
		}
	}
}

// readWhole is the read under way, a new one where there is none.
func (c *committer) readWhole() *wholeRead {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading != nil {
		return c.reading
	}
	read := &wholeRead{done: make(chan struct{})}
	c.reading = read
	c.node.flights.Go(func() {
		defer func() {
			c.mu.Lock()
			c.reading = nil
			c.mu.Unlock()
			close(read.done)
		}()
		ctx, cancel := context.WithTimeout(c.node.abort, c.node.tuning.StoreTimeout)
		defer cancel()
		asked, hint := c.node.clock.Mono(), 0
		if seen := c.seen.Load(); seen != nil && seen.item != nil {
			hint = max(seen.item.Want, seen.item.Level)
		}
		tree, err := c.node.readShards(ctx, c.key, hint)
		if err != nil {
			c.node.logStore(ctx, "read shards", c.key, err)
			read.err = blamed(err, errStoreDown)
			return
		}
		c.whole.Store(&wholeSight{tree: tree, at: asked})
		c.offer(tree.Find(0), asked)
	})
	return read
}

// readShards reads a whole bucket. A throttled read is repeated until ctx ends.
func (s *Service) readShards(ctx context.Context, key keys.Bucket, hint int) (shards.Tree, error) {
	for n := 0; ; n++ {
		asked := s.clock.Mono()
		tree, err := s.shards.Read(ctx, key, hint)
		s.metrics.storeCall(formTree, s.clock.Mono()-asked, err)
		if err == nil || !isThrottle(err) || store.Pause(ctx, n) != nil {
			return tree, err
		}
	}
}

// standing is a tree as it counts under the settings, whatever its shards were
// last written under.
func standingOf(now bucket.Instant, tree shards.Tree, settings *config.Resolved) shards.Tree {
	counted := make(shards.Tree, len(tree))
	for i, b := range tree {
		counted[i] = inForce(now, b.Key, b, settings)
	}
	return counted
}

// within is how one shard stands among the others of its bucket.
func (r *result) within(tree shards.Tree) {
	r.others = make([]*table.Bucket, 0, len(tree))
	for _, b := range tree {
		if b.Key.Shard != r.item.Key.Shard {
			r.others = append(r.others, b)
		}
	}
}
