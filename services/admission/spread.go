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

// hastyRounds is how often an acquire on a bucket of several shards starts again at
// once, because a shard had not what it was seen to have, or was not there any more.
// From then on it waits before it does, until its time is up.
const hastyRounds = 8

// formGather is a spend from several shards, as metrics name it.
const formGather = "gather"

// spread is one acquire, or look, on a bucket of several shards. It runs apart and
// asks the committers of the shards, so that its neighbours share their writes.
//
//	all shards together hold it, debts counted? ── no ──▶ denied
//	                  │ yes
//	                  ▼
//	the shard used last, or a better one ──▶ admitted
//	                  │ short
//	                  ▼
//	gather: one transaction ──▶ admitted
type spread struct {
	*call
	first *committer      // of shard 0
	ctx   context.Context //nolint:containedctx // the time of one call, which this is
	// surprised says that a shard had less than it was seen to have.
	surprised bool
	// united says that the call has waited for the shards of a bucket in debt to merge.
	united bool
}

// spread takes a call over from the committer of shard 0.
func (s *Service) spread(first *committer, q *call) {
	first.spreading.Add(1)
	s.flights.Go(func() {
		defer first.spreading.Add(-1)
		defer func() {
			if cause := recover(); cause != nil {
				s.logPanic(about(s.abort, q), cause)
				q.answer(result{err: errInternal})
			}
		}()
		ctx, cancel := context.WithTimeout(s.abort, max(0, q.answerBy-s.clock.Mono()))
		defer cancel()
		w := &spread{call: q, first: first, ctx: ctx}
		res := w.run()
		if res.err == nil && res.verdict == verdictDeny {
			first.noteDenial()
		}
		if res.err == nil && res.verdict == verdictCommit && q.prepare != nil {
			q.prepare(res)
		}
		q.answer(res)
	})
}

// run decides.
func (w *spread) run() result {
	for round := 0; ; round++ {
		if round >= hastyRounds {
			_ = store.Pause(w.ctx, round-hastyRounds)
		}
		if w.ctx.Err() != nil {
			return w.failed(errStoreSlow)
		}
		settings, end := w.settle()
		if end != nil {
			return *end
		}
		tree, err := w.first.tree(w.ctx)
		if err != nil {
			return w.failed(err)
		}
		if len(tree) <= 1 { // merged, or gone, meanwhile: then shard 0 is all there is
			if res, done := w.askShard(0, tree, false); done {
				return res
			}
			continue
		}
		w.complete(tree)
		w.first.noteWanted(tree.Wanted())
		now, err := w.first.node.clock.Now()
		if errors.Is(err, store.ErrClockUnchecked) {
			now, err = w.checkClock()
		}
		if err != nil {
			return w.failed(err)
		}
		if w.expired(now) {
			return w.failed(errLate)
		}
		if res, done := w.try(now, tree, settings); done {
			return res
		}
	}
}

// try makes one attempt on the bucket as it is known. It is not done where that turns
// out to be old.
func (w *spread) try(now bucket.Instant, tree shards.Tree, settings *config.Resolved) (res result, done bool) {
	counted := standingOf(now, tree, settings)
	whole := w.shown(counted, settings, now, verdictDeny)
	debt := whole.indebted()
	if debt && !w.united && whole.late() {
		w.united = true
		select {
		case <-w.first.unite().done:
			return result{}, false
		case <-w.ctx.Done(): // and what is known decides
		}
	}
	if w.look {
		whole.verdict = verdictShow
		return whole, true
	}
	if !debt || whole.holds(w.amounts) {
		if shard, elsewhere := w.first.choose(now, counted, settings, w.amounts); shard >= 0 {
			return w.askShard(shard, tree, elsewhere)
		}
	}
	switch {
	case !whole.holds(w.amounts) && w.surprised:
		// What is known of the others is as old as what was known of this one.
		w.surprised = false
		w.first.whole.Store(nil)
		return result{}, false
	case !whole.holds(w.amounts):
		return whole, true
	case !tree.Synced(settings.Fingerprint):
		w.sync(tree, settings)
		return result{}, false
	}
	return w.gather(now, tree, settings)
}

func (w *spread) failed(err error) result {
	return result{err: w.cause(err), settings: w.first.settings.Load()}
}

// checkClock asks the store, whose answer says what the time is after this machine's
// clock was set: what is known of the shards may be young enough to ask nobody. A read
// that was under way when the clock was set says nothing, so that a second one may be
// needed.
func (w *spread) checkClock() (now bucket.Instant, err error) {
	for range 2 {
		read := w.first.readWhole()
		select {
		case <-w.ctx.Done():
			return 0, errStoreSlow
		case <-read.done:
		}
		if now, err = w.first.node.clock.Now(); err == nil {
			break
		}
	}
	return now, err
}

// settle brings the settings that hold. It ends the call where these are not those
// that it was made for, or lack a limit that it names.
func (w *spread) settle() (*config.Resolved, *result) {
	settings := w.first.current()
	if settings == nil || unknownLimit(settings, w.operation) != "" {
		res := w.ask(0, operation{look: true, amounts: w.amounts, part: true})
		if settings = res.settings; res.err != nil || settings == nil {
			return nil, &res
		}
	}
	if !w.first.suits(w.call, settings) {
		return nil, &result{verdict: verdictMoved, settings: settings}
	}
	if name := unknownLimit(settings, w.operation); name != "" && !w.look {
		return nil, &result{err: unknownLimitError(settings, w.first.key, name)}
	}
	return settings, nil
}

// ask asks one shard.
func (w *spread) ask(shard int, op operation) result {
	return together([]errand{{w.first.shard(shard), op}}, w.asker)[0]
}

// shard is the committer of a shard of the bucket.
func (c *committer) shard(number int) *committer {
	if number == c.key.Shard {
		return c
	}
	key := c.key
	key.Shard = number
	of := c.node.committer(key)
	if given := c.given.Load(); given != nil {
		of.give(*given)
	}
	return of
}

// askShard spends from one shard. It is not done where the shard is short of it, or
// gone, or throttled while others are not: they may hold it.
func (w *spread) askShard(shard int, tree shards.Tree, elsewhere bool) (res result, done bool) {
	op := operation{look: w.look, amounts: w.amounts, under: w.under, part: true, elsewhere: elsewhere}
	if read := w.first.whole.Load(); read != nil {
		op.since = read.at
		if b := read.tree.Find(shard); b != nil {
			w.first.shard(shard).offer(b, read.at)
		}
	}
	res = w.ask(shard, op)
	switch {
	case res.err != nil:
		return res, true
	case res.verdict == verdictMoved && res.settings == nil:
		w.first.whole.Store(nil)
		return res, false
	case res.verdict == verdictHot:
		return res, false
	case res.verdict == verdictDeny && res.item.Level > 1:
		if b := tree.Find(shard); b == nil || b.Level != res.item.Level || w.first.sightOf(res.item.Key) == nil {
			w.first.whole.Store(nil) // what it has shown is not to be seen in the tree
		}
		w.surprised = true
		return res, false
	case res.verdict == verdictCommit:
		w.first.lastShard.Store(int32(shard)) //nolint:gosec // below MaxShards
		w.widen(&res, tree)
	}
	return res, true
}

// widen adds the other shards to the one that was spent from. Where that has split
// or merged, they are read again; nobody waits for that beyond the call's time.
func (w *spread) widen(res *result, tree shards.Tree) {
	if b := tree.Find(res.item.Key.Shard); b == nil || b.Level != res.item.Level {
		w.first.whole.Store(nil)
		if res.item.Level == 1 {
			return
		}
		var err error
		if tree, err = w.first.tree(w.ctx); err != nil {
			return
		}
	}
	res.within(standingOf(res.now, tree, res.settings))
}

// shown is the whole of the bucket as an answer tells it.
func (w *spread) shown(tree shards.Tree, settings *config.Resolved, now bucket.Instant, v verdict) result {
	res := result{verdict: v, settings: settings, item: tree[0], now: now}
	res.within(tree)
	return res
}

// sync brings all shards to the settings: what is taken of several at once is
// taken under the same.
func (w *spread) sync(tree shards.Tree, settings *config.Resolved) {
	var errands []errand
	for _, b := range tree {
		if b.Fingerprint != settings.Fingerprint {
			errands = append(errands, errand{w.first.shard(b.Key.Shard), operation{look: true, sync: true, part: true}})
		}
	}
	together(errands, w.asker)
	w.first.whole.Store(nil)
}

// gather spends from several shards at once. It is not done where others spent
// what it was planned for.
func (w *spread) gather(now bucket.Instant, tree shards.Tree, settings *config.Resolved) (res result, done bool) {
	node := w.first.node
	plan := tree.PlanMultiSpend(now, func(limit string) (int64, bool) {
		return costOf(w.amounts, limit), settings.Governs(limit)
	}, node.nonce())
	if plan == nil {
		return result{}, false
	}
	asked := node.clock.Mono()
	ctx, end := w.first.trace(w.ctx, spanGather, []*call{w.call})
	applied, err := node.shards.Transact(ctx, plan.Writes(node.table))
	end(err)
	node.metrics.storeCall(formGather, node.clock.Mono()-asked, err)
	w.first.whole.Store(nil) // what is read next has it, or what was in its way
	switch {
	case errors.Is(err, shards.ErrUnknown):
		return w.failed(errUnknown), true
	case errors.Is(err, shards.ErrContended):
		return result{}, false // until the time is up
	case err != nil && w.ctx.Err() != nil:
		return w.failed(errStoreSlow), true
	case err != nil:
		node.logStore(about(w.ctx, w.call), "gather", w.first.key, err)
		return w.failed(errStoreDown), true
	case !applied:
		return result{}, false
	}
	after := make(shards.Tree, len(tree))
	for i, b := range tree {
		after[i] = afterPart(b, plan)
	}
	res = w.shown(after, settings, now, verdictCommit)
	res.gathered = plan.Parts
	return res, true
}

// afterPart is a shard as a gather leaves it.
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

// complete splits off the shards that are wanted and not there, beside everything else.
func (w *spread) complete(tree shards.Tree) {
	if !tree.Lacks() || !w.first.completing.CompareAndSwap(false, true) {
		return
	}
	first := w.first
	first.node.flights.Go(func() {
		defer first.completing.Store(false)
		ctx, cancel := context.WithTimeout(first.node.abort, maxTimeout)
		defer cancel()
		if _, err := first.node.shards.Spread(ctx, first.key); err != nil {
			first.node.logStore(ctx, "split shards", first.key, err)
		}
		first.whole.Store(nil)
	})
}
