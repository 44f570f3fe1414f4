package admission

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// immediateRounds is how often an acquire on a bucket of several shards starts again at
// once, because a shard held less than its snapshot said, or was gone. After that it
// pauses before each round, until its time is up.
const immediateRounds = 8

// formMulti is a transaction over several shards, as metrics name it.
const formMulti = "gather"

// multiShardSpend decides a task on a bucket of several shards: an acquire, or a peek. It
// runs in the background and asks the writers of the shards, so that acquires share writes.
//
//	all shards together hold it, debts counted? ── no ──▶ denied
//	                  │ yes
//	                  ▼
//	the shard used last, or a better shard ──▶ admitted
//	                  │ short
//	                  ▼
//	a transaction over several shards ──▶ admitted
type multiShardSpend struct {
	*call
	bucket *bucketState
	ctx    context.Context //nolint:containedctx // the time of the call that it decides
	// foundShort says that a shard held less than its snapshot said.
	foundShort bool
	// awaitedMerge says that the call has waited for the shards of a bucket in debt to merge.
	awaitedMerge bool
}

// admitSpend starts a multi-shard spend, unless too many are under way: then it reports
// false.
func (b *bucketState) admitSpend(t *task) bool {
	if int(b.spends.Add(1)) > b.router.env.share {
		b.spends.Add(-1)
		b.router.env.metrics.shed[scopeBucket].Inc()
		return false
	}
	b.decide(t)
	return true
}

// startSpend starts a multi-shard spend for a task that its writer had queued.
func (b *bucketState) startSpend(t *task) {
	b.spends.Add(1)
	b.decide(t)
}

// decide decides a task in the background.
func (b *bucketState) decide(t *task) {
	e, q := b.router.env, &t.call
	e.pool.Go(func() {
		told := false
		defer func() {
			if cause := recover(); cause != nil {
				e.logPanic(about(e.abort, q), cause)
				if !told {
					b.spends.Add(-1)
					t.client.finish(result{shardResult: shardResult{err: errInternal}})
				}
			}
		}()
		ctx, cancel := context.WithTimeout(e.abort, max(0, q.answerBy-e.clock.Mono()))
		defer cancel()
		res := (&multiShardSpend{call: q, bucket: b, ctx: ctx}).run()
		if res.err == nil && res.verdict == verdictDeny {
			b.first.denied()
		}
		if res.err == nil && res.verdict == verdictCommit {
			t.client.prepare(res)
		}
		told = true
		b.spends.Add(-1) // before the answer: its caller may come back at once
		t.client.finish(res)
	})
}

// run decides.
func (s *multiShardSpend) run() result {
	for round := 0; ; round++ {
		if round >= immediateRounds {
			_ = store.Pause(s.ctx, round-immediateRounds)
		}
		if s.ctx.Err() != nil {
			return s.failed(errStoreSlow)
		}
		settings, end := s.settings()
		if end != nil {
			return *end
		}
		tree, err := s.bucket.tree(s.ctx)
		if err != nil {
			return s.failed(err)
		}
		if len(tree) <= 1 { // merged since, or gone: shard 0 is the whole bucket
			if res, done := s.askShard(0, tree, false); done {
				return res
			}
			continue
		}
		s.bucket.splitMissing(tree)
		s.bucket.noteWanted(tree.Wanted())
		now, err := s.bucket.router.env.clock.Now()
		if errors.Is(err, store.ErrClockUnchecked) {
			now, err = s.checkClock()
		}
		if err != nil {
			return s.failed(err)
		}
		if s.expired(now) {
			return s.failed(errLate)
		}
		if res, done := s.try(now, tree, settings); done {
			return res
		}
	}
}

// try makes an attempt on the bucket as it is known. It is not done if the known state
// turns out to be old.
func (s *multiShardSpend) try(now bucket.Instant, tree shards.Tree, settings *config.Resolved) (res result, done bool) {
	counted := treeInForce(now, tree, settings)
	whole := shownTree(verdictDeny, now, settings, counted)
	debt := whole.indebted()
	if debt && !s.awaitedMerge && whole.isLate() {
		s.awaitedMerge = true
		select {
		case <-s.bucket.startMerge().done:
			return result{}, false
		case <-s.ctx.Done(): // the known state decides
		}
	}
	if s.peek {
		whole.verdict = verdictShow
		return whole, true
	}
	if !debt || whole.holds(s.amounts) {
		if shard, elsewhere := s.bucket.choose(now, counted, settings, s.amounts); shard >= 0 {
			return s.askShard(shard, tree, elsewhere)
		}
	}
	switch {
	case !whole.holds(s.amounts) && s.foundShort:
		// The snapshots of the other shards are as old as that of the shard that was short.
		s.foundShort = false
		s.bucket.forgetTree()
		return result{}, false
	case !whole.holds(s.amounts):
		return whole, true
	case !tree.Synced(settings.Fingerprint):
		s.syncAll(tree, settings)
		return result{}, false
	}
	return s.transact(now, tree, settings)
}

func (s *multiShardSpend) failed(err error) result {
	return result{shardResult: shardResult{err: s.cause(err), settings: s.bucket.first.writer.settings.last()}}
}

// checkClock asks the store for the time after this machine's clock was set: the snapshots
// may be young enough to need no read. A read that was under way when
// the clock was set tells nothing, so that a second read may be needed.
func (s *multiShardSpend) checkClock() (now bucket.Instant, err error) {
	for range 2 {
		read := s.bucket.readTree()
		select {
		case <-s.ctx.Done():
			return 0, errStoreSlow
		case <-read.done:
		}
		if now, err = s.bucket.router.env.clock.Now(); err == nil {
			break
		}
	}
	return now, err
}

// settings returns the settings that hold. It ends the call if they are not the settings
// that it was made for, or lack a limit that it names.
func (s *multiShardSpend) settings() (*config.Resolved, *result) {
	settings := s.bucket.first.writer.currentSettings()
	if settings == nil || unknownLimit(settings, s.operation) != "" {
		res := s.ask(0, operation{peek: true, amounts: s.amounts, part: true})
		if settings = res.settings; res.err != nil || settings == nil {
			return nil, &res
		}
	}
	if !isMadeFor(&s.operation, s.bucket.key().Entity, settings) {
		return nil, &result{shardResult: shardResult{verdict: verdictMoved, settings: settings}}
	}
	if name := unknownLimit(settings, s.operation); name != "" && !s.peek {
		return nil, &result{shardResult: shardResult{err: unknownLimitError(settings, s.bucket.key(), name)}}
	}
	return settings, nil
}

// ask asks a shard.
func (s *multiShardSpend) ask(shard int, op operation) result {
	return askAll([]subcall{{s.bucket.first.shard(shard), op}}, s.asker)[0]
}

// askShard spends from a single shard. It is not done if the shard is short, or gone, or
// throttled while others are not: they may hold the cost.
func (s *multiShardSpend) askShard(shard int, tree shards.Tree, elsewhere bool) (res result, done bool) {
	op := operation{peek: s.peek, amounts: s.amounts, under: s.under, part: true, elsewhere: elsewhere}
	if read := s.bucket.whole.Load(); read != nil {
		op.since = read.at
		if b := read.tree.Find(shard); b != nil {
			s.bucket.first.shard(shard).writer.known.offer(b, read.at)
		}
	}
	res = s.ask(shard, op)
	switch {
	case res.err != nil:
		return res, true
	case res.verdict == verdictMoved && res.settings == nil:
		s.bucket.forgetTree()
		return res, false
	case res.verdict == verdictHot:
		return res, false
	case res.verdict == verdictDeny && res.item.Level > 1:
		if b := tree.Find(shard); b == nil || b.Level != res.item.Level || s.bucket.snapshotOf(res.item.Key) == nil {
			s.bucket.forgetTree() // the tree cannot show the state that denied
		}
		s.foundShort = true
		return res, false
	case res.verdict == verdictCommit:
		s.bucket.lastShard.Store(int32(shard)) //nolint:gosec // below MaxShards
		s.widen(&res, tree)
	}
	return res, true
}

// widen adds the other shards to the shard that was spent from. If it has split or
// merged, they are read again, within the call's time.
func (s *multiShardSpend) widen(res *result, tree shards.Tree) {
	if b := tree.Find(res.item.Key.Shard); b == nil || b.Level != res.item.Level {
		s.bucket.forgetTree()
		if res.item.Level == 1 {
			return
		}
		var err error
		if tree, err = s.bucket.tree(s.ctx); err != nil {
			return
		}
	}
	res.addOthers(treeInForce(res.now, tree, res.settings))
}

// syncAll brings all shards to the settings: a transaction takes from several shards
// under the same settings.
func (s *multiShardSpend) syncAll(tree shards.Tree, settings *config.Resolved) {
	var subcalls []subcall
	for _, b := range tree {
		if b.Fingerprint != settings.Fingerprint {
			subcalls = append(subcalls, subcall{s.bucket.first.shard(b.Key.Shard), operation{peek: true, sync: true, part: true}})
		}
	}
	askAll(subcalls, s.asker)
	s.bucket.forgetTree()
}

// transact spends from several shards at once. It is not done if other spends took the
// tokens that it was planned for.
func (s *multiShardSpend) transact(now bucket.Instant, tree shards.Tree, settings *config.Resolved) (res result, done bool) {
	e := s.bucket.router.env
	leave, err := e.turn(s.ctx, s.bucket.key().Namespace)
	if err != nil {
		return s.failed(errStoreSlow), true
	}
	defer leave()
	plan := tree.PlanMultiSpend(now, func(limit string) (int64, bool) {
		return costOf(s.amounts, limit), settings.Governs(limit)
	}, e.nonces.next())
	if plan == nil {
		return result{}, false
	}
	asked := e.clock.Mono()
	ctx, end := e.trace(s.ctx, spanMulti, 0, []*call{s.call})
	applied, err := s.bucket.router.shards.Transact(ctx, plan.Writes(e.store.table))
	end(err)
	e.metrics.storeCall(formMulti, e.clock.Mono()-asked, err)
	s.bucket.forgetTree() // the next read brings the result, or the state that prevented it
	switch {
	case errors.Is(err, shards.ErrUnknown):
		return s.failed(errUnknown), true
	case errors.Is(err, shards.ErrContended):
		return result{}, false // until the time is up
	case err != nil && s.ctx.Err() != nil:
		return s.failed(errStoreSlow), true
	case err != nil:
		e.logStore(about(s.ctx, s.call), "gather", s.bucket.key(), err)
		return s.failed(errStoreDown), true
	case !applied:
		return result{}, false
	}
	after := make(shards.Tree, len(tree))
	for i, b := range tree {
		after[i] = afterPart(b, plan)
	}
	res = shownTree(verdictCommit, now, settings, after)
	res.parts = plan.Parts
	return res, true
}

// afterPart returns a shard as a transaction leaves it.
func afterPart(b *table.Bucket, g *table.MultiSpend) *table.Bucket {
	for i := range g.Parts {
		part := &g.Parts[i]
		if part.Key != b.Key {
			continue
		}
		after := *b
		after.Limits = make([]table.Limit, len(b.Limits))
		copy(after.Limits, b.Limits)
		for _, l := range part.Limits {
			of := after.Find(l.Name)
			of.Drawn = l.Change.Apply(of.Drawn)
		}
		return &after
	}
	return b
}
