package admission

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// The ledger is an account of the explorer's writes in its own, naive arithmetic: it uses
// no function of package bucket, and knows nothing of ranges.

// entryOf is a part of a commit or a create: an operation, or the sum of refunds.
type entryOf struct {
	ops    uint8 // bits of the explorer's operations
	kind   opKind
	milli  [limitsExplored]int64 // millitokens; positive, also of a refund
	settle bool
	part   int // of a refund: the shard that it was spent from, which may be another than it is written to
}

// below divides and rounds down.
func below(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func refilledOf(l *bucket.Limit, b *table.Bucket, now bucket.Instant) int64 {
	return below(below(int64(now)*l.Refill, l.Period)+int64(b.Key.Shard), int64(b.Level))
}

func capacityOf(l *bucket.Limit, b *table.Bucket) int64 {
	return below(l.Capacity+int64(b.Key.Shard), int64(b.Level))
}

// balanceOf returns the balance of a limit on a shard, in millitokens.
func balanceOf(l *table.Limit, b *table.Bucket, now bucket.Instant) int64 {
	return min(capacityOf(&l.Limit, b), refilledOf(&l.Limit, b, now)-l.Drawn)
}

// notFull returns a drawn count, as that of a bucket just full where it is full.
func notFull(l *table.Limit, b *table.Bucket, now bucket.Instant) int64 {
	return max(l.Drawn, refilledOf(&l.Limit, b, now)-capacityOf(&l.Limit, b))
}

// audit says what is wrong with the effect of a write; empty if it is what the write was
// planned for. The items before have counters of 0.
func (c *catalog) audit(w *storedWrite, before [shardsExplored]itemID, after [shardsExplored]*table.Bucket) string {
	var old [shardsExplored]*table.Bucket
	for i := range before {
		old[i] = c.bucket(before[i])
	}
	f, now := &w.form, exploredInstants[w.at]
	switch {
	case f.create != nil:
		b := after[w.shard]
		if old[w.shard] != nil {
			return "a create overwrote an item"
		}
		full := *b
		full.Limits = append([]table.Limit(nil), b.Limits...)
		for i := range full.Limits {
			l := &full.Limits[i]
			l.Drawn, l.Consumed = refilledOf(&l.Limit, b, now)-capacityOf(&l.Limit, b), 0
		}
		return auditEntries(f.entries, &full, b, now)
	case f.commit != nil:
		if old[w.shard] == nil {
			return "a commit made an item"
		}
		if w.form.commit.Guarded && old[w.shard].Fingerprint != f.commit.Fingerprint {
			return "a spend was written to an item of other settings"
		}
		return auditEntries(f.entries, old[w.shard], after[w.shard], now)
	case f.sync != nil:
		return auditSync(f.sync, old[w.shard], after[w.shard], now)
	case f.multi != nil:
		return auditMulti(f, old, after, now)
	case f.split != nil:
		return auditSplit(old[0], after)
	case f.merge != nil:
		return auditMerge(old, after[0], now)
	}
	return ""
}

// auditEntries repeats the operations of a commit, in order, each under its own condition.
func auditEntries(entries []entryOf, old, b *table.Bucket, now bucket.Instant) string {
	var acquires int64
	for _, e := range entries {
		if e.kind == opAcquire {
			acquires++
		}
	}
	if b.Acquires != acquires && old.Acquires == 0 {
		return fmt.Sprintf("a write of %d acquires counted %d", acquires, b.Acquires)
	}
	for i := range old.Limits {
		l := old.Limits[i]
		n := limitNumber(l.Name)
		consumed := int64(0)
		for _, e := range entries {
			cost := e.milli[n]
			switch e.kind {
			case opAcquire:
				if held := balanceOf(&l, old, now); held < cost {
					return fmt.Sprintf("P1, P3: an acquire of %d of %s was written, when the shard held %d", cost, l.Name, held)
				}
				if cost > 0 {
					l.Drawn = notFull(&l, old, now) + cost
				}
				consumed += cost
			case opDebit:
				if cost > 0 {
					l.Drawn = notFull(&l, old, now) + cost
				}
				consumed += cost
			case opRelease, opGive:
				l.Drawn -= cost
				consumed -= cost
			}
		}
		got := b.Find(l.Name)
		if got == nil || got.Drawn != l.Drawn || got.Limit != l.Limit {
			return fmt.Sprintf("a write left %+v, and its operations in turn leave %+v", got, l)
		}
		if got.Consumed != consumed {
			return fmt.Sprintf("P7: a write that consumed %d of %s counted %d", consumed, l.Name, got.Consumed)
		}
	}
	return ""
}

func auditSync(s *table.Sync, old, b *table.Bucket, now bucket.Instant) string {
	switch {
	case old == nil:
		return "a sync made an item"
	case old.Fingerprint != s.From:
		return "a sync changed an item of other settings"
	}
	for i := range b.Limits {
		l := &b.Limits[i]
		was := old.Find(l.Name)
		if was == nil {
			continue // a new limit is full
		}
		if refilledOf(&was.Limit, old, now)-was.Drawn != refilledOf(&l.Limit, b, now)-l.Drawn {
			return fmt.Sprintf("a sync changed the balance of %s", l.Name)
		}
	}
	for i := range old.Limits {
		if l := &old.Limits[i]; b.Find(l.Name) == nil && balanceOf(l, old, now) < capacityOf(&l.Limit, old) {
			return fmt.Sprintf("a sync dropped %s, which was not full", l.Name)
		}
	}
	return ""
}

func auditMulti(f *formOf, old, after [shardsExplored]*table.Bucket, now bucket.Instant) string {
	var taken, held [limitsExplored]int64
	for i := range old {
		if old[i] == nil {
			continue
		}
		for n := range old[i].Limits {
			l, got := &old[i].Limits[n], &after[i].Limits[n]
			limit := limitNumber(l.Name)
			held[limit] += max(0, balanceOf(l, old[i], now))
			if got.Drawn != l.Drawn {
				if balanceOf(got, old[i], now) < 0 {
					return fmt.Sprintf("P1: a multi-shard spend put %s of shard %d into debt", l.Name, i)
				}
				taken[limit] += got.Drawn - notFull(l, old[i], now)
			}
		}
	}
	for n, cost := range f.entries[0].milli {
		if taken[n] != cost || held[n] < cost {
			return fmt.Sprintf("P3: a multi-shard spend of %d took %d of %d", cost, taken[n], held[n])
		}
	}
	return ""
}

func auditSplit(old *table.Bucket, after [shardsExplored]*table.Bucket) string {
	for i := range old.Limits {
		l := &old.Limits[i]
		if sum := after[0].Find(l.Name).Drawn + after[1].Find(l.Name).Drawn; sum != l.Drawn {
			return fmt.Sprintf("a split of %d of %s left %d", l.Drawn, l.Name, sum)
		}
	}
	return ""
}

func auditMerge(old [shardsExplored]*table.Bucket, b *table.Bucket, now bucket.Instant) string {
	for i := range b.Limits {
		l := &b.Limits[i]
		var sum, gone int64
		for n := range old {
			was := old[n].Find(l.Name)
			if was == nil {
				return ""
			}
			gone = notFull(was, old[n], now)
			sum += gone
		}
		if l.Drawn < sum || l.Drawn > sum && old[1].Find(l.Name).Drawn == gone {
			return fmt.Sprintf("a merge of %d drawn of %s left %d", sum, l.Name, l.Drawn)
		}
	}
	return ""
}

// available returns the tokens that a bucket holds of each limit, debts counted.
func (x *explorer) available(items [shardsExplored]itemID, now uint8) *[limitsExplored]int64 {
	key := availableKey{items, now}
	if sum, ok := x.balances[key]; ok {
		return sum
	}
	sum := new([limitsExplored]int64)
	for n := range sum {
		name, found := exploredLimits[n], false
		for _, id := range items {
			if id == noItem {
				continue
			}
			b := x.catalog.bucket(id)
			if l := b.Find(name); l != nil {
				found = true
				sum[n] += balanceOf(l, b, exploredInstants[now])
			}
		}
		if !found {
			sum[n] = x.most[n].Capacity
		}
	}
	x.balances[key] = sum
	return sum
}

type availableKey struct {
	items [shardsExplored]itemID
	now   uint8
}

// wrong says how a state breaks a promise; empty where it does not. In every window that
// ends now, what was spent and what could be spent now are at most the capacity, the
// refill and the credits of the window: P1 for all that was admitted, for the writes of
// unknown outcome, and for the next acquires.
func (x *explorer) wrong(s *state) string {
	sum := x.available(s.items, s.now)
	now := exploredInstants[s.now]
	for n := range sum {
		l := &x.most[n]
		total := sum[n]
		for from := int(s.now); from >= 0; from-- {
			total += int64(s.spent[n][from])*bucket.Milli - int64(s.given[n][from])*bucket.Milli
			refill := below(int64(now)*l.Refill, l.Period) - below(int64(exploredInstants[from])*l.Refill, l.Period)
			if total > l.Capacity+refill+x.slack {
				return fmt.Sprintf("P1: of %s, %d are spent or there since instant %d; %d and %d of refill are allowed",
					l.Name, total, from, l.Capacity, refill)
			}
		}
	}
	for i := range x.ops {
		o, op := &s.ops[i], &x.ops[i]
		switch {
		case op.kind == opDebit && o.applied > 2, op.kind == opAcquire && o.applied > 1:
			return fmt.Sprintf("P6: operation %d was applied %d times", i, o.applied)
		case o.phase == phaseDone && o.applied == 0:
			return fmt.Sprintf("operation %d is done, and was never applied", i)
		case o.phase == phaseRefused && o.applied > 0:
			return fmt.Sprintf("operation %d was denied, and is applied", i)
		}
		// A lease never gives back more than the table has drawn for it.
		if op.kind != opAcquire && op.kind != opDebit && o.applied > 0 && s.ops[op.of].applied == 0 {
			return fmt.Sprintf("operation %d gave back what operation %d had not drawn", i, op.of)
		}
	}
	return ""
}

// holdsNaively reports whether shards hold a cost together.
func holdsNaively(items []*table.Bucket, cost *[limitsExplored]int64, now bucket.Instant) bool {
	for n, name := range exploredLimits {
		sum, found := int64(0), false
		for _, b := range items {
			if l := b.Find(name); l != nil {
				sum += balanceOf(l, b, now)
				found = true
			}
		}
		if found && sum < cost[n] {
			return false
		}
	}
	return true
}
