package admission

import "github.com/tidegate/tidegate/pkg/api"

// refund refunds the levels that were spent from for an acquire that is not admitted. It
// returns when all refunds are written, or when the answer is due.
func (c *cascade) refund() {
	var refunds []subcall
	var of []*level
	for _, l := range c.levels {
		if l.standing != standingSpent {
			continue
		}
		for i, part := range l.state.spent(c.call.amounts) {
			op := operation{amounts: part.refund()}
			if i == 0 {
				op.undone = 1
			}
			refunds, of = append(refunds, subcall{l.shard(part.shard), op}), append(of, l)
		}
	}
	awaitRefunds(refundAll(refunds, c.call.request), len(refunds), c.left(), func(i int, res result) {
		switch l := of[i]; {
		case l.state.others != nil:
			l.standing = standingUnknown // to be read as a whole
		case res.err == nil && res.item != nil:
			l.state.item, l.state.now, l.state.later = res.item, res.now, nil
		}
	})
}

// admit answers that all levels were spent from.
func (c *cascade) admit() {
	levels := make([]*result, len(c.levels))
	for i, l := range c.levels {
		levels[i] = &l.state
	}
	c.replier.admit(levels)
}

// deny answers how all levels stand, and when the same request would pass. It reports
// false if by now the request may pass: then it answers nothing.
func (c *cascade) deny() (denied bool, err error) {
	if sure, err := c.peekAtTheRest(); !sure || err != nil {
		return false, err
	}
	states := make([]*result, len(c.levels))
	for i, l := range c.levels {
		states[i] = &l.state
	}
	statuses, wait, holds := verdictOver(states, c.call.amounts)
	if holds {
		return false, nil
	}
	c.replier.deny(statuses, wait)
	return true, nil
}

// peekAtTheRest brings the states that a denial has to show and that are unknown, or too
// old: at most a read per second and bucket. It reports false if a level's settings have
// changed.
func (c *cascade) peekAtTheRest() (sure bool, err error) {
	var rest []*level
	var peeks []subcall
	for _, l := range c.levels {
		switch l.standing {
		case standingSpent, standingRefused, standingShort:
			continue
		case standingAmple:
			if state, age, ok := l.snapshotUnder(l.state.now, l.settings); ok && age <= maxDenialAge {
				l.state = state
				continue
			}
		case standingUnknown, standingDoubtful, standingMoved, standingFailed:
		}
		rest = append(rest, l)
		peeks = append(peeks, subcall{l.member, operation{peek: true}})
	}
	sure = true
	for i, res := range askAll(peeks, c.call.asker) {
		if res.err != nil && !isNoLimits(res.err) {
			return false, res.err
		}
		sure = sure && res.err == nil && res.settings.Fingerprint == rest[i].settings.Fingerprint
		rest[i].state = res
	}
	return sure, nil
}

// failure returns the error to answer with after levels failed. An outage of the store
// comes first, because then tokens may be spent.
func (c *cascade) failure() error {
	var failure error
	for _, l := range c.levels {
		if l.standing != standingFailed {
			continue
		}
		if failure == nil || isOutage(l.state.err) {
			failure = l.state.err
		}
	}
	return failure
}

// spentPart is the part of an acquire that was spent from a shard.
type spentPart struct {
	shard int
	held  api.Amounts // in whole tokens, an amount for each limit that applies, also for 0 tokens
}

// refund returns the amounts that undo the part.
func (p *spentPart) refund() api.Amounts {
	var all api.Amounts
	for _, h := range p.held {
		if h.Tokens > 0 {
			all = append(all, api.Amount{Name: h.Name, Tokens: -h.Tokens})
		}
	}
	return all
}
