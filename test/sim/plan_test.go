package sim_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// plan is a world and its workload, drawn from a seed. A minimised seed has fewer faults
// than it was drawn with.
type plan struct {
	Seed  uint64
	Steps int

	Nodes, Callers      int
	Relays, Aggregators int
	Sharders, Archivers int
	Shards              int // that buckets are split into, at most
	Skew                time.Duration
	Limits              map[string][]api.Limit // by entity
	Parents             map[string]string      // by entity; of those that cascade
	Hot                 float64                // part of the acquires that go to the first entity
	Pace                time.Duration          // between two operations of callers, in the mean
	Faults              faults
	StreamRecords       int // in a shard of the change stream
	Changes             bool
	Harsh               bool            // NATS forgets more, and more often
	Without             map[string]bool // kinds of disturbances that are left out, for minimising
	from, to            int             // steps between which disturbances happen
}

// faults are the chances of what goes wrong, each per event that it can strike.
type faults struct {
	Throttle, FailBefore, FailAfter, Unreachable float64 // a request to the store
	LoseReply, Hang                              float64 // a reply of the store
	Delay                                        float64 // a request, a reply or a link is held back
	LoseMessage                                  float64 // a message of core NATS to a caller or a node
	Repeat                                       float64 // a settlement that arrives twice
	Cut, Partition, Kill, Pause, Step, Forget    float64 // per 1,000 steps
	Stale                                        time.Duration
}

// none reports whether nothing goes wrong.
func (f faults) none() bool { return f == faults{} }

const region = "us-east-1"

// newPlan draws a plan.
func newPlan(seed uint64, steps int) *plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &plan{
		Seed: seed, Steps: steps, Nodes: 1 + r.IntN(3), Callers: 1 + r.IntN(3), Shards: 1 << r.IntN(4),
		Limits: map[string][]api.Limit{}, Parents: map[string]string{}, Hot: r.Float64(),
		Pace: []time.Duration{3, 20, 100, 700}[r.IntN(4)] * time.Millisecond, Without: map[string]bool{}, to: steps,
		StreamRecords: 20 + r.IntN(200), Changes: r.IntN(3) == 0, Harsh: *harshFlag,
	}
	if r.IntN(3) > 0 { // the feed and its services
		p.Relays, p.Aggregators = 1+r.IntN(2), 1+r.IntN(2)
		p.Sharders, p.Archivers = r.IntN(2), r.IntN(2)
	}
	names := []string{"rpm", "tpm", "big"}[:1+r.IntN(3)]
	for i := range 2 + r.IntN(3) {
		p.Limits[fmt.Sprintf("key-%d", i)] = drawLimits(r, names)
	}
	if r.IntN(2) == 0 {
		p.Limits["team"] = drawLimits(r, names)
		for i := range 2 {
			p.Parents[fmt.Sprintf("key-%d", i)] = "team"
		}
	}
	if r.IntN(4) > 0 {
		p.drawFaults(r)
	}
	if r.IntN(4) == 0 {
		p.Skew = time.Duration(r.IntN(1500)) * time.Millisecond
	}
	return p
}

func (p *plan) drawFaults(r *rand.Rand) {
	f := &p.Faults
	some := func(c float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return c * r.Float64()
	}
	f.Throttle, f.FailBefore, f.FailAfter, f.Unreachable = some(.1), some(.05), some(.05), some(.05)
	f.LoseReply, f.Hang, f.Delay = some(.1), some(.05), some(.05)
	f.LoseMessage, f.Repeat = some(.06), some(.3)
	f.Cut, f.Partition, f.Kill, f.Pause = some(2), some(2), some(2), some(3)
	f.Step, f.Forget = some(1), some(1)
	if p.Harsh {
		f.Forget *= 5
	}
	if f.Forget > 0 {
		f.Kill = 0 // without a living process that remembers, a loss is not noticed: see docs/failures.md
	}
	if r.IntN(2) == 0 {
		f.Stale = time.Duration(r.IntN(1000)) * time.Millisecond
	}
}

func drawLimits(r *rand.Rand, names []string) []api.Limit {
	var limits []api.Limit
	for _, name := range names {
		l := api.Limit{Name: name, Capacity: 1 + r.Int64N(40), RefillAmount: 1 + r.Int64N(40), RefillPeriodSeconds: []int64{1, 10, 60, 3600}[r.IntN(4)]}
		if name == "big" {
			l.Capacity, l.RefillAmount = l.Capacity*1000, l.RefillAmount*1000
		}
		limits = append(limits, l)
	}
	return limits
}
