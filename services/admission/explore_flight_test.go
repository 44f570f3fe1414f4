package admission

import (
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// planKey has everything that a plan depends on.
type planKey struct {
	node     uint8
	shard    uint8
	item     itemID
	now      uint8
	settings uint8
	fresh    bool
	part     bool
	queue    [opsExplored]entryOf
}

// planned is a plan: verdicts on the entries, and a write.
type planned struct {
	entries  []entryOf
	verdicts []verdict
	write    writeID
	wrong    string
}

// fly takes a step of a node without a write in flight, for each shard that operations wait
// for.
func (x *explorer) fly(s *state, i int) {
	for shard := range shardsExplored {
		x.flyAt(s, i, shard)
	}
	if x.isDivided(s, i) {
		x.divided(s, i)
	}
}

// isDivided reports whether a node knows that the bucket has several shards.
func (x *explorer) isDivided(s *state, i int) bool {
	k := &s.nodes[i].known[0]
	return k.seen && k.item != noItem && x.catalog.bucket(k.item).Level > 1
}

// waitingAt returns the queue of a shard at a node: the sum of refunds, then the others.
func (x *explorer) waitingAt(s *state, i, shard int) (queue []entryOf) {
	sum := entryOf{kind: opRelease, settle: true, part: shard}
	for n := range x.ops {
		op, o := &x.ops[n], &s.ops[n]
		if !o.phase.waits() || int(o.node) != i {
			continue
		}
		switch op.kind {
		case opAcquire:
			if shard == 0 && !x.isDivided(s, i) {
				queue = append(queue, entryOf{ops: 1 << n, kind: opAcquire, milli: op.milli()})
			}
		case opDebit:
			at := int(s.ops[op.of].shard)
			if o.moved {
				at = 0
			}
			if at == shard {
				queue = append(queue, entryOf{ops: 1 << n, kind: opDebit, milli: op.milli(), settle: true})
			}
		case opGive, opRelease:
			for _, part := range members(o.todo) {
				at := part
				if o.moved {
					at = 0
				}
				if at != shard || sum.ops != 0 && sum.part != part {
					continue // parts of two shards are written in turn
				}
				sum.part = part
				sum.ops |= 1 << n
				milli := x.refundOf(s, n, part)
				for l := range milli {
					sum.milli[l] += milli[l]
				}
			}
		}
	}
	if sum.ops != 0 {
		queue = append([]entryOf{sum}, queue...)
	}
	return queue
}

// refundOf returns what an operation gives back of a part of its acquire.
func (x *explorer) refundOf(s *state, n, part int) [limitsExplored]int64 {
	op := &x.ops[n]
	acquire := &s.ops[op.of]
	if acquire.multi == noWrite {
		return op.milli()
	}
	return x.catalog.writes[acquire.multi].form.parts[part]
}

// flyAt takes a step of the flight of a shard.
func (x *explorer) flyAt(s *state, i, shard int) {
	queue := x.waitingAt(s, i, shard)
	if len(queue) == 0 {
		return
	}
	k := &s.nodes[i].known[shard]
	refunds := queue[0].kind == opRelease
	switch {
	case shard > 0 && (!k.seen || k.item == noItem), !k.seen && queue[0].settle, refunds && k.item == noItem:
		x.read(s, i, shard, queue)
		return
	}
	acquires := false
	for _, e := range queue {
		acquires = acquires || e.kind == opAcquire
	}
	if (acquires || k.item == noItem) && x.settle(s, i, shard, acquires) {
		return
	}
	x.plan(s, i, shard, queue, acquires, false)
}

// read reads a shard. Refunds to a missing item are dropped; the settlements of a missing
// shard 1 belong to its parent.
func (x *explorer) read(s *state, i, shard int, queue []entryOf) {
	n := *s
	x.learn(&n, i, shard)
	if n.items[shard] == noItem {
		for _, e := range queue {
			for _, op := range members(e.ops) {
				switch o := &n.ops[op]; {
				case shard > 0:
					o.moved = true
				case e.kind == opRelease:
					x.ended(o, e.part, phaseGone)
				}
			}
		}
	}
	x.add(&n, "", "node %d reads shard %d", i, shard)
}

// settle brings the settings of a node, and an item, up to date. It reports whether that
// is the node's step.
func (x *explorer) settle(s *state, i, shard int, sync bool) bool {
	node := &s.nodes[i]
	k := &node.known[shard]
	if k.item == noItem {
		if node.settings != s.settings { // the node may not have heard of the change yet
			n := *s
			n.nodes[i].settings = s.settings
			x.add(&n, "", "node %d hears of the limits", i)
		}
		return false
	}
	b := x.catalog.bucket(k.item)
	if b.Fingerprint != x.settings[node.settings].Fingerprint && node.settings != s.settings {
		n := *s
		n.nodes[i].settings = s.settings
		x.add(&n, "", "node %d reads the limits", i)
		return true
	}
	if !sync {
		return false
	}
	form := shards.PlanSync(exploredInstants[s.now], b, x.settings[node.settings])
	if form == nil {
		return false
	}
	form.Nonce = nonceOf(i)
	w := &storedWrite{form: formOf{sync: form}, at: int(s.now), shard: shard}
	n := *s
	n.nodes[i].write = x.catalog.write(w, form.Input(exploredTable))
	x.add(&n, "", "node %d syncs shard %d", i, shard)
	return true
}

// fresh reports whether a state is young enough to deny by.
func (s *state) fresh(k *knownShard) bool {
	return k.seen && exploredInstants[s.now]-exploredInstants[k.seenAt] <= bucket.Instant(maxDenialAge.Milliseconds())
}

// plan plans the queue of a shard by the real planner, and takes the step that follows.
func (x *explorer) plan(s *state, i, shard int, queue []entryOf, acquires, part bool) {
	node := &s.nodes[i]
	k := &node.known[shard]
	key := planKey{
		node: uint8(i), shard: uint8(shard), item: k.item, now: s.now, settings: node.settings, fresh: s.fresh(k), part: part, //nolint:gosec // small
	}
	copy(key.queue[:], queue)
	p, ok := x.plans[key]
	if !ok {
		p = x.newPlan(s, i, shard, queue, acquires, part)
		x.plans[key] = p
	}
	n := *s
	wrong, waits := p.wrong, false
	for at, e := range p.entries {
		for _, op := range members(e.ops) {
			o := &n.ops[op]
			switch p.verdicts[at] {
			case verdictDeny:
				if part { // another shard may hold it
					n.nodes[i].tree = 0
					continue
				}
				o.phase = phaseRefused
			case verdictDrop:
				if e.kind == opRelease {
					x.ended(o, e.part, phaseGone)
				} else {
					o.phase = phaseGone
				}
			case verdictWait:
				waits = true
			default:
			}
		}
	}
	n.nodes[i].write = p.write
	if waits && p.write == noWrite {
		x.learn(&n, i, shard)
	}
	x.add(&n, wrong, "node %d plans shard %d: %v %v", i, shard, p.entries, p.verdicts)
}

// newPlan calls the real planner, and builds the real form.
func (x *explorer) newPlan(s *state, i, shard int, queue []entryOf, acquires, part bool) *planned {
	node := &s.nodes[i]
	k := &node.known[shard]
	v := view{now: exploredInstants[s.now], item: x.catalog.bucket(k.item), fresh: s.fresh(k), grace: x.grace}
	if k.item == noItem || acquires {
		v.settings = x.settings[node.settings]
	}
	if k.item == noItem {
		v.absent, v.fresh = true, v.fresh && k.seen
		v.item = fullBucket(v.now, exploredKey(shard), v.settings)
	}
	operations := make([]operation, len(queue))
	for n, e := range queue {
		operations[n] = operation{settle: e.settle, refund: e.kind == opRelease, part: part, amounts: e.amounts()}
	}
	decided := newPlan(v, operations)
	p := &planned{entries: queue, verdicts: decided.verdicts}
	w := &storedWrite{at: int(s.now), shard: shard, settings: int(node.settings)}
	for n, verdict := range decided.verdicts {
		switch {
		case verdict == verdictCommit:
			w.form.entries = append(w.form.entries, queue[n])
			w.ops |= queue[n].ops
		case verdict == verdictDeny && queue[n].kind == opAcquire && holdsNaively([]*table.Bucket{v.item}, &queue[n].milli, v.now):
			p.wrong = "P2: an acquire was denied by a state that holds it"
		case verdict == verdictDeny && !v.fresh:
			p.wrong = "P2: an acquire was denied by an old state"
		}
	}
	if x.broken != nil {
		x.broken(&decided)
	}
	switch {
	case decided.create != nil:
		decided.create.Bucket.LastWrite = nonceOf(i)
		w.form.create = decided.create
		p.write = x.catalog.write(w, decided.create.Input(exploredTable))
	case decided.commit != nil:
		decided.commit.Nonce, decided.commit.WriteUnits = nonceOf(i), 1
		w.form.commit = decided.commit
		p.write = x.catalog.write(w, decided.commit.Input(exploredTable))
	}
	return p
}

func exploredKey(shard int) keys.Bucket {
	key := testKey()
	key.Shard = shard
	return key
}

// amounts returns an entry's amounts as an operation has them.
func (e *entryOf) amounts() (amounts api.Amounts) {
	sign := int64(1)
	if e.kind == opRelease {
		sign = -1
	}
	for n, milli := range e.milli {
		if milli != 0 {
			amounts = append(amounts, api.Amount{Name: exploredLimits[n], Tokens: sign * milli / bucket.Milli})
		}
	}
	return amounts
}

// divided takes a step of the first acquire that waits for a bucket of several shards.
func (x *explorer) divided(s *state, i int) {
	op := -1
	for n := range x.ops {
		if s.ops[n].phase.waits() && int(s.ops[n].node) == i && x.ops[n].kind == opAcquire {
			op = n
			break
		}
	}
	if op < 0 {
		return
	}
	node := &s.nodes[i]
	if int(node.tree) < shardsExplored { // shards are read one after another
		n := *s
		x.learn(&n, i, int(node.tree))
		n.nodes[i].tree++
		x.add(&n, "", "node %d reads shard %d of the bucket", i, node.tree)
		return
	}
	settings := x.settings[node.settings]
	tree := x.catalog.tree([shardsExplored]itemID{node.known[0].item, node.known[1].item})
	if !tree.Whole() {
		n := *s
		n.nodes[i].tree = 0
		x.add(&n, "", "node %d has read no whole bucket", i)
		return
	}
	for shard := range tree {
		if x.settle(s, i, shard, true) {
			return
		}
	}
	x.spendDivided(s, i, op, tree, settings)
}

// spendDivided spends from a shard that holds the cost, from several, or from none.
func (x *explorer) spendDivided(s *state, i, op int, tree shards.Tree, settings *config.Resolved) {
	now, node := exploredInstants[s.now], &s.nodes[i]
	amounts, milli := x.ops[op].amounts(1), x.ops[op].milli()
	whole := shownTree(verdictDeny, now, settings, treeInForce(now, tree, settings))
	if !whole.holds(amounts) {
		n := *s
		n.nodes[i].tree = 0
		wrong := ""
		if s.fresh(&node.known[0]) && s.fresh(&node.known[1]) {
			n.ops[op].phase = phaseRefused
			if holdsNaively(tree, &milli, now) {
				wrong = "P2: an acquire was denied by shards that hold it together"
			}
		}
		x.add(&n, wrong, "node %d finds the bucket short for operation %d", i, op)
		return
	}
	alone := false
	for shard, b := range tree {
		if whole.indebted() || !holdsNaively([]*table.Bucket{b}, &milli, now) {
			continue
		}
		alone = true
		x.plan(s, i, shard, []entryOf{{ops: 1 << op, kind: opAcquire, milli: milli}}, true, true)
	}
	if alone {
		return
	}
	form := tree.PlanMultiSpend(now, func(limit string) (int64, bool) { return costOf(amounts, limit), settings.Governs(limit) }, nonceOf(i))
	n := *s
	if form == nil {
		x.add(&n, "P2: a bucket that holds a cost has no plan for it", "node %d", i)
		return
	}
	w := &storedWrite{at: int(s.now), settings: int(node.settings), ops: 1 << op}
	w.form = formOf{multi: form, entries: []entryOf{{ops: 1 << op, kind: opAcquire, milli: milli}}}
	res := result{shardResult: shardResult{settings: settings, item: tree[0], now: now}, parts: form.Parts}
	for _, part := range res.spent(amounts) {
		for _, a := range part.held {
			w.form.parts[part.shard][limitNumber(a.Name)] = a.Tokens * bucket.Milli
		}
	}
	n.nodes[i].write = x.catalog.write(w, form.Writes(exploredTable))
	x.add(&n, "", "node %d spends from several shards", i)
}
