package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/test/ledger"
)

// account is a naive account of every reply and of every write. It shares no code with the
// services.
type account struct {
	world   *world
	limits  map[string][]api.Limit // by entity, as last set
	highest map[string]map[string]api.Limit
	changed map[string]time.Time // when the limits of an entity were last changed
	buckets map[place]*books
	skew    time.Duration // by which the clocks of two nodes may differ
}

// books are the account of a bucket.
type books struct {
	admits  []entry
	credits []entry
	low     map[string]int64 // tokens that are certainly spent, at the least, without the leases
	high    map[string]int64 // tokens that may be spent, at the most
	leases  []*leaseBooks
	net     map[string]int64 // millitokens that the store's counters have gained
	shards  map[int]shardState
	history []snapshot // newest last, of the past seconds
}

// entry is an amount that was admitted or returned at some moment of an interval.
type entry struct {
	from, to time.Time
	amounts  map[string]int64
}

// leaseBooks are the account of a lease.
type leaseBooks struct {
	cost, credited, debited, debitedTwice map[string]int64
	released                              bool
	of                                    *operation
}

// shardState is the state of a shard that the store has, by attribute.
type shardState map[string]int64

// snapshot is the state of all shards from a moment on.
type snapshot struct {
	at     time.Time
	shards map[int]shardState
}

func newAccount(w *world) *account {
	a := &account{
		world: w, limits: map[string][]api.Limit{}, highest: map[string]map[string]api.Limit{},
		changed: map[string]time.Time{}, buckets: map[place]*books{}, skew: w.plan.Skew,
	}
	if w.plan.Faults.Step > 0 {
		a.skew += 3 * time.Second
	}
	for entity, limits := range w.plan.Limits {
		a.changes(entity, limits)
	}
	clear(a.changed)
	return a
}

func (a *account) limitsOf(entity string) []api.Limit { return a.limits[entity] }

// changes notes limits that an operator is about to set.
func (a *account) changes(entity string, limits []api.Limit) {
	a.limits[entity], a.changed[entity] = limits, time.Now()
	if a.highest[entity] == nil {
		a.highest[entity] = map[string]api.Limit{}
	}
	for _, l := range limits {
		most := a.highest[entity][l.Name]
		if most.Name == "" {
			most = l
		}
		most.Capacity = max(most.Capacity, l.Capacity)
		most.RefillAmount = max(most.RefillAmount, l.RefillAmount) // periods do not change
		a.highest[entity][l.Name] = most
	}
}

func (a *account) of(at place) *books {
	b := a.buckets[at]
	if b == nil {
		b = &books{low: map[string]int64{}, high: map[string]int64{}, net: map[string]int64{}, shards: map[int]shardState{}}
		a.buckets[at] = b
	}
	return b
}

// levels returns the buckets that an acquire spends from.
func (a *account) levels(at place) []place {
	if parent := a.world.plan.Parents[at.entity]; parent != "" {
		return []place{at, {parent, at.resource}}
	}
	return []place{at}
}

// begins notes credits at the start of an operation: they may be given at any moment from
// then on.
func (a *account) begins(op *operation) {
	if op.kind != adjust && op.kind != release {
		return
	}
	for _, at := range a.levels(op.place) {
		b := a.of(at)
		for _, l := range b.leases {
			if l.of == op.lease.acquired() {
				b.credits = append(b.credits, entry{from: op.sent, amounts: l.begins(op)})
			}
		}
	}
}

// begins notes what a settlement may give back, and returns it.
func (l *leaseBooks) begins(op *operation) map[string]int64 {
	given := map[string]int64{}
	if op.kind == release {
		l.released = true
		for name, n := range l.cost {
			given[name] = n + l.debitedTwice[name]
		}
		return given
	}
	for name, n := range op.amounts {
		if n < 0 {
			given[name] = -n
			l.credited[name] += -n
		} else {
			l.debitedTwice[name] += 2 * n
		}
	}
	return given
}

// take takes operations in that have ended.
func (a *account) take(ended []*operation) {
	for _, op := range ended {
		a.world.work.ends(op)
		a.world.note("ledger", "ledger", fmt.Sprintf("operation %d ends: %s", op.number, op.outcome()))
		switch op.kind {
		case acquire:
			a.acquired(op)
		case adjust:
			a.adjusted(op)
		case release, status, reshard, change:
		}
	}
}

func (a *account) acquired(op *operation) {
	var denied *tidegate.DeniedError
	for _, at := range a.levels(op.place) {
		b := a.of(at)
		for name, n := range op.amounts {
			b.high[name] += n
		}
		if op.err != nil {
			continue
		}
		b.leases = append(b.leases, &leaseBooks{
			cost: op.amounts, credited: map[string]int64{}, debited: map[string]int64{}, debitedTwice: map[string]int64{}, of: op,
		})
		b.admits = append(b.admits, entry{op.sent, op.received, op.amounts})
		a.checkNeverOver(at, b)
	}
	if errors.As(op.err, &denied) {
		a.checkDenial(op, denied)
	}
}

func (a *account) adjusted(op *operation) {
	for _, at := range a.levels(op.place) {
		b := a.of(at)
		for _, l := range b.leases {
			if l.of != op.lease.acquired() {
				continue
			}
			for name, n := range op.amounts {
				if n <= 0 {
					continue
				}
				b.high[name] += 2 * n // a debit of unknown outcome may count twice
				if op.err == nil {
					l.debited[name] += n
				}
			}
		}
	}
}

// acquired returns the acquire of the lease.
func (h *held) acquired() *operation { return h.by }

// checkNeverOver checks P1 for all intervals that end now: an admission counts if it
// certainly lies in the interval, a credit if it may.
func (a *account) checkNeverOver(at place, b *books) {
	now := b.admits[len(b.admits)-1].to
	byStart := slices.Clone(b.admits)
	slices.SortStableFunc(byStart, func(x, y entry) int { return y.from.Compare(x.from) })
	for name, l := range a.highest[at.entity] {
		sum, credits := int64(0), int64(0)
		for _, c := range b.credits {
			credits += c.amounts[name]
		}
		for _, e := range byStart {
			if sum += e.amounts[name]; sum == 0 {
				continue
			}
			span := now.Sub(e.from) + a.skew
			refill := int64(span/time.Millisecond+2) * l.RefillAmount / (l.RefillPeriodSeconds * 1000)
			if most := l.Capacity + refill + 1 + credits; sum > most {
				a.world.fail("P1", fmt.Sprintf("%s on %s: %d of %s admitted in %v, at most %d", at.entity, at.resource, sum, name, span, most))
				return
			}
		}
	}
	const keep = 600
	if len(b.admits) > keep {
		b.admits = slices.Delete(b.admits, 0, len(b.admits)-keep)
	}
}

// commit takes a write of the store in.
func (w *world) commit(c engine.Commit) {
	touched := map[place]bool{}
	for i := range c.Changes {
		change := &c.Changes[i]
		entry := ledger.Change{At: change.At, PK: change.Keys()["PK"].Text(), Old: numbers(change.Old), New: numbers(change.New)}
		w.usage.Add(entry)
		_, rest, ok := strings.Cut(entry.PK, "/BUCKET#")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "#")
		at := place{parts[0], parts[1]}
		shard, err := strconv.Atoi(parts[2])
		if err != nil {
			panic(err)
		}
		b := w.account.of(at)
		if touched[at] = true; entry.New == nil {
			delete(b.shards, shard)
			continue
		}
		b.shards[shard] = entry.New
		used, _ := ledger.Spent(entry)
		for name, milli := range used {
			b.net[name] += milli
		}
	}
	for at := range touched {
		w.account.of(at).remember(time.Now())
	}
}

// numbers are an item's whole numbers by attribute; nil where there is no item.
func numbers(item attr.Item) map[string]int64 {
	if item == nil {
		return nil
	}
	all := map[string]int64{}
	for name, v := range item {
		if v.Kind() == attr.KindN {
			n, err := strconv.ParseInt(v.Number().String(), 10, 64)
			if err != nil {
				panic(err) // a bucket's numbers are whole
			}
			all[name] = n
		}
	}
	return all
}

// checkEnd checks that the counters of the store are between what was certainly and what
// was perhaps spent: P3 and P6.
func (a *account) checkEnd() {
	for at, b := range a.buckets {
		for name := range a.highest[at.entity] {
			low := int64(0)
			for _, l := range b.leases {
				if !l.released {
					low += max(0, l.cost[name]+l.debited[name]-l.credited[name])
				}
			}
			if net := b.net[name]; net < low*1000 || net > b.high[name]*1000 {
				a.world.fail("P6", fmt.Sprintf("%s on %s: the store counts %d millitokens of %s, the replies say %d to %d tokens",
					at.entity, at.resource, net, name, low, b.high[name]))
			}
		}
	}
}
