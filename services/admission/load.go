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
	// busyRequests is how many acquires of a bucket between two reports make it worth
	// telling of. Of 800 per second, which is when shards are doubled, 40 nodes or
	// fewer have one among them that is asked as often.
	busyRequests = 20
	// keptCosts is how many recent requests of a busy bucket are remembered by what
	// they cost. 99 of 100 of so many leave out the two or three dearest.
	keptCosts = 256
	// usualPercent of requests cost no more than what is told.
	usualPercent = 99
)

// loads is what the node tells those who watch over shards. Of buckets that are
// hardly used, which almost all are, it costs one addition.
type loads struct {
	window atomic.Int64 // number of the report to come

	mu    sync.Mutex
	since bucket.Instant          // guarded by mu: when the report to come begins; 0 for the first
	busy  map[*committer]struct{} // guarded by mu: those that it may tell of
}

// load is what a bucket shard was asked for since the last report.
type load struct {
	window    int64 // of the report; what is of another one is over
	requests  int64 // acquires of the bucket
	denied    int64 // of these
	throttled int64 // write units
	refused   int64 // write units that no applied write has counted yet
	busy      bool  // the report to come may tell of it
	told      bool  // the last report told of it
}

// noteRequest counts an acquire of the bucket; c.mu is held.
func (c *committer) noteRequest(costs api.Amounts) {
	l := c.currentLoad()
	l.requests++
	if l.requests < busyRequests {
		return
	}
	c.tell(l)
	settings := c.settings.Load()
	if settings == nil {
		return
	}
	if c.costs == nil || c.costs.of != settings {
		c.costs = newCostSamples(settings)
	}
	c.costs.add(costs)
}

// noteDenial counts an acquire of the bucket that it was short of.
func (c *committer) noteDenial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.currentLoad().denied++
}

// noteThrottled counts write units that the shard's partition did not let through.
func (c *committer) noteThrottled(units int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.currentLoad()
	l.throttled += units
	c.tell(l)
}

// noteRefused counts write units of a failed condition. The item tells of them
// once another write is applied, and nobody until then.
func (c *committer) noteRefused(units int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.currentLoad()
	l.refused += units
	c.tell(l)
}

// noteCounted is for when the item tells of all refused writes.
func (c *committer) noteCounted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.currentLoad().refused = 0
}

// currentLoad is that of the report to come; c.mu is held. What was not worth
// telling of is forgotten.
func (c *committer) currentLoad() *load {
	window := c.node.loads.window.Load()
	switch {
	case c.load.window == window:
	case c.load.busy: // it is about to be told
		c.load.window = window
	default:
		if !c.load.told {
			c.costs = nil
		}
		c.load = load{window: window}
	}
	return &c.load
}

// worthTelling reports whether those who watch over shards have any use for it.
func (l *load) worthTelling() bool {
	return l.throttled+l.refused > 0 || l.requests >= busyRequests
}

// tell makes the load one to tell of; c.mu is held.
func (c *committer) tell(l *load) {
	if l.busy {
		return
	}
	l.busy = true
	n := &c.node.loads
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy == nil {
		n.busy = make(map[*committer]struct{})
	}
	n.busy[c] = struct{}{}
}

// recentCosts are by limit what most recent requests cost at most, in whole tokens;
// empty while little is asked of the bucket.
func (c *committer) recentCosts() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.costs.usual()
}

// tellLoads reports until ctx ends.
func (s *Service) tellLoads(ctx context.Context) {
	tick := time.NewTicker(s.tuning.LoadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.tellLoad()
		}
	}
}

// tellLoad reports what was asked for since the last report. A report that cannot
// be sent is lost: the next one is as good.
func (s *Service) tellLoad() {
	now, err := s.clock.Now()
	if err != nil {
		return // and what is noted meanwhile goes into a later report
	}
	since, told := s.takeLoads(now)
	for part := range slices.Chunk(told, events.MaxLoads) {
		data, err := events.EncodeLoad(&events.LoadReport{
			Node: s.boot, FromMs: since.Time().UnixMilli(), ToMs: now.Time().UnixMilli(), Loads: part,
		})
		if err == nil {
			err = s.nats.Publish(events.LoadSubject, data)
		}
		if err != nil {
			s.log.Warn("the load of buckets cannot be reported", "error", err)
			return
		}
	}
}

// takeLoads are the loads worth telling of, up to now, and since when they were
// counted; the next ones count from zero.
func (s *Service) takeLoads(now bucket.Instant) (since bucket.Instant, told []events.Load) {
	s.loads.mu.Lock()
	since, busy := s.loads.since, s.loads.busy
	if since == 0 || since > now {
		since = now - events.LoadEvery
	}
	s.loads.since, s.loads.busy = now, nil
	s.loads.mu.Unlock()
	window := s.loads.window.Add(1)
	for c := range busy {
		c.mu.Lock()
		l, costs := c.load, c.costs.usual()
		c.load = load{window: window, told: l.worthTelling()}
		c.mu.Unlock()
		if l.worthTelling() {
			told = append(told, events.Load{
				Key: c.key, FailedUnits: l.throttled + l.refused, Requests: l.requests, Denied: l.denied, Costs: costs,
			})
		}
	}
	slices.SortFunc(told, func(a, b events.Load) int { return cmp.Compare(a.Key.Key().PK, b.Key.Key().PK) })
	return since, told
}

// costSamples are the costs of recent requests, by limit of the settings they were
// made under.
type costSamples struct {
	of     *config.Resolved
	count  int       // of requests
	tokens [][]int64 // by limit, the last keptCosts of them in no order
}

func newCostSamples(of *config.Resolved) *costSamples {
	s := &costSamples{of: of, tokens: make([][]int64, len(of.Limits))}
	for i := range s.tokens {
		s.tokens[i] = make([]int64, keptCosts)
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
	for i, l := range s.of.Limits {
		s.tokens[i][s.count%keptCosts], _ = costs.Get(l.Name)
	}
	s.count++
}

// usual are by limit what usualPercent of the requests cost at most.
func (s *costSamples) usual() map[string]int64 {
	usual := make(map[string]int64)
	if s == nil || s.count == 0 {
		return usual
	}
	kept := min(s.count, keptCosts)
	for i, l := range s.of.Limits {
		sorted := slices.Sorted(slices.Values(s.tokens[i][:kept]))
		if tokens := sorted[(kept*usualPercent+99)/100-1]; tokens > 0 {
			usual[l.Name] = tokens
		}
	}
	return usual
}
