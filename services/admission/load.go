package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
)

const (
	// busyRequests is the number of acquires of a bucket between two reports from which the
	// report tells of the bucket. Shards are doubled at 800 per second, and then, of 40
	// nodes or fewer, at least a single node is asked as often.
	busyRequests = 20
	// keptCosts is the number of recent requests of a busy bucket for which the costs are
	// kept. 99 in 100 of so many leave out the two or three dearest.
	keptCosts = 256
	// usualPercent of the requests cost no more than the reported cost.
	usualPercent = 99
)

// loads is the load that the node reports to the services that watch over shards. A
// bucket that is hardly used costs an addition per acquire.
type loads struct {
	window atomic.Int64 // number of the report to come

	mu    sync.Mutex
	since bucket.Instant       // guarded by mu: when the report to come begins; 0 for the first
	busy  map[*member]struct{} // guarded by mu: the shards that it may tell of
}

// load is the demand on a bucket shard since the last report. Counts may be off by the
// calls that arrive while a report is made.
type load struct {
	window    atomic.Int64 // number of the report that the counts are for
	requests  atomic.Int64 // acquires of the bucket
	denied    atomic.Int64 // of these
	throttled atomic.Int64 // write units
	refused   atomic.Int64 // write units that no applied write has counted yet
	busy      atomic.Bool  // the report to come may tell of it

	mu   sync.Mutex
	told bool // guarded by mu: the last report told of it
}

// noteRequest counts an acquire of the bucket.
func (m *member) noteRequest(costs api.Amounts) {
	if m.currentLoad().requests.Add(1) < busyRequests {
		return
	}
	m.tell()
	settings := m.writer.settings.last()
	if settings == nil {
		return
	}
	b := m.bucket()
	samples := b.costs.Load()
	if samples == nil || samples.of != settings {
		samples = newCostSamples(settings)
		b.costs.Store(samples)
		m.router.members.weigh(b.first)
	}
	samples.add(costs)
}

// currentLoad returns the load for the report to come. A load that was not worth
// reporting is dropped.
func (m *member) currentLoad() *load {
	l, window := &m.load, m.router.loads.window.Load()
	if l.window.Load() == window {
		return l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.window.Load() == window {
		return l
	}
	if !l.busy.Load() { // otherwise it is about to be reported
		if b := m.state.Load(); b != nil && !l.told {
			b.costs.Store(nil)
		}
		l.told = false
		l.requests.Store(0)
		l.denied.Store(0)
		l.throttled.Store(0)
		l.refused.Store(0)
	}
	l.window.Store(window)
	return l
}

// tell makes the report to come tell of the shard, if the shard is worth reporting then.
func (m *member) tell() {
	if m.load.busy.Load() || !m.load.busy.CompareAndSwap(false, true) {
		return
	}
	n := &m.router.loads
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy == nil {
		n.busy = make(map[*member]struct{})
	}
	n.busy[m] = struct{}{}
}

// takeLoad returns the load since the last report, and begins to count for the next. It
// reports false for a load that is not worth reporting.
func (m *member) takeLoad(window int64) (told events.Load, worth bool) {
	l := &m.load
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy.Store(false) // first: a request that finds it busy is counted below
	told = events.Load{
		Key: m.writer.key, Requests: l.requests.Swap(0), Denied: l.denied.Swap(0),
		FailedUnits: l.throttled.Swap(0) + l.refused.Swap(0),
	}
	l.window.Store(window)
	l.told = told.FailedUnits > 0 || told.Requests >= busyRequests
	var samples *costSamples
	if b := m.state.Load(); b != nil {
		samples = b.costs.Load()
	}
	told.Costs = samples.usual()
	return told, l.told
}

// reportLoads reports the load every so often, until ctx ends.
func (r *router) reportLoads(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.reportLoad()
		}
	}
}

// reportLoad reports the load since the last report. A report that cannot be sent is
// lost: the next is as good.
func (r *router) reportLoad() {
	now, err := r.env.clock.Now()
	if err != nil {
		return // a later report includes the load
	}
	since, told := r.takeLoads(now)
	for part := range slices.Chunk(told, events.MaxLoads) {
		data, err := events.EncodeLoad(&events.LoadReport{
			Node: r.env.nonces.boot, FromMs: since.Time().UnixMilli(), ToMs: now.Time().UnixMilli(), Loads: part,
		})
		if err == nil {
			err = r.publish(events.LoadSubject, data)
		}
		if err != nil {
			r.env.log.Warn("the load of buckets cannot be reported", "error", err)
			return
		}
	}
}

// takeLoads returns the loads that are worth reporting, up to now, and since when they
// were counted. The next loads count from zero.
func (r *router) takeLoads(now bucket.Instant) (since bucket.Instant, told []events.Load) {
	r.loads.mu.Lock()
	since, busy := r.loads.since, r.loads.busy
	if since == 0 || since > now {
		since = now - events.LoadEvery
	}
	r.loads.since, r.loads.busy = now, nil
	r.loads.mu.Unlock()
	window := r.loads.window.Add(1)
	for m := range busy {
		if l, worth := m.takeLoad(window); worth {
			told = append(told, l)
		}
	}
	slices.SortFunc(told, func(a, b events.Load) int { return cmp.Compare(a.Key.Key().PK, b.Key.Key().PK) })
	return since, told
}

// costSamples are the costs of recent requests, by limit of the settings that the
// requests were made under.
type costSamples struct {
	of     *config.Resolved
	count  atomic.Int64     // of requests
	tokens [][]atomic.Int64 // by limit, the last keptCosts of them in no order
}

func newCostSamples(of *config.Resolved) *costSamples {
	s := &costSamples{of: of, tokens: make([][]atomic.Int64, len(of.Limits))}
	for i := range s.tokens {
		s.tokens[i] = make([]atomic.Int64, keptCosts)
	}
	return s
}

// add takes a request in, unless it can never pass: no number of shards serves it.
func (s *costSamples) add(costs api.Amounts) {
	for _, l := range s.of.Limits {
		if costOf(costs, l.Name) > l.Capacity {
			return
		}
	}
	n := (s.count.Add(1) - 1) % keptCosts
	for i, l := range s.of.Limits {
		tokens, _ := costs.Get(l.Name)
		s.tokens[i][n].Store(tokens)
	}
}

// usual returns, by limit, the cost in whole tokens that usualPercent of the requests do
// not exceed; empty while there are few requests. s may be nil.
func (s *costSamples) usual() map[string]int64 {
	usual := make(map[string]int64)
	if s == nil || s.count.Load() == 0 {
		return usual
	}
	kept := int(min(s.count.Load(), keptCosts))
	for i, l := range s.of.Limits {
		sorted := make([]int64, kept)
		for n := range sorted {
			sorted[n] = s.tokens[i][n].Load()
		}
		slices.Sort(sorted)
		if tokens := sorted[(kept*usualPercent+99)/100-1]; tokens > 0 {
			usual[l.Name] = tokens
		}
	}
	return usual
}
