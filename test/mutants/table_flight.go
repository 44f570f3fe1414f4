package main

// flightMutants change a writer at work, and the routing between shards and levels.
func flightMutants() []mutant {
	const commit, flight, dynamo = "services/admission/commit.go", "services/admission/flight.go", "services/admission/dynamo.go"
	const multi, cascade = "services/admission/multi_shard_spend.go", "services/admission/cascade_answer.go"
	return []mutant{
		{name: "acquire-in-doubt-is-repeated", file: commit, old: `if q.settle && !q.refund && !q.repeated {`, new: `if !q.refund && !q.repeated {`},
		{name: "refund-in-doubt-is-repeated", file: commit, old: `if q.settle && !q.refund && !q.repeated {`, new: `if q.settle && !q.repeated {`},
		{name: "debit-in-doubt-is-forgotten", file: commit, old: `if q.settle && !q.refund && !q.repeated {`, new: `if false {`},
		{name: "doubtful-state-is-kept", file: commit, old: `	f.known.forget()
	failures := f.throttles`, new: `	failures := f.throttles`},
		{name: "refused-writes-cost-nothing", file: commit, old: `		f.known.owedUnits += cost
`, new: ``},
		{name: "counted-units-stay-owed", file: commit, old: `f.known.owedUnits, f.known.unitCost = 0, w.units`, new: `f.known.unitCost = w.units`},
		{name: "any-nonce-is-ours", file: dynamo, old: `if item != nil && item.LastWrite == nonce {`, new: `if item != nil {`},
		{name: "our-nonce-is-nobodys", file: dynamo, old: `if item != nil && item.LastWrite == nonce {`, new: `if false {`},
		{name: "the-sdk-repeats-writes", file: dynamo, old: `func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }`, new: `func(*dynamodb.Options) {}`},
		{name: "conflict-is-a-failure", file: dynamo, old: `	case store.Throttled, store.Conflict:
		return answer{outcome: outcomeThrottled, err: err}`, new: `	case store.Throttled:
		return answer{outcome: outcomeThrottled, err: err}
	case store.Conflict:
		return answer{outcome: outcomeFailed, err: err}`},
		{name: "index-throttle-is-a-hot-shard", file: dynamo, old: `strings.HasPrefix(aws.ToString(r.Reason), "TableWriteKeyRange")`, new: `strings.Contains(aws.ToString(r.Reason), "KeyRange")`},
		{name: "spends-after-the-deadline", file: flight, old: `		case q.deadline <= now, errClock == nil && q.expired(stored):`, new: `		case errClock == nil && q.expired(stored):`},
		{name: "spends-after-the-callers-deadline", file: flight, old: `		case q.deadline <= now, errClock == nil && q.expired(stored):`, new: `		case q.deadline <= now:`},
		{name: "one-shard-denies-for-all", file: flight, old: `if !q.settle && !q.part && f.known.item != nil && f.known.item.Level > 1 {`, new: `if false {`},
		{name: "moved-by-old-state", file: flight, old: `	if !f.known.absent || late {`, new: `	if !f.known.absent {`},
		{name: "acquire-for-other-settings", file: flight, old: `		if !isMadeFor(&q.operation, f.key.Entity, settings) {
			q.answer(shardResult{verdict: verdictMoved, settings: settings})
			continue
		}
		switch`, new: `		switch`},
		{name: "failed-refund-is-forgotten", file: flight, old: `			f.postpone(q)
			continue`, new: `			_ = f.postpone`},
		{name: "state-never-ages", file: "services/admission/knowledge.go", old: `fresh: mono-k.seenAt <= maxDenialAge,`, new: `fresh: true,`},
		{name: "unknown-counts-as-absent", file: "services/admission/knowledge.go", old: `v.fresh = v.fresh && k.absent`, new: `v.fresh = v.fresh && (k.absent || k.item == nil)`},
		{name: "settles-a-limit-by-old-state", file: "services/admission/knowledge.go", old: `&& (k.seenAt < q.received || k.item == nil && !k.absent)`, new: `&& k.item == nil && !k.absent`},
		{name: "changed-settings-go-unnoticed", file: "services/admission/governance.go", old: `	case differs: // another node wrote under other settings
		return needCertain
`, new: ``},
		{name: "a-short-shard-denies-for-all", file: multi, old: `case !whole.holds(s.amounts) && s.foundShort:`, new: `case false:`},
		{name: "multi-spend-of-mixed-settings", file: multi, old: `case !tree.Synced(settings.Fingerprint):`, new: `case false:`},
		{name: "multi-spend-in-doubt-is-repeated", file: multi, old: `	case errors.Is(err, shards.ErrUnknown):
		return s.failed(errUnknown), true
`, new: `	case errors.Is(err, shards.ErrUnknown):
		return result{}, false
`},
		{name: "sums-of-refunds-lose-a-part", file: "services/admission/refund.go", old: `		amounts[i].Tokens = max(amounts[i].Tokens+a.Tokens, -maxRefund)`, new: `		amounts[i].Tokens = min(amounts[i].Tokens, a.Tokens)`},
		{name: "sums-of-refunds-lose-acquires", file: "services/admission/refund.go", old: `	q.undone += more.undone
`, new: ``},
		{name: "cascade-refund-keeps-the-acquire", file: cascade, old: `			if i == 0 {
				op.undone = 1
			}`, new: ``},
		{name: "cascade-refund-of-no-level", file: cascade, old: `		if l.standing != standingSpent {
			continue
		}
		for i, part`, new: `		if l.standing == standingSpent {
			continue
		}
		for i, part`},
		{name: "cascade-denies-by-unsure-levels", file: cascade, old: `	if sure, err := c.peekAtTheRest(); !sure || err != nil {`, new: `	if _, err := c.peekAtTheRest(); err != nil {`},
	}
}
