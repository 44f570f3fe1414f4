package admission

import (
	"context"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
)

// lateMs is how much later than a bucket of one shard a divided one may leave its debt,
// in milliseconds, before its shards are merged.
const lateMs = 1000

// union is an attempt to merge the shards of a bucket in debt.
type union struct {
	done chan struct{}
	at   time.Duration // monotonic time at which it began
	err  error         // once done
}

// ended reports whether the attempt is over.
func (u *union) ended() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// late reports whether a debt blocks the bucket for longer than it would block one of
// one shard: full shards regain nothing while another is in debt.
func (r *result) late() bool {
	for i := range r.item.Limits {
		if r.governed(i) && r.pool(i).Late(r.now) > lateMs {
			return true
		}
	}
	return false
}

// indebted reports whether any shard is in debt of a limit that applies.
func (r *result) indebted() bool {
	inDebt := func(b *table.Bucket) bool {
		return slices.ContainsFunc(b.Limits, func(l table.Limit) bool {
			return (r.settings == nil || r.settings.Governs(l.Name)) && l.Window(b.Shard(), r.now).Balance(l.Drawn) < 0
		})
	}
	return inDebt(r.item) || slices.ContainsFunc(r.others, inDebt)
}

// noteDebt is for a write that left a shard as item: it begins to merge a divided
// bucket that is in debt as a whole.
func (c *committer) noteDebt(item *table.Bucket) {
	if item.Level == 1 {
		return
	}
	now, err := c.node.clock.Now()
	if err != nil || !(&result{item: item, now: now}).indebted() {
		return
	}
	first := c.shard(0)
	if tree := first.recent(maxDenialAge); tree == nil || first.late(tree) {
		first.unite()
	}
}

// late reports whether the bucket leaves a debt too late; c is shard 0.
func (c *committer) late(tree shards.Tree) bool {
	now, err := c.node.clock.Now()
	settings := c.settings.Load()
	if err != nil || len(tree) < 2 || settings == nil && !tree.Synced(tree[0].Fingerprint) {
		return false
	}
	if settings != nil {
		tree = standingOf(now, tree, settings)
	}
	state := result{settings: settings, item: tree[0], now: now}
	state.within(tree)
	return state.late()
}

// unite merges all shards of a bucket whose debt would block it for too long, beside
// everything else. It returns the attempt under way; after a failure the next attempt
// begins a second later. c is shard 0.
func (c *committer) unite() *union {
	last, now := c.union.Load(), c.node.clock.Mono()
	if last != nil && (!last.ended() || last.err != nil && now-last.at < maxDenialAge) {
		return last
	}
	u := &union{done: make(chan struct{}), at: now}
	if !c.union.CompareAndSwap(last, u) {
		return c.union.Load()
	}
	c.node.flights.Go(func() {
		defer close(u.done)
		if u.err = c.mergeAll(); u.err != nil {
			c.node.logStore(c.node.abort, "merge the shards of a bucket in debt", c.key, u.err)
		}
		c.whole.Store(nil)
	})
	return u
}

// mergeAll merges all shards, unless the bucket turns out to need no such thing.
func (c *committer) mergeAll() error {
	ctx, cancel := context.WithTimeout(c.node.abort, maxTimeout)
	defer cancel()
	tree, err := c.node.readShards(ctx, c.key, 0)
	if err != nil || !c.late(tree) {
		return err
	}
	if settings := c.settings.Load(); settings != nil && !tree.Synced(settings.Fingerprint) {
		if _, err = c.node.shards.Sync(ctx, c.key, settings); err != nil {
			return err
		}
	}
	_, err = c.node.shards.Shrink(ctx, c.key, 1)
	return err
}
