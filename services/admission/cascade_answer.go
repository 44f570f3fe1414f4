package admission

import (
	"errors"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// takeBack refunds the levels that were spent from for an acquire that is not
// admitted. It returns when all refunds are written, or when the answer is due.
func (c *cascade) takeBack() {
	var refunds []errand
	var of []*level
	for _, l := range c.levels {
		if l.standing != standingSpent {
			continue
		}
		for i, part := range l.state.leaseLevels(c.req.Consume) {
			op := operation{amounts: part.Refund()}
			if i == 0 {
				op.undone = 1
			}
			refunds, of = append(refunds, errand{l.shard(part.Shard), op}), append(of, l)
		}
	}
	awaitRefunds(giveBackTogether(refunds, c.request), len(refunds), c.request, func(i int, res result) {
		switch l := of[i]; {
		case l.state.others != nil:
			l.standing = standingUnknown // to be read as a whole
		case res.err == nil && res.item != nil:
			l.state.item, l.state.now, l.state.later = res.item, res.now, nil
		}
	})
}

// admit answers with a lease over all levels.
func (c *cascade) admit() {
	reply := &api.AcquireReply{Allowed: true}
	var at bucket.Instant
	levels := make([]lease.Level, 0, len(c.levels))
	for _, level := range c.levels {
		at = max(at, level.state.now)
		levels = append(levels, level.state.leaseLevels(c.req.Consume)...)
		reply.Limits = append(reply.Limits, level.state.statuses(c.req.Consume)...)
	}
	var err error
	if reply.Lease, err = c.service.leases.Issue(c.namespaceID, at, levels); err != nil {
		c.refuse(asError(err))
		return
	}
	c.respond(encode(reply))
}

// deny answers with how all levels stand, and when the same request would pass.
// It reports false when, by now, it may pass: then nothing is answered.
func (c *cascade) deny() (denied bool, err error) {
	if sure, err := c.lookAtTheRest(); !sure || err != nil {
		return false, err
	}
	states := make([]*result, len(c.levels))
	for i, l := range c.levels {
		states[i] = &l.state
	}
	statuses, wait, holds := verdictOver(states, c.req.Consume)
	if holds {
		return false, nil
	}
	c.acquisition.deny(&api.AcquireReply{RetryAfterMs: wait, Never: wait == neverMs, Limits: statuses})
	return true, nil
}

// lookAtTheRest brings the state of the levels that a denial has to tell of and
// that is not known, or too old: one read per second and bucket at most. It
// reports false when a level's settings have changed.
func (c *cascade) lookAtTheRest() (sure bool, err error) {
	var rest []*level
	var errands []errand
	for _, l := range c.levels {
		switch l.standing {
		case standingSpent, standingRefused, standingShort:
			continue
		case standingAmple:
			if state, age, ok := l.sighted(l.state.now, l.settings); ok && age <= maxDenialAge {
				l.state = state
				continue
			}
		case standingUnknown, standingDoubtful, standingMoved, standingFailed:
		}
		rest = append(rest, l)
		errands = append(errands, errand{l.committer, operation{look: true}})
	}
	sure = true
	for i, res := range together(errands, c.asker()) {
		if res.err != nil && !isNoLimits(res.err) {
			return false, res.err
		}
		sure = sure && res.err == nil && res.settings.Fingerprint == rest[i].settings.Fingerprint
		rest[i].state = res
	}
	return sure, nil
}

func isNoLimits(err error) bool {
	var refusal *api.Error
	return errors.As(err, &refusal) && refusal.Code == api.CodeNoLimits
}

// failure is what to tell of levels that failed: that the store is the reason
// before everything else, because then tokens may be spent.
func (c *cascade) failure() error {
	var failure error
	for _, l := range c.levels {
		if l.standing != standingFailed {
			continue
		}
		if failure == nil || asError(l.state.err).Code == api.CodeUnavailable {
			failure = l.state.err
		}
	}
	return failure
}

// leaseLevels is what a lease says of a bucket that an acquire of amounts spent
// from, shard by shard. What was taken from several of them in parts of tokens is
// held in whole ones, no more in sum.
func (r *result) leaseLevels(amounts api.Amounts) []lease.Level {
	whole := r.leaseLevel(amounts)
	if r.gathered == nil {
		return []lease.Level{whole}
	}
	levels := make([]lease.Level, len(r.gathered))
	for i := range levels {
		part := &r.gathered[i]
		levels[i] = whole
		levels[i].Shard = part.Key.Shard
		levels[i].Held = make([]lease.Held, len(whole.Held))
	}
	for n, h := range whole.Held {
		var taken, held int64 // milli, tokens
		for i := range levels {
			taken += consumedOf(&r.gathered[i], h.Limit)
			tokens := bucket.Floor(taken) - held
			held += tokens
			levels[i].Held[n] = lease.Held{Limit: h.Limit, Tokens: tokens}
		}
	}
	return levels
}

// consumedOf is what a write takes of a limit, in millitokens.
func consumedOf(c *table.Commit, limit string) int64 {
	for i := range c.Limits {
		if c.Limits[i].Name == limit {
			return c.Limits[i].Consumed
		}
	}
	return 0
}

// leaseLevel is what a lease says of a level that an acquire of amounts spent from.
func (r *result) leaseLevel(amounts api.Amounts) lease.Level {
	level := lease.Level{
		Entity:   r.item.Key.Entity,
		Resource: r.item.Key.Resource,
		Shard:    r.item.Key.Shard,
		Held:     make([]lease.Held, 0, len(r.item.Limits)),
	}
	for i := range r.item.Limits {
		if r.governed(i) {
			name := r.item.Limits[i].Name
			tokens, _ := amounts.Get(name)
			level.Held = append(level.Held, lease.Held{Limit: name, Tokens: tokens})
		}
	}
	if _, override := baseResource(level.Resource); override {
		level.Brought = broughtTo(r.item)
	}
	return level
}
