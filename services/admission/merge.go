package admission

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/shards"
)

// lateMs is how much later than a bucket of a single shard a divided bucket may leave its
// debt, in milliseconds, before its shards are merged.
const lateMs = 1000

// mergeAttempt is an attempt to merge the shards of a bucket in debt.
type mergeAttempt struct {
	done chan struct{}
	at   time.Duration // monotonic time at which it began
	err  error         // once done
}

// ended reports whether the attempt is over.
func (m *mergeAttempt) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// noteDebt notes that a shard is in debt. It starts to merge the shards if the debt
// would block the bucket for too long.
func (b *bucketState) noteDebt() {
	if tree := b.recent(maxDenialAge); tree == nil || b.isLate(tree) {
		b.startMerge()
	}
}

// isLate reports whether the bucket leaves a debt too late.
func (b *bucketState) isLate(tree shards.Tree) bool {
	now, err := b.router.env.clock.Now()
	settings := b.first.writer.settings.last()
	if err != nil || len(tree) < 2 || settings == nil && !tree.Synced(tree[0].Fingerprint) {
		return false
	}
	if settings != nil {
		tree = treeInForce(now, tree, settings)
	}
	state := shownTree(verdictShow, now, settings, tree)
	return state.isLate()
}

// startMerge merges all shards of a bucket in the background, if the bucket's debt would
// block it for too long. It returns the attempt under way. After a failure the next attempt
// begins a second later.
func (b *bucketState) startMerge() *mergeAttempt {
	e := b.router.env
	last, now := b.merging.Load(), e.clock.Mono()
	if last != nil && (!last.ended() || last.err != nil && now-last.at < maxDenialAge) {
		return last
	}
	m := &mergeAttempt{done: make(chan struct{}), at: now}
	if !b.merging.CompareAndSwap(last, m) {
		return b.merging.Load()
	}
	e.pool.Go(func() {
		defer close(m.done)
		if m.err = b.mergeAll(); m.err != nil {
			e.logStore(e.abort, "merge the shards of a bucket in debt", b.key(), m.err)
		}
		b.forgetTree()
	})
	return m
}

// mergeAll merges all shards, unless a read of the bucket shows that it need not.
func (b *bucketState) mergeAll() error {
	ctx, cancel := context.WithTimeout(b.router.env.abort, maxTimeout)
	defer cancel()
	tree, err := b.router.readTree(ctx, b.key(), 0)
	if err != nil || !b.isLate(tree) {
		return err
	}
	if settings := b.first.writer.settings.last(); settings != nil && !tree.Synced(settings.Fingerprint) {
		if _, err = b.router.shards.Sync(ctx, b.key(), settings); err != nil {
			return err
		}
	}
	_, err = b.router.shards.Shrink(ctx, b.key(), 1)
	return err
}
