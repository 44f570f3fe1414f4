package admission

import (
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// operation is a piece of work for a bucket shard: an acquire that spends whole tokens,
// the debits or the refunds of settlements, or a peek at the shard's state.
type operation struct {
	settle  bool
	refund  bool        // of a settlement: it gives back, by the sum of the refunds that waited for the shard
	undone  int64       // of a refund: acquires that it undoes, which then never happened
	settled int64       // of a refund: settlements that it is the sum of, undone acquires left out
	peek    bool        // spends nothing and is shown the known state
	amounts api.Amounts // whole tokens; negative in a refund
	// under is the fingerprint of the settings that the acquire of a cascade level was made
	// for. Empty: any settings that do not cascade.
	under string
	// part says that the operation concerns this shard alone: other shards may hold what it
	// lacks.
	part bool
	// elsewhere says, of a part, that it need not wait while this shard is throttled:
	// another shard may serve as well.
	elsewhere bool
	sync      bool // of a peek: the item is brought to the settings first
	// since is the monotonic time from which on the asker knows the shard: an older state is
	// no reason to deny.
	since time.Duration
}

// verdict is the decision on an operation.
type verdict uint8

const (
	// verdictWait: the known state neither admits nor denies the operation. It waits for
	// the plan's write, or a read, to bring a newer state.
	verdictWait verdict = iota
	// verdictCommit: the operation is part of the write and holds if the write is applied.
	verdictCommit
	// verdictDeny: the known state alone cannot hold the operation. Needs no write.
	verdictDeny
	// verdictDrop: the operation changes nothing, because the limits are gone. Needs no write.
	verdictDrop
	// verdictShow: the known state answers a peek. Needs no write.
	verdictShow

	// A flight gives the verdicts below, and no plan does. Nothing is spent.

	// verdictMoved: the operation was made for other settings, or the shard is gone. Then a
	// settlement belongs to the parent shard.
	verdictMoved
	// verdictDivided: the bucket has several shards, and the operation is for all of them.
	verdictDivided
	// verdictHot: the shard's partition is throttled, and the operation may go elsewhere.
	verdictHot
)

// view is the state that a plan is made for.
type view struct {
	now      bucket.Instant
	item     *table.Bucket    // the shard as last seen; where absent, a full item
	absent   bool             // there is no item: the write creates it
	fresh    bool             // young enough to deny by
	seenAt   time.Duration    // monotonic time from which on it is known; see operation.since
	grace    int64            // milliseconds; see bucket.Limit.WindowNear
	settings *config.Resolved // nil while only settlements wait for an item that is there
}

// plan is a write and the verdict on each operation.
type plan struct {
	verdicts []verdict
	commit   *table.Commit // of an item that exists; nil without a write
	create   *table.Create // of an item that does not exist; then commit is nil
	after    *table.Bucket // the item after the write, its balances at least; nil without a write
}

// newPlan decides on the operations in order of arrival: an operation is admitted if the
// balances hold it after the operations before it. If only the operations before it keep
// it out, it waits, because their write may fail; the state after the write decides.
func newPlan(v view, operations []operation) plan {
	d := newDraft(v)
	p := plan{verdicts: make([]verdict, len(operations))}
	for i, op := range operations {
		switch {
		case op.settle:
			p.verdicts[i] = d.settle(op)
		case !op.peek:
			p.verdicts[i] = d.acquire(op)
		case d.isFreshFor(op):
			p.verdicts[i] = verdictShow
		}
	}
	switch {
	case d.writes == 0:
	case v.absent:
		p.create = d.create()
		p.after = p.create.Bucket
	default:
		p.commit = d.commit()
		p.after = d.after()
	}
	return p
}

// draft is a write that is being planned.
type draft struct {
	view
	limits   []draftLimit
	writes   int   // operations that are part of it
	spends   bool  // whether an acquire is among them
	acquires int64 // of these, less the acquires that refunds undo
	debits   bool  // whether a settlement spends
	clamped  bool  // whether a refund met the lowest count there may be
}

// draftLimit is a limit of the item while a write is planned.
type draftLimit struct {
	*table.Limit
	window  bucket.Window
	start   int64 // balance before all operations
	tally   bucket.Tally
	active  bool // governed by the settings; a removed limit is not, and is only settled
	touched bool // part of the write's condition
}

func newDraft(v view) *draft {
	d := &draft{view: v, limits: make([]draftLimit, len(v.item.Limits))}
	for i := range v.item.Limits {
		l := &v.item.Limits[i]
		w := l.WindowNear(v.item.Shard(), v.now, l.Drawn, v.grace)
		d.limits[i] = draftLimit{
			Limit:  l,
			window: w,
			start:  w.Balance(l.Drawn),
			tally:  bucket.NewTally(w, l.Drawn),
			active: v.settings == nil || v.settings.Governs(l.Name),
		}
	}
	return d
}

// costOf returns the amount of a limit in millitokens.
func costOf(amounts api.Amounts, limit string) int64 {
	tokens, _ := amounts.Get(limit)
	return tokens * bucket.Milli
}

// isFreshFor reports whether the known state is young enough to deny an operation, or to
// answer a peek.
func (d *draft) isFreshFor(op operation) bool { return d.fresh && op.since <= d.seenAt }

func (d *draft) acquire(op operation) verdict {
	short, shortAlone := false, false
	for i := range d.limits {
		l := &d.limits[i]
		if !l.active {
			continue
		}
		cost := costOf(op.amounts, l.Name)
		short = short || l.tally.Balance() < cost
		shortAlone = shortAlone || l.start < cost
	}
	switch {
	case short && shortAlone && d.isFreshFor(op):
		return verdictDeny
	case short:
		return verdictWait
	}
	for i := range d.limits {
		if l := &d.limits[i]; l.active {
			l.tally.Spend(costOf(op.amounts, l.Name))
			l.touched = true
		}
	}
	d.writes++
	d.acquires++
	d.spends = true
	return verdictCommit
}

// settle plans a settlement, without limits that the item lacks. A debit is applied as a
// whole or not at all: it is denied if a limit's debt would exceed bucket.MaxDebt.
func (d *draft) settle(op operation) verdict {
	if op.refund {
		return d.refund(op)
	}
	var taken []int
	for i := range d.limits {
		l := &d.limits[i]
		delta := costOf(op.amounts, l.Name)
		if delta == 0 {
			continue
		}
		if trial := l.tally; !trial.Debit(delta) {
			if alone := bucket.NewTally(l.window, l.Drawn); d.isFreshFor(op) && !alone.Debit(delta) {
				return verdictDeny
			}
			return verdictWait
		}
		taken = append(taken, i)
	}
	if len(taken) == 0 {
		return verdictDrop
	}
	for _, i := range taken {
		l := &d.limits[i]
		l.tally.Debit(costOf(op.amounts, l.Name))
		l.touched = true
	}
	d.debits = true
	d.writes++
	return verdictCommit
}

// refund plans a refund to the limits that the item has. Without an item it is dropped: a
// bucket without an item is full.
func (d *draft) refund(op operation) verdict {
	if d.absent {
		return verdictDrop
	}
	given := op.undone > 0 // it counts as an acquire, whatever it spent
	for i := range d.limits {
		l := &d.limits[i]
		if k := -costOf(op.amounts, l.Name); k > 0 {
			d.clamped = l.tally.Credit(k) || d.clamped
			l.touched, given = true, true
		}
	}
	if !given {
		return verdictDrop
	}
	d.acquires -= op.undone
	d.writes++
	return verdictCommit
}

// debtFills is the deepest debt, in fills, with which an item may carry a ttl: 5 fills to
// leave the debt and 1 to fill are less than the 7 of its ttl, so that an expired item is
// full.
const debtFills = 5

// expiry returns the write's ttl, and adds the conditions under which it holds.
func (d *draft) expiry() table.TTL {
	if !d.spends && !d.debits {
		return table.TTL{}
	}
	if !d.expires() {
		// A late spend may have set a ttl since the item was seen. No debit may leave it: the
		// item could expire while it is in debt.
		return table.TTL{Remove: d.item.TTL != 0 || d.debits}
	}
	settings := make([]bucket.Limit, len(d.limits))
	for i := range d.limits {
		l := &d.limits[i]
		settings[i] = l.Limit.Limit
		if d.debits {
			l.touched = true
			if !l.tally.CapDebt(debtFills * l.window.Capacity) {
				return table.TTL{Remove: true}
			}
		}
	}
	return table.TTL{Set: bucket.TTL(settings, d.now)}
}

// expires reports whether the item carries a ttl: the limits are not the entity's own for
// the resource, the bucket has a single shard, and no removed limit has to be kept. A plan
// without settings leaves the item as it is.
func (d *draft) expires() bool {
	if d.settings == nil {
		return d.item.TTL != 0
	}
	if d.settings.Permanent || d.item.Level != 1 {
		return false
	}
	return len(d.settings.Limits) == len(d.item.Limits)
}

func (d *draft) commit() *table.Commit {
	c := &table.Commit{
		Key:         d.item.Key,
		Guarded:     d.spends || d.debits || d.clamped,
		Level:       d.item.Level,
		Fingerprint: d.item.Fingerprint,
		Acquires:    d.acquires,
		TTL:         d.expiry(),
		Limits:      make([]table.LimitChange, 0, len(d.limits)),
	}
	for i := range d.limits {
		if l := &d.limits[i]; l.touched {
			c.Limits = append(c.Limits, table.LimitChange{Name: l.Name, Change: l.tally.Change(), Consumed: l.tally.Consumed()})
		}
	}
	return c
}

func (d *draft) create() *table.Create {
	b := d.after()
	b.Acquires = d.acquires
	b.TTL = d.expiry().Set
	for i := range d.limits {
		b.Limits[i].Consumed = d.limits[i].tally.Consumed()
	}
	return &table.Create{Bucket: b}
}

// after returns the item with the balances that the write leaves.
func (d *draft) after() *table.Bucket {
	b := *d.item
	b.Limits = make([]table.Limit, len(d.limits))
	for i := range d.limits {
		l := &d.limits[i]
		b.Limits[i] = table.Limit{Limit: l.Limit.Limit, Drawn: l.tally.Change().Apply(l.Drawn)}
	}
	return &b
}

// fullBucket returns the first item of a bucket. It is full: a bucket is full
// until its first spend, and an item expires only when it is full again.
func fullBucket(now bucket.Instant, key keys.Bucket, settings *config.Resolved) *table.Bucket {
	b := &table.Bucket{
		Key:         key,
		Level:       1,
		Limits:      make([]table.Limit, len(settings.Limits)),
		Fingerprint: settings.Fingerprint,
		Cascade:     settings.Cascade,
		Parent:      settings.Parent,
	}
	for i, l := range settings.Limits {
		b.Limits[i] = table.Limit{Limit: l, Drawn: l.Window(b.Shard(), now).Full()}
	}
	return b
}
