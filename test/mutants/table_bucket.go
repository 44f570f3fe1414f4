package main

// bucketMutants change the arithmetic of token buckets, and their pools of shards.
func bucketMutants() []mutant {
	const tally, window, split = "pkg/bucket/tally.go", "pkg/bucket/window.go", "pkg/bucket/split.go"
	return []mutant{
		{name: "spend-of-zero-passes-a-debt", file: tally, old: `	if t.Balance() < cost {`, new: `	if cost > 0 && t.Balance() < cost {`},
		{name: "spend-of-zero-has-no-range", file: tally, old: `		t.atMost(t.window.Refilled)
`, new: ``},
		{name: "spend-range-reaches-into-debt", file: tally, old: `t.take(cost, t.window.Refilled-cost)`, new: `t.take(cost, t.window.Refilled)`},
		{name: "busy-without-lower-bound", file: tally, old: `	t.atLeast(t.window.Full())
`, new: ``},
		{name: "busy-without-upper-bound", file: tally, old: `	t.atMost(highest)
`, new: ``},
		{name: "idle-without-range", file: tally, old: `		t.atMost(t.window.Full() - 1)
`, new: ``},
		{name: "overflow-stays-spendable", file: tally, old: `	if t.window.Idle(t.drawn()) {`, new: `	if false {`},
		{name: "credit-without-lower-bound", file: tally, old: `	t.atLeast(lowest + k)
`, new: ``},
		{name: "credit-never-clamped", file: tally, old: `	if t.drawn() < lowest+k {`, new: `	if false {`},
		{name: "credit-not-counted", file: tally, old: `	t.consumed -= k
`, new: ``},
		{name: "spend-not-counted", file: tally, old: `	t.consumed += k
`, new: ``},
		{name: "debt-without-end", file: tally, old: `	if t.drawn() > deepest-k {`, new: `	if false {`},
		{name: "upper-bound-of-the-first-count", file: tally, old: `min(t.change.Max, drawn-t.change.Amount)`, new: `min(t.change.Max, drawn)`},
		{name: "lower-bound-of-the-first-count", file: tally, old: `max(t.change.Min, drawn-t.change.Amount)`, new: `max(t.change.Min, drawn)`},
		{name: "capped-debt-without-range", file: tally, old: `	t.atMost(most)
`, new: ``},

		{name: "idle-when-just-full", file: window, old: `return drawn < w.Full()`, new: `return drawn <= w.Full()`},
		{name: "grace-without-bound", file: window, old: `if !w.Idle(drawn) || l.Window(s, now-Instant(grace)).Idle(drawn) {`, new: `if !w.Idle(drawn) {`},
		{name: "balance-above-capacity", file: window, old: `return min(w.Capacity, w.Refilled-drawn)`, new: `return w.Refilled - drawn`},
		{name: "shares-lose-the-rest", file: "pkg/bucket/share.go", old: `floorDiv(x+int64(s.Index), int64(s.Count))`, new: `floorDiv(x, int64(s.Count))`},

		{name: "split-of-a-debt-for-any-count", file: split, old: `own.Amount, own.Min, own.Max = -childDrawn, drawn, drawn`, new: `own.Amount = -childDrawn`},
		{name: "split-leaves-a-debt", file: split, old: `	own.Max = keeps.Share(refilled) + childDrawn // the remaining half is not in debt either
`, new: `	_ = keeps
`},
		{name: "overflow-fills-the-other-half", file: split, old: `goneMax = max(gone.Drawn, l.Window(gone.Shard, now).Full())`, new: `goneMax = gone.Drawn`},
		{name: "merge-into-busy-without-range", file: split, old: `own.Amount, own.Min = goneMax, w.Full()`, new: `own.Amount = goneMax`},
		{name: "merge-into-idle-without-range", file: split, old: `own.Set, own.Amount, own.Max = true, w.Full()+goneMax, w.Full()-1`, new: `own.Set, own.Amount = true, w.Full()+goneMax`},
		{name: "removed-limit-goes-while-drawn", file: split, old: `return most, drawn <= most`, new: `return most, true`},
		{name: "sync-forgets-the-rate", file: split, old: `c.Amount = s.Share(to.Refilled(now)) - s.Share(from.Refilled(now))`, new: `c.Amount = 0`},

		{name: "tree-with-a-shard-twice", file: "pkg/bucket/tree.go", old: `if !s.Possible() || levels[s.Index] != 0 {`, new: `if !s.Possible() {`},
		{name: "tree-without-a-child", file: "pkg/bucket/tree.go", old: `exists != (level != 0)`, new: `!exists && level != 0`},
		{name: "pool-holds-less-than-it-has", file: "pkg/bucket/pool.go", old: `return p.Available(now) >= cost`, new: `return p.Available(now) > cost`},
		{name: "pool-takes-from-a-debt", file: "pkg/bucket/pool.go", old: `b := p.balance(i, now); b > 0`, new: `b := p.balance(i, now); b != 0`, equivalent: "a bucket that holds the cost covers it from the shards above 0 before a shard in debt is reached"},
	}
}

// formMutants change the write forms: what is written, and under which condition.
func formMutants() []mutant {
	const forms, sharded, expression = "internal/table/forms.go", "internal/table/shards.go", "internal/table/expression.go"
	return []mutant{
		{name: "commit-at-any-level", file: forms, old: `		e.requireEqual(attrLevel, number(int64(c.Level)))
`, new: ``},
		{name: "commit-under-any-settings", file: forms, old: `		e.requireEqual(attrPrint, text(c.Fingerprint))
`, new: ``},
		{name: "credit-makes-an-item", file: forms, old: `	} else {
		e.requireExists(attrPK)
	}
	for _, l := range c.Limits {`, new: `	}
	for _, l := range c.Limits {`},
		{name: "commit-without-nonce", file: forms, old: `	e.set(attrLastWrite, text(c.Nonce))
`, new: ``},
		{name: "commit-without-consumption", file: forms, old: `		e.add(consumedOf(l.Name), l.Consumed)
`, new: ``},
		{name: "create-over-an-item", file: forms, old: `	e.requireAbsent(attrPK)
	return &dynamodb.PutItemInput{`, new: `	e.requireAbsent("new")
	return &dynamodb.PutItemInput{`},
		{name: "sync-from-any-settings", file: forms, old: `	e.requireEqual(attrPrint, text(s.From))
`, new: ``},
		{name: "sync-of-a-changed-limit", file: forms, old: `		e.requireSettings(l.From)
`, new: ``},
		{name: "sync-refills-a-limit", file: forms, old: `		e.requireAbsent(drawnOf(l.Name))
`, new: ``},
		{name: "sync-drops-a-drawn-limit", file: forms, old: `		e.require(e.name(drawnOf(l.Limit.Name)), " <= ", e.value(number(l.Max)))
`, new: ``},
		{name: "sync-keeps-the-ttl", file: forms, old: `	e.remove(attrTTL)
	return updateInput(table, s.Key, e)`, new: `	return updateInput(table, s.Key, e)`},

		{name: "change-without-lower-bound", file: expression, old: `		e.require(e.name(drawn), " >= ", e.value(number(c.Min)))`, new: `		e.requireExists(drawn)`},
		{name: "change-without-upper-bound", file: expression, old: `		e.require(e.name(drawn), " <= ", e.value(number(c.Max)))`, new: `		e.requireExists(drawn)`},
		{name: "change-without-range", file: expression, old: `		e.require(e.name(drawn), " BETWEEN ", e.value(number(c.Min)), " AND ", e.value(number(c.Max)))`, new: `		e.requireExists(drawn)`},
		{name: "credit-makes-a-limit", file: expression, old: `	default:
		e.requireExists(drawn)
	}`, new: `	}`},
		{name: "set-becomes-add", file: expression, old: `		e.set(drawn, number(c.Amount))
	default:`, new: `		e.add(drawn, c.Amount)
	default:`},

		{name: "split-at-any-level", file: sharded, old: `	e.requireEqual(attrLevel, number(int64(s.Level)))
`, new: ``},
		{name: "split-of-a-shard-not-wanted", file: sharded, old: `			e.requireWantAbove(s.Child.Key.Shard)
`, new: ``},
		{name: "split-keeps-the-ttl", file: sharded, old: `	e.add(attrWriteUnits, s.WriteUnits)
	e.set(attrLastWrite, text(s.Nonce))
	e.remove(attrTTL)`, new: `	e.add(attrWriteUnits, s.WriteUnits)
	e.set(attrLastWrite, text(s.Nonce))`},
		{name: "merge-loses-late-spends", file: sharded, old: `		l.goes(gone)
`, new: ``},
		{name: "merge-loses-late-credits", file: sharded, old: `	if l.GoneExact {`, new: `	if false {`},
		{name: "merge-of-a-wanted-shard", file: sharded, old: `		into.requireWantAtMost(m.Gone.Shard)
`, new: ``},
		{name: "merge-at-any-level", file: sharded, old: `		c.requireEqual(attrLevel, number(int64(m.Level)))
`, new: ``},
		{name: "want-over-any-want", file: sharded, old: `		e.requireEqual(attrWant, number(int64(c.From)))`, new: `		e.requireExists(attrWant)`},

		{name: "usage-counts-twice", file: "internal/table/usage.go", old: `name, " < ", e.value(text(s.First))`, new: `name, " <= ", e.value(text(s.First))`},
		{name: "usage-watermark-stays-behind", file: "internal/table/usage.go", old: `		e.set(mark, text(s.Last))`, new: `		e.set(mark, text(s.First))`},
		{name: "replay-counts-twice", file: "internal/table/usage.go", old: `(NOT contains(", name, ", ", e.value(text(mark)), ") AND size(", name, ") < "`, new: `(size(", name, ") < "`},
	}
}
