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

// history adds up what callers were told, in rpm tokens. Every operation spends
// tpmPerRPM times as much of the other limit, so that the two counters agree
// only if every write took all limits or none.
type history struct {
	time                    *manual
	mu                      sync.Mutex
	admitted                int64 // acquires
	admittedUnknown         int64 // acquires that may be spent, and were not admitted
	given, givenUnknown     int64 // credits answered; credits of unknown outcome
	charged, chargedUnknown int64 // debits likewise; a debit may count twice
	denials, faults         int
}

const tpmPerRPM = 1000

// Two nodes on one store and one NATS server keep every promise, whatever is
// lost on the way: nothing is admitted over the limit (P1), every write takes
// all limits or none (P3), denials tell the truth (P4), and a lost reply neither
// spends twice nor admits twice (P6).
func TestTwoNodesKeepThePromises(t *testing.T) {
	for range 3 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			playHistory(t, seed)
		})
	}
}

const (
	lowCapacity, highCapacity = 300, 500 // rpm per day, changed while the test runs
	workers, rounds           = 8, 120
)

func playHistory(t *testing.T, seed uint64) {
	t.Helper()
	w, m := newManualWorld(t)
	setHistoryLimits(t, w, highCapacity, false)
	var nodes []*node
	for n := range uint64(2) {
		nodes = append(nodes, w.nodeWith(t, Tuning{StoreTimeout: 200 * time.Millisecond, Remember: 1 + int64(n)*100*stateBytes}, fault.Options{
			Seed: seed + n, Latency: fault.Uniform(0, 2*time.Millisecond),
			Chances: []fault.Chance{
				{Probability: .02, Fault: fault.Fault{Kind: fault.ReplyLost}},
				{Probability: .01, Fault: fault.InternalErrorAfter()},
				{Probability: .01, Fault: fault.InternalError()},
				{Probability: .02, Fault: fault.Throttling()},
				{Probability: .01, Fault: fault.Fault{Kind: fault.Unreachable}},
				{Probability: .005, Fault: fault.Fault{Kind: fault.Late, Delay: 230 * time.Millisecond}},
			},
		}))
	}
	h := &history{time: m}
	h.failOnce(t, w, nodes)
	var wg sync.WaitGroup
	for n := range workers {
		nc := w.nats.Connect(t)
		wg.Go(func() { h.work(t, nc, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	wg.Go(func() {
		random := rand.New(rand.NewPCG(seed, 99))
		for range 12 {
			setHistoryLimits(t, w, []int64{lowCapacity, highCapacity}[random.IntN(2)], random.IntN(2) == 0)
			timer := time.NewTimer(time.Duration(random.IntN(60)) * time.Millisecond)
			<-timer.C
		}
	})
	wg.Wait()
	nc := w.nats.Connect(t)
	for h.denials == 0 { // whatever was lost
		h.acquire(t, nc, 4)
	}
	h.check(t, w)
}

// failOnce lets no update pass until a caller has been told that its acquire
// failed: a history of few writes may meet no fault by chance.
func (h *history) failOnce(t *testing.T, w *world, nodes []*node) {
	t.Helper()
	for _, n := range nodes {
		n.faults.Match(func(operation string, _ []byte) fault.Fault {
			if operation == "UpdateItem" {
				return fault.InternalError()
			}
			return fault.Fault{}
		})
		defer n.faults.Match(nil)
	}
	nc := w.nats.Connect(t)
	for h.faults == 0 {
		h.acquire(t, nc, 1)
	}
}

// setHistoryLimits changes the stored limits behind the nodes' backs and tells
// one of the two ways they learn of it.
func setHistoryLimits(t *testing.T, w *world, capacity int64, extra bool) {
	t.Helper()
	ls := []api.Limit{perDay("rpm", capacity), perDay("tpm", capacity*tpmPerRPM)}
	if extra {
		ls = append(ls, perDay("daily", 1_000_000))
	}
	target := api.LimitsTarget{Resource: "gpt-4"}
	w.setLimits(t, target, ls...)
	nc := w.nats.Connect(t)
	body, err := json.Marshal(target)
	require.NoError(t, err)
	require.NoError(t, nc.Publish(api.ConfigSubject(api.DefaultNamespace), body))
	require.NoError(t, nc.Flush())
}

func (h *history) work(t *testing.T, nc *nats.Conn, random *rand.Rand) {
	t.Helper()
	for range rounds {
		cost := 1 + random.Int64N(4)
		lease := h.acquire(t, nc, cost)
		if lease == "" {
			continue
		}
		switch random.IntN(4) {
		case 0: // used as reserved
		case 1:
			h.settle(t, nc, api.VerbRelease, releaseBody(lease), -cost, random.IntN(2) == 0)
		case 2:
			h.settle(t, nc, api.VerbAdjust, both(lease, -cost), -cost, random.IntN(2) == 0)
		case 3:
			h.settle(t, nc, api.VerbAdjust, both(lease, 1), 1, random.IntN(2) == 0)
		}
	}
}

func both(lease string, delta int64) string {
	return adjustBody(lease, fmt.Sprintf(`{"rpm":%d,"tpm":%d}`, delta, delta*tpmPerRPM))
}

func (h *history) acquire(t *testing.T, nc *nats.Conn, cost int64) (lease string) {
	t.Helper()
	h.time.pass(perRequest)
	m := send(t, nc, api.VerbAcquire, fmt.Sprintf(`{"entity":"e","resource":"gpt-4","consume":{"rpm":%d,"tpm":%d}}`, cost, cost*tpmPerRPM), patience)
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.Header.Get(api.HeaderErrorCode) != "" {
		require.Equal(t, api.CodeUnavailable, api.DecodeError(m.Data).Code, string(m.Data))
		h.admittedUnknown += cost
		h.faults++
		return ""
	}
	var reply api.AcquireReply
	require.NoError(t, json.Unmarshal(m.Data, &reply))
	if !reply.Allowed {
		h.denials++
		require.False(t, reply.Never)
		require.Positive(t, reply.RetryAfterMs)
		for _, l := range reply.Limits {
			require.Equal(t, l.Available < l.Requested, l.Exceeded, "a limit is exceeded when it does not hold what is asked")
		}
		return ""
	}
	require.False(t, reply.Degraded)
	h.admitted += cost
	return reply.Lease
}

// settle sends a settlement, perhaps twice: a repeat never counts again.
func (h *history) settle(t *testing.T, nc *nats.Conn, verb api.Verb, body string, delta int64, twice bool) {
	t.Helper()
	m := send(t, nc, verb, body, patience)
	done := m.Header.Get(api.HeaderErrorCode) == ""
	if twice {
		again := send(t, nc, verb, body, patience)
		if refusal := api.DecodeError(again.Data); done && delta < 0 && refusal.Code != api.CodeUnavailable {
			require.Equal(t, leaseOf(m.Data), leaseOf(again.Data), "a repeat is answered with the same token")
		}
		done = done || again.Header.Get(api.HeaderErrorCode) == ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case delta < 0 && done:
		h.given -= delta
	case delta < 0:
		h.givenUnknown -= delta
	case done:
		h.charged += delta
		h.chargedUnknown += delta // a debit of unknown outcome is written once more
	default:
		h.chargedUnknown += 2 * delta
	}
}

func (h *history) check(t *testing.T, w *world) {
	t.Helper()
	b := w.item(t, "e", "gpt-4")
	rpm, tpm := b.Find("rpm").Consumed/1000, b.Find("tpm").Consumed/1000
	t.Logf("admitted %d, denied %d, failed %d, consumed %d", h.admitted, h.denials, h.faults, rpm)
	require.LessOrEqual(t, h.admitted, highCapacity+1+h.given+h.givenUnknown, "P1: more was admitted than capacity, refill and credits")
	require.LessOrEqual(t, rpm, highCapacity+1+h.charged+2*h.chargedUnknown, "P1: what was consumed, net, is beyond capacity, refill and debits")
	require.Equal(t, rpm*tpmPerRPM, tpm, "P3: a write took one limit and not the other")
	require.GreaterOrEqual(t, rpm, h.admitted+h.charged-h.given-h.givenUnknown, "P6: something was admitted and not spent")
	require.LessOrEqual(t, rpm, h.admitted+h.admittedUnknown+h.charged+2*h.chargedUnknown-h.given, "P6: something was spent twice")
	require.NotZero(t, h.denials)
	require.NotZero(t, h.faults)
}
