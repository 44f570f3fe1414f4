package admission

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const noNode = -1

// nonceOf returns the nonce of a node's write in flight. A node has a single one, and a
// nonce in an item tells nothing once its write is over, so that it is then removed.
func nonceOf(node int) string { return fmt.Sprintf("n%d", node) }

// steps returns the states that may follow. The result is valid until the next call.
func (x *explorer) steps(s *state) []step {
	x.buffer = x.buffer[:0]
	if int(s.now)+1 < len(exploredInstants) {
		n := *s
		n.now++
		x.add(&n, "", "time passes")
	}
	if int(s.settings)+1 < len(x.settings) {
		n := *s
		n.settings++
		x.add(&n, "", "the limits change")
	}
	if s.late != noWrite {
		n := *s
		n.late = noWrite
		_, wrong := x.store(&n, s.late, noNode)
		x.add(&n, wrong, "a late write arrives")
	}
	x.expire(s)
	x.sharderSteps(s)
	for i := range x.nodes {
		x.nodeSteps(s, i)
	}
	x.arrivals(s)
	return x.buffer
}

// arrivals hands idle operations to nodes, a settlement when its acquire is admitted.
func (x *explorer) arrivals(s *state) {
	for i := range x.ops {
		op := &x.ops[i]
		if s.ops[i].phase != phaseIdle || op.kind != opAcquire && s.ops[op.of].phase != phaseDone {
			continue
		}
		for node := range x.nodes {
			n := *s
			o := &n.ops[i]
			o.phase, o.node = phaseQueued, uint8(node) //nolint:gosec // few nodes
			if op.kind == opGive || op.kind == opRelease {
				o.todo = x.partsOf(s, op.of)
			}
			x.add(&n, "", "operation %d arrives at node %d", i, node)
			if x.alike(s, node) {
				break // the nodes from here on know nothing and do nothing
			}
		}
	}
}

// alike reports whether a node and all behind it have done nothing yet.
func (x *explorer) alike(s *state, node int) bool {
	for n := node; n < x.nodes; n++ {
		if s.nodes[n] != (exploredNode{}) {
			return false
		}
		for i := range s.ops {
			if s.ops[i].phase != phaseIdle && int(s.ops[i].node) == n {
				return false
			}
		}
	}
	return true
}

// partsOf returns the shards that an acquire was spent from.
func (x *explorer) partsOf(s *state, acquire int) (shards uint8) {
	o := &s.ops[acquire]
	if o.multi == noWrite {
		return 1 << o.shard
	}
	for i := range x.catalog.writes[o.multi].form.multi.Parts {
		shards |= 1 << x.catalog.writes[o.multi].form.multi.Parts[i].Key.Shard
	}
	return shards
}

// expire removes an item whose time is up: the store does so at any moment after.
func (x *explorer) expire(s *state) {
	if s.items[0] == noItem {
		return
	}
	b, now := x.catalog.bucket(s.items[0]), exploredInstants[s.now]
	if b.TTL == 0 || b.TTL > now.Time().Unix() {
		return
	}
	wrong := ""
	for i := range b.Limits {
		if l := &b.Limits[i]; balanceOf(l, b, now) < capacityOf(&l.Limit, b) {
			wrong = "an item expired that was not full"
		}
	}
	n := *s
	n.items[0] = noItem
	x.add(&n, wrong, "the item expires")
}

// store carries a write out, and enters it into the ledger. node is the writer that waits
// for the answer; noNode: nobody does.
func (x *explorer) store(s *state, id writeID, node int) (applied bool, wrong string) {
	w := x.catalog.writes[id]
	e := x.catalog.carryOut(w, s.items)
	if e.wrong != "" || !e.applied {
		return false, e.wrong
	}
	before := s.items
	s.items = e.items
	if node == noNode { // a nonce that its writer no longer waits for
		for i, id := range s.items {
			if id != before[i] && id != noItem {
				s.items[i] = x.catalog.items[id].plain
			}
		}
	}
	x.allowDelay(s, w)
	for _, entry := range w.form.entries {
		for n, milli := range entry.milli {
			tokens := uint8(milli / bucket.Milli) //nolint:gosec // few tokens
			if entry.kind == opAcquire || entry.kind == opDebit {
				s.spent[n][w.at] += tokens
			} else {
				s.given[n][s.now] += tokens
			}
		}
		for _, i := range members(entry.ops) {
			o := &s.ops[i]
			if entry.kind == opAcquire || entry.kind == opDebit {
				o.applied++
				continue
			}
			part := uint8(1) << entry.part
			if o.applied&part != 0 {
				return true, fmt.Sprintf("P6: operation %d was given back twice", i)
			}
			o.applied |= part
		}
	}
	return true, ""
}

// learn notes what the store said about a shard.
func (x *explorer) learn(s *state, node, shard int) {
	id := s.items[shard]
	s.nodes[node].known[shard] = knownShard{x.catalog.items[id].plain, true, s.now}
}

// sharderSteps split and merge the bucket, by real plans. A plan may be written at any
// later moment, once.
func (x *explorer) sharderSteps(s *state) {
	if s.sharder != noWrite {
		n := *s
		n.sharder = noWrite
		applied, wrong := x.store(&n, s.sharder, noNode)
		x.add(&n, wrong, "the sharder's write is done: %v", applied)
		if s.crashes > 0 {
			n := *s
			n.sharder = noWrite
			n.crashes--
			x.add(&n, "", "the sharder crashes")
		}
		return
	}
	tree := x.catalog.tree(s.items)
	zero := tree.Find(0)
	if zero == nil {
		return
	}
	now, w := exploredInstants[s.now], &storedWrite{at: int(s.now)}
	switch {
	case s.splits > 0 && zero.Level == 1:
		n := *s
		n.splits--
		w.form.split = shards.PlanSplit(now, zero, "sharder")
		w.form.split.Want = table.WantChange{From: zero.Want, To: shardsExplored}
		n.sharder = x.catalog.write(w, w.form.split.Writes(exploredTable))
		x.add(&n, "", "the sharder plans a split")
	case s.merges > 0 && zero.Level == 2 && zero.Want == shardsExplored:
		n := *s
		want := table.Want{Key: zero.Key, Change: table.WantChange{From: zero.Want, To: 1}, Level: zero.Level, Nonce: "sharder"}
		n.sharder = x.catalog.write(w, want.Input(exploredTable))
		x.add(&n, "", "the sharder wants a single shard")
	case s.merges > 0 && len(tree) == shardsExplored && tree.Synced(zero.Fingerprint):
		n := *s
		n.merges--
		w.form.merge = shards.PlanMerge(now, zero, tree.Find(1), "sharder")
		n.sharder = x.catalog.write(w, w.form.merge.Writes(exploredTable))
		x.add(&n, "", "the sharder plans a merge")
	}
}

const exploredTable = "tidegate"

// nodeSteps are the steps of a node: those of its write in flight, or of its queue.
func (x *explorer) nodeSteps(s *state, i int) {
	node := &s.nodes[i]
	busy := node.write != noWrite
	for n := range s.ops {
		busy = busy || s.ops[n].phase.waits() && int(s.ops[n].node) == i
	}
	if !busy {
		return
	}
	if s.crashes > 0 {
		x.crash(s, i)
	}
	switch {
	case node.lost:
		x.resolve(s, i)
	case node.write != noWrite:
		x.answered(s, i)
		x.loses(s, i)
	default:
		x.fly(s, i)
	}
}

// crash ends a node. Its write may have arrived, may arrive yet, or never will.
func (x *explorer) crash(s *state, i int) {
	gone := *s
	gone.crashes--
	gone.nodes[i] = exploredNode{}
	for n := range gone.ops {
		if o := &gone.ops[n]; o.phase.waits() && int(o.node) == i {
			o.phase, o.todo = phaseGone, 0
		}
	}
	x.forgetNonces(&gone)
	x.add(&gone, "", "node %d crashes", i)
	if write := s.nodes[i].write; write != noWrite && !s.nodes[i].lost && s.late == noWrite {
		gone.late = write
		x.add(&gone, "", "node %d crashes, and its write is under way", i)
	}
}

// answered carries the write of a node out, and gives it the answer.
func (x *explorer) answered(s *state, i int) {
	n := *s
	id := n.nodes[i].write
	n.nodes[i].write = noWrite
	applied, wrong := x.store(&n, id, i)
	x.forgetNonces(&n)
	w := x.catalog.writes[id]
	if w.form.multi != nil {
		n.nodes[i].tree = 0
	} else {
		x.learn(&n, i, w.shard)
	}
	if applied {
		x.done(&n, id)
	} else if w.form.multi == nil && w.shard != 0 || n.nodes[i].tree != 0 {
		n.nodes[i].tree = 0
	}
	x.add(&n, wrong, "node %d is answered: applied %v", i, applied)
}

// done ends the operations of a write that was applied.
func (x *explorer) done(s *state, id writeID) {
	w := x.catalog.writes[id]
	for _, e := range w.form.entries {
		for _, n := range members(e.ops) {
			o := &s.ops[n]
			switch e.kind {
			case opAcquire:
				o.phase, o.shard = phaseDone, uint8(w.shard) //nolint:gosec // few shards
				if w.form.multi != nil {
					o.multi = id
				}
			case opDebit:
				o.phase = phaseDone
			case opGive, opRelease:
				x.ended(o, e.part, phaseDone)
			}
		}
	}
}

// ended ends a part of a refund.
func (x *explorer) ended(o *opState, part int, as phase) {
	o.todo &^= 1 << part
	if as == phaseGone || o.todo == 0 {
		if o.phase != phaseGone {
			o.phase = as
		}
	}
	if o.phase == phaseGone && o.todo != 0 {
		o.phase = phaseQueued // its other parts go on
	}
}

// loses loses the reply to a write, which is applied, or is not, or arrives later.
func (x *explorer) loses(s *state, i int) {
	if s.faults == 0 {
		return
	}
	id := s.nodes[i].write
	if x.catalog.writes[id].form.multi != nil {
		x.losesMulti(s, i)
		return
	}
	n := *s
	n.faults--
	n.nodes[i].lost = true
	x.add(&n, "", "the write of node %d is lost", i)
	if n.late == noWrite {
		late := n
		late.late = id
		x.add(&late, "", "the write of node %d is late", i)
	}
	_, wrong := x.store(&n, id, i)
	x.add(&n, wrong, "the reply to node %d is lost", i)
}

// losesMulti lets a transaction end with an unknown outcome: applied, or not, or late.
func (x *explorer) losesMulti(s *state, i int) {
	n := *s
	n.faults--
	id := n.nodes[i].write
	n.nodes[i].write, n.nodes[i].tree = noWrite, 0
	for _, op := range members(x.catalog.writes[id].ops) {
		n.ops[op].phase = phaseGone
	}
	if n.late == noWrite {
		late := n
		late.late = id
		x.add(&late, "", "the transaction of node %d is late", i)
	}
	_, wrong := x.store(&n, id, noNode)
	x.add(&n, wrong, "the reply to the transaction of node %d is lost", i)
}

// resolve reads the item after a lost reply: the write's nonce tells. The read may fail.
func (x *explorer) resolve(s *state, i int) {
	id := s.nodes[i].write
	w := x.catalog.writes[id]
	ours := s.items[w.shard] != noItem && x.catalog.bucket(s.items[w.shard]).LastWrite == nonceOf(i)
	n := *s
	n.nodes[i].write, n.nodes[i].lost, n.nodes[i].tree = noWrite, false, 0
	x.forgetNonces(&n)
	unread := n
	x.learn(&n, i, w.shard)
	if ours {
		x.done(&n, id)
	} else {
		x.inDoubt(&n, w)
	}
	x.add(&n, "", "node %d reads what became of its write: ours %v", i, ours)
	unread.nodes[i].known[w.shard] = knownShard{}
	x.inDoubt(&unread, w)
	x.add(&unread, "", "node %d cannot read what became of its write", i)
}

// inDoubt ends operations of unknown outcome, as the flight does. Only a debit is written
// again, once.
func (x *explorer) inDoubt(s *state, w *storedWrite) {
	for _, e := range w.form.entries {
		for _, i := range members(e.ops) {
			o := &s.ops[i]
			switch {
			case e.kind == opDebit && o.phase == phaseQueued, x.repeats && e.kind == opAcquire:
				o.phase = phaseRepeated
			case e.kind == opGive || e.kind == opRelease:
				x.ended(o, e.part, phaseGone)
			default:
				o.phase = phaseGone
			}
		}
	}
}
