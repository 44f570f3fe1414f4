package admission

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

// generation is one entity of a line that cascades upwards; the first is the
// highest. Each is also acquired from by itself.
type generation struct {
	entity   string
	capacity int64 // rpm per day; tpm is tpmPerRPM times as much
}

func line() []generation {
	return []generation{{"root", 600}, {"org", 400}, {"team", 220}, {"key", 120}}
}

// cascadeHistory keeps one history for each generation: what callers were told
// of all acquires that spend from it.
type cascadeHistory struct {
	line  []generation
	of    []history
	tally []int64 // acquires admitted, guarded by the history's mu
	time  *manual
}

// perRequest is what passes with each request. Time does not depend on how fast the
// machine is: known states grow too old to deny by, and no deadline passes.
const perRequest = 5 * time.Millisecond

// each does the same to all generations that an acquire of one spends from.
func (c *cascadeHistory) each(from int, do func(h *history, i int)) {
	for i := range c.line[:from+1] {
		c.of[i].mu.Lock()
		do(&c.of[i], i)
		c.of[i].mu.Unlock()
	}
}

// Two nodes play a line of four generations, from each of them, and every
// generation keeps every promise: nothing over its limits (P1), what one lost
// is what its leases hold, as at all others (P3), denials tell of all levels
// and why (P4), and what is lost on the way is spent rather than minted (P6).
func TestCascadesKeepThePromises(t *testing.T) {
	for name, chances := range map[string][]fault.Chance{
		"throttled": {{Probability: .05, Operations: []string{"UpdateItem", "PutItem", "GetItem"}, Fault: fault.Throttling()}},
		"lossy": {
			{Probability: .02, Fault: fault.Fault{Kind: fault.ReplyLost}},
			{Probability: .01, Fault: fault.InternalErrorAfter()},
			{Probability: .01, Fault: fault.InternalError()},
			{Probability: .02, Fault: fault.Throttling()},
			{Probability: .01, Fault: fault.Fault{Kind: fault.Unreachable}},
			{Probability: .002, Fault: fault.Fault{Kind: fault.Late, Delay: 350 * time.Millisecond}},
		},
	} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
			t.Parallel()
			playCascades(t, seed, chances, name == "throttled")
		})
	}
}

func playCascades(t *testing.T, seed uint64, chances []fault.Chance, lossless bool) {
	t.Helper()
	c := &cascadeHistory{line: line(), of: make([]history, len(line())), tally: make([]int64, len(line()))}
	w, m := newManualWorld(t)
	c.time = m
	for i, g := range c.line {
		w.setLimits(t, own(g.entity), perDay("rpm", g.capacity), perDay("tpm", g.capacity*tpmPerRPM))
		if i > 0 {
			w.under(t, g.entity, c.line[i-1].entity)
		}
	}
	tuning := Tuning{}
	if !lossless {
		tuning.StoreTimeout = 300 * time.Millisecond
	}
	for n := range uint64(2) {
		tuning.Remember = 3 * stateBytes * (1 + int64(n)*100) // one node forgets all the time
		w.nodeWith(t, tuning, fault.Options{Seed: seed + n, Latency: fault.Uniform(0, 2*time.Millisecond), Chances: chances})
	}
	var wg sync.WaitGroup
	for n := range workers {
		nc := w.nats.Connect(t)
		wg.Go(func() { c.work(t, nc, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	wg.Wait()
	nc := w.nats.Connect(t)
	for i := range c.line { // until it is denied, whatever was lost
		for c.of[i].denials == 0 {
			c.acquire(t, nc, i, 4)
		}
	}
	for i := range c.line {
		c.check(t, w, i, lossless)
	}
}

func (c *cascadeHistory) work(t *testing.T, nc *nats.Conn, random *rand.Rand) {
	t.Helper()
	for range rounds {
		cost, from := 1+random.Int64N(4), random.IntN(len(c.line))
		lease := c.acquire(t, nc, from, cost)
		if lease == "" {
			continue
		}
		switch random.IntN(4) {
		case 0: // used as reserved
		case 1:
			c.settle(t, nc, from, api.VerbRelease, releaseBody(lease), -cost)
		case 2:
			c.settle(t, nc, from, api.VerbAdjust, both(lease, -cost), -cost)
		case 3:
			c.settle(t, nc, from, api.VerbAdjust, both(lease, 1), 1)
		}
	}
}

func (c *cascadeHistory) acquire(t *testing.T, nc *nats.Conn, from int, cost int64) (lease string) {
	t.Helper()
	c.time.pass(perRequest)
	consume := fmt.Sprintf(`{"rpm":%d,"tpm":%d}`, cost, cost*tpmPerRPM)
	m := send(t, nc, api.VerbAcquire, spending(c.line[from].entity, consume), patience)
	if m.Header.Get(api.HeaderErrorCode) != "" {
		require.Equal(t, api.CodeUnavailable, api.DecodeError(m.Data).Code, string(m.Data))
		t.Logf("%s is told: %s", c.line[from].entity, m.Data)
		c.each(from, func(h *history, _ int) { h.admittedUnknown += cost; h.faults++ })
		return ""
	}
	var reply api.AcquireReply
	require.NoError(t, json.Unmarshal(m.Data, &reply))
	require.Len(t, reply.Limits, 2*(from+1), "all limits of all levels are told of")
	require.False(t, reply.Degraded)
	if reply.Allowed {
		c.each(from, func(h *history, i int) { h.admitted += cost; c.tally[i]++ })
		return reply.Lease
	}
	wait := int64(0)
	for _, l := range reply.Limits {
		require.Equal(t, l.Available < l.Requested, l.Exceeded, "a limit is exceeded when it does not hold what is asked")
		wait = max(wait, l.RetryAfterMs)
	}
	require.Positive(t, wait)
	require.Equal(t, wait, reply.RetryAfterMs)
	// A take-back of unknown outcome leaves tokens spent.
	c.each(from, func(h *history, _ int) { h.admittedUnknown += cost; h.denials++ })
	return ""
}

func (c *cascadeHistory) settle(t *testing.T, nc *nats.Conn, from int, verb api.Verb, body string, delta int64) {
	t.Helper()
	m := send(t, nc, verb, body, patience)
	done := m.Header.Get(api.HeaderErrorCode) == ""
	c.each(from, func(h *history, _ int) {
		switch {
		case delta < 0 && done:
			h.given -= delta
		case delta < 0:
			h.givenUnknown -= delta
			h.faults++
		case done:
			h.charged += delta
			h.chargedUnknown += delta // a debit of unknown outcome is written once more
		default:
			h.chargedUnknown += 2 * delta
			h.faults++
		}
	})
}

func (c *cascadeHistory) check(t *testing.T, w *world, i int, lossless bool) {
	t.Helper()
	h, g := &c.of[i], c.line[i]
	b := w.item(t, g.entity, "gpt-4")
	rpm, tpm := b.Find("rpm").Consumed/1000, b.Find("tpm").Consumed/1000
	t.Logf("%s: admitted %d, denied %d, failed %d, consumed %d of %d", g.entity, h.admitted, h.denials, h.faults, rpm, g.capacity)
	require.LessOrEqual(t, h.admitted, g.capacity+1+h.given+h.givenUnknown, "P1: more was admitted than capacity, refill and credits")
	require.LessOrEqual(t, rpm, g.capacity+1+h.charged+2*h.chargedUnknown, "P1: what was consumed, net, is beyond capacity, refill and debits")
	require.Equal(t, rpm*tpmPerRPM, tpm, "P3: a write took one limit and not the other")
	require.GreaterOrEqual(t, rpm, h.admitted+h.charged-h.given-h.givenUnknown, "P6: something was admitted and not spent")
	require.NotZero(t, h.denials)
	if !lossless {
		require.LessOrEqual(t, rpm, h.admitted+h.admittedUnknown+h.charged+2*h.chargedUnknown-h.given, "P6: something was spent twice")
		return
	}
	require.Zero(t, h.faults, "something failed though nothing was lost")
	require.Equal(t, h.admitted+h.charged-h.given, rpm, "P3: what a level lost is what its leases hold")
	require.Equal(t, c.tally[i], b.Acquires, "P3: an acquire that is taken back never happened")
}
