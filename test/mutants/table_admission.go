package main

// planMutants change the planner of a bucket's writes, and the plans of its shards.
func planMutants() []mutant {
	const plan, sharded, store = "services/admission/plan.go", "internal/shards/plan.go", "internal/shards/store.go"
	return []mutant{
		{name: "denies-by-old-state", file: plan, old: `case short && shortAlone && d.isFreshFor(op):`, new: `case short && shortAlone:`},
		{name: "denies-for-those-before", file: plan, old: `case short && shortAlone && d.isFreshFor(op):`, new: `case short && d.isFreshFor(op):`},
		{name: "fresh-for-any-asker", file: plan, old: `return d.fresh && op.since <= d.seenAt`, new: `return d.fresh`},
		{name: "acquire-without-condition", file: plan, old: `			l.tally.Spend(costOf(op.amounts, l.Name))
			l.touched = true`, new: `			l.tally.Spend(costOf(op.amounts, l.Name))
			l.touched = op.amounts != nil && costOf(op.amounts, l.Name) > 0`},
		{name: "acquire-of-some-limits", file: plan, old: `		short = short || l.tally.Balance() < cost`, new: `		short = l.tally.Balance() < cost`},
		{name: "removed-limits-refuse", file: plan, old: `		if !l.active {
			continue
		}`, new: ``},
		{name: "debits-under-any-settings", file: plan, old: `d.spends || d.debits || d.clamped`, new: `d.spends || d.clamped`},
		{name: "clamped-credit-without-guard", file: plan, old: `d.spends || d.debits || d.clamped`, new: `d.spends || d.debits`},
		{name: "refund-makes-a-bucket", file: plan, old: `	if d.absent {
		return verdictDrop
	}`, new: ``},
		{name: "refund-keeps-the-acquire", file: plan, old: `	d.acquires -= op.undone
`, new: ``},
		{name: "deep-debt-expires", file: plan, old: `			if !l.tally.CapDebt(debtFills * l.window.Capacity) {`, new: `			if false {`},
		{name: "shard-expires", file: plan, old: `if d.settings.Permanent || d.item.Level != 1 {`, new: `if d.settings.Permanent {`},
		{name: "own-limits-expire", file: plan, old: `if d.settings.Permanent || d.item.Level != 1 {`, new: `if d.item.Level != 1 {`},
		{name: "kept-limit-expires", file: plan, old: `	return len(d.settings.Limits) == len(d.item.Limits)`, new: `	return true`},
		{name: "new-bucket-is-empty", file: plan, old: `Drawn: l.Window(b.Shard(), now).Full()}`, new: `Drawn: l.Window(b.Shard(), now).Refilled}`},

		{name: "multi-spend-under-any-settings", file: sharded, old: `c.Key, c.Level, c.Fingerprint, c.Guarded = t[i].Key, t[i].Level, t[i].Fingerprint, true`, new: `c.Key, c.Level, c.Fingerprint = t[i].Key, t[i].Level, t[i].Fingerprint`},
		{name: "multi-spend-is-many-acquires", file: sharded, old: `		if len(g.Parts) == 0 {
			c.Acquires = 1
		}`, new: `		c.Acquires = 1`},
		{name: "multi-spend-of-zero-anywhere", file: sharded, old: `		if p.Limit.Window(s.Shard, now).Balance(s.Drawn) < 0 {
			continue
		}
`, new: ``},
		{name: "multi-spend-mints-the-rest", file: sharded, old: `	if missing > 0 {
		return takes
	}
`, new: ``},
		{name: "merge-of-a-full-shard-is-exact", file: sharded, old: `GoneExact: goes != nil && goes.Drawn == most`, new: `GoneExact: goes != nil`},
		{name: "sync-forgets-a-drawn-limit", file: "internal/shards/sync.go", old: `			s.Dropped = append(s.Dropped, table.DroppedLimit{Limit: l.Limit, Max: drawn})
		}`, new: `		}
		s.Dropped = append(s.Dropped, table.DroppedLimit{Limit: l.Limit, Max: max(drawn, l.Drawn)})`},
		{name: "sync-without-end", file: "internal/shards/sync.go", old: `	if s.From == s.To && len(s.Dropped) == 0 {
		return nil
	}
`, new: ``},

		{name: "doubles-twice", file: store, old: `		if tree.Wanted() != from {`, new: `		if tree.Wanted() > 2*from {`},
		{name: "spreads-what-is-not-wanted", file: store, old: `			if ChildOf(b).Shard >= tree.Wanted() {
				continue
			}`, new: `			if ChildOf(b).Shard > tree.Wanted() {
				continue
			}`},
		{name: "merges-under-two-settings", file: store, old: `		if into.Fingerprint != gone.Fingerprint {`, new: `		if false {`},
		{name: "lowers-what-another-raised", file: store, old: `case wanted > to && !lowered:`, new: `case wanted > to:`},
		{name: "reads-half-a-tree", file: store, old: `		if tree.Whole() {`, new: `		if len(tree) >= 0 {`},
	}
}
