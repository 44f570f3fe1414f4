package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// bucketState holds the router's knowledge of a bucket as a whole. It is missing for
// buckets of a single shard that are hardly used.
type bucketState struct {
	router *router
	first  *member // shard 0

	whole      atomic.Pointer[treeSnapshot] // all shards as last read; nil while they are unknown
	lastShard  atomic.Int32                 // that this node spent from
	shardsThen atomic.Int32                 // how many shards there were to choose from
	hot        hotShards
	costs      atomic.Pointer[costSamples]  // of recent requests; nil while there are few
	splitting  atomic.Bool                  // missing shards are being split off
	merging    atomic.Pointer[mergeAttempt] // the last attempt to merge the shards because of a debt; nil if there was no attempt
	relieving  atomic.Bool                  // the shards are being doubled, or the need for it is checked
	relieved   atomic.Pointer[relief]       // the last known number of wanted shards; nil while nothing was throttled
	spends     atomic.Int64                 // multi-shard spends that are not decided yet

	mu      sync.Mutex
	reading *treeRead // guarded by mu: the read of all shards that is under way, or nil
}

// treeSnapshot is a whole bucket as it was read.
type treeSnapshot struct {
	tree shards.Tree
	at   time.Duration // monotonic time at which it was asked for
}

// treeRead is a read of a whole bucket that is under way.
type treeRead struct {
	done chan struct{}
	err  error // once done
}

// key is the key of shard 0.
func (b *bucketState) key() keys.Bucket { return b.first.writer.key }

// forgetTree makes the next use of the bucket read all shards.
func (b *bucketState) forgetTree() { b.whole.Store(nil) }

// recent returns the whole bucket from a read of at most that age, with newer snapshots
// of its shards. It returns nil if there is no such read, or if the snapshots do not fit
// together.
func (b *bucketState) recent(age time.Duration) shards.Tree {
	read := b.whole.Load()
	if read == nil || b.router.env.clock.Mono()-read.at > age {
		return nil
	}
	tree := make(shards.Tree, len(read.tree))
	for i, item := range read.tree {
		tree[i] = item
		if seen := b.snapshotOf(item.Key); seen != nil && seen.at > read.at {
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

// snapshotOf returns the last snapshot of a shard of the bucket, nil where the shard is
// not remembered.
func (b *bucketState) snapshotOf(key keys.Bucket) *snapshot {
	if key == b.key() {
		return b.first.writer.known.seen.Load() // also after the router has forgotten it
	}
	return b.router.snapshotOf(key)
}

// tree returns the whole bucket, at most maxDenialAge old. Callers share a read that is
// under way, and wait for it until ctx ends. The tree is read again, in the background,
// before it is too old, so that under load no call waits.
func (b *bucketState) tree(ctx context.Context) (shards.Tree, error) {
	for {
		if tree := b.recent(maxDenialAge); tree != nil {
			if read := b.whole.Load(); read != nil && b.router.env.clock.Mono()-read.at > maxDenialAge/2 {
				b.readTree()
			}
			return tree, nil
		}
		read := b.readTree()
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

// readTree returns the read under way, or starts a read.
func (b *bucketState) readTree() *treeRead {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading != nil {
		return b.reading
	}
	read := &treeRead{done: make(chan struct{})}
	b.reading = read
	e := b.router.env
	e.pool.Go(func() {
		defer func() {
			b.mu.Lock()
			b.reading = nil
			b.mu.Unlock()
			close(read.done)
		}()
		ctx, cancel := context.WithTimeout(e.abort, e.store.timeout)
		defer cancel()
		asked, hint := e.clock.Mono(), 0
		if seen := b.snapshotOf(b.key()); seen != nil && seen.item != nil {
			hint = max(seen.item.Want, seen.item.Level)
		}
		tree, err := b.router.readTree(ctx, b.key(), hint)
		if err != nil {
			e.logStore(ctx, "read shards", b.key(), err)
			read.err = blamed(err, errStoreDown)
			return
		}
		b.whole.Store(&treeSnapshot{tree: tree, at: asked})
		b.first.writer.known.offer(tree.Find(0), asked)
		b.router.members.weigh(b.first)
	})
	return read
}

// snapshotUnder returns the bucket as it was last seen, under settings, and its age. It
// is not ok where the bucket is unknown, or known under other settings only.
func (m *member) snapshotUnder(now bucket.Instant, settings *config.Resolved) (state result, age time.Duration, ok bool) {
	seen := m.writer.known.seen.Load()
	if seen == nil || seen.unread || m.writer.settings.isOutdated() {
		return result{}, 0, false
	}
	item := seen.item
	if item != nil && item.Level > 1 {
		return m.bucket().treeUnder(now, settings)
	}
	switch {
	case item == nil:
		item = fullBucket(now, m.writer.key, settings)
	case item.Fingerprint != settings.Fingerprint:
		return result{}, 0, false
	}
	return shown(verdictShow, now, settings, item), m.router.env.clock.Mono() - seen.at, true
}

// treeUnder is snapshotUnder for a bucket of several shards. Its age is at most that of a
// denial.
func (b *bucketState) treeUnder(now bucket.Instant, settings *config.Resolved) (state result, age time.Duration, ok bool) {
	tree := b.recent(maxDenialAge)
	if len(tree) < 2 {
		return result{}, 0, false
	}
	state = shownTree(verdictShow, now, settings, treeInForce(now, tree, settings))
	if state.isLate() {
		b.startMerge()
	}
	return state, 0, true
}

// treeInForce returns a tree as it counts under the settings, whatever settings its
// shards were last written under.
func treeInForce(now bucket.Instant, tree shards.Tree, settings *config.Resolved) shards.Tree {
	counted := make(shards.Tree, len(tree))
	for i, b := range tree {
		counted[i] = inForce(now, b.Key, b, settings)
	}
	return counted
}
