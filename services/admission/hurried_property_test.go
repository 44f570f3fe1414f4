package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// hurried is a caller whose time hardly suffices. It bounds what its buckets may have
// consumed.
type hurried struct {
	t        *testing.T
	w        *world
	nc       *nats.Conn
	random   *rand.Rand
	leases   [][]string // the tokens of each lease, oldest first
	certain  [2]int64   // of rpm and tpm: spent for certain, and possibly given back since
	given    [2]int64   // credits of operations that may have begun
	doubtful [2]int64   // may have been spent
}

func (h *hurried) hurry() time.Duration { return time.Duration(1+h.random.IntN(60)) * time.Millisecond }

func (h *hurried) acquires() {
	rpm, tpm := int64(1+h.random.IntN(3)), int64(10+h.random.IntN(90))
	m := send(h.t, h.nc, api.VerbAcquire, fmt.Sprintf(`{"entity":"e","resource":"gpt-4","consume":{"rpm":%d,"tpm":%d}}`, rpm, tpm), 4*h.hurry())
	switch codeOf(m) {
	case "":
		h.leases = append(h.leases, []string{leaseOf(m.Data)})
		h.certain[0], h.certain[1] = h.certain[0]+rpm, h.certain[1]+tpm
	case api.CodeUnavailable:
		h.doubtful[0], h.doubtful[1] = h.doubtful[0]+rpm, h.doubtful[1]+tpm
	default:
		require.Equal(h.t, api.CodeDeadlineExceeded, codeOf(m), string(m.Data))
	}
}

// adjusts spends one limit while it gives back another, and repeats itself, by the
// newest token of the lease or by an older one.
func (h *hurried) adjusts(of int) {
	tokens := h.leases[of]
	token := tokens[len(tokens)-1]
	if h.random.IntN(4) == 0 {
		token = tokens[h.random.IntN(len(tokens))]
	}
	deltas := [2]int64{int64(h.random.IntN(5) - 2), int64(h.random.IntN(41) - 20)}
	body := adjustBody(token, fmt.Sprintf(`{"rpm":%d,"tpm":%d}`, deltas[0], deltas[1]))
	for range 1 + h.random.IntN(3) {
		m := send(h.t, h.nc, api.VerbAdjust, body, h.hurry())
		switch code := codeOf(m); code {
		case "", api.CodeUnavailable, api.CodeLeaseConflict: // of a conflict, debits may be written
			for i, d := range deltas {
				h.doubtful[i] += max(d, 0) // each of them: without records, repeats count again
				h.given[i] += max(-d, 0)
			}
			if code == "" {
				h.leases[of] = append(tokens, leaseOf(m.Data))
			}
		default:
			require.Contains(h.t, []api.Code{api.CodeDeadlineExceeded, api.CodeExceedsLease}, code, string(m.Data))
		}
		if codeOf(m) == "" && h.random.IntN(2) == 0 {
			return
		}
	}
}

// Mixed settlements of callers that hardly wait, at two nodes whose store and lease
// records fail in every way: no lease holds more than was drawn for it, every lease can be
// released in the end, and what the bucket has consumed is explained by what callers
// were told, to the token where nothing was in doubt.
func TestMixedSettlementsOfHurriedCallers(t *testing.T) {
	for range 2 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const capacity = 1_000_000
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", capacity), perDay("tpm", capacity))
			var nodes []*node
			var reliable []lease.Records
			for i := range uint64(2) {
				n := w.nodeWith(t, Tuning{StoreTimeout: 100 * time.Millisecond}, fault.Options{Seed: seed + i, Latency: fault.Uniform(0, 8*time.Millisecond)})
				random := sync.OnceValue(func() *rand.Rand { return rand.New(rand.NewPCG(seed, 100+i)) })
				var mu sync.Mutex
				strike := func(errs ...error) func() error {
					return func() error {
						mu.Lock()
						defer mu.Unlock()
						if at := random().IntN(10 * len(errs)); at < len(errs) {
							return errs[at]
						}
						return nil
					}
				}
				nodes, reliable = append(nodes, n), append(reliable, n.leases.Records)
				n.leases.Records = &faultyRecords{Records: n.leases.Records, writes: strike(lease.ErrNotStored, errUnacknowledged), reads: strike(errors.New("no answer"))}
				faults := []fault.Fault{fault.Throttling(), {Kind: fault.Unreachable}, fault.InternalError(), fault.InternalErrorAfter(), {Kind: fault.ReplyLost}}
				n.faults.Match(func(op string, _ []byte) fault.Fault {
					mu.Lock()
					defer mu.Unlock()
					if at := random().IntN(12 * len(faults)); (op == "UpdateItem" || op == "PutItem") && at < len(faults) {
						return faults[at]
					}
					return fault.Fault{}
				})
			}
			callers := make([]*hurried, 4)
			var wg sync.WaitGroup
			for i := range callers {
				h := &hurried{t: t, w: w, nc: w.nats.Connect(t), random: rand.New(rand.NewPCG(seed, uint64(i)))}
				callers[i] = h
				wg.Go(func() {
					for range 40 {
						if len(h.leases) == 0 || h.random.IntN(4) == 0 {
							h.acquires()
							continue
						}
						h.adjusts(h.random.IntN(len(h.leases)))
					}
				})
			}
			wg.Wait()
			for _, n := range nodes {
				n.faults.Match(nil)
			}
			for i, n := range nodes {
				require.Eventually(t, func() bool { return n.unsettled.Load() == 0 }, patience, tickle, "settlements that never end")
				n.leases.Records = reliable[i]
			}
			nc := w.nats.Connect(t)
			var certain, given, doubtful [2]int64
			for _, h := range callers {
				for i := range 2 {
					certain[i], given[i], doubtful[i] = certain[i]+h.certain[i], given[i]+h.given[i], doubtful[i]+h.doubtful[i]
				}
			}
			consumed := func(i int) int64 { return w.item(t, "e", "gpt-4").Find([]string{"rpm", "tpm"}[i]).Consumed / 1000 }
			w.checkHeld(t)
			for i := range 2 {
				require.GreaterOrEqual(t, consumed(i), certain[i]-given[i], "more was given back than was asked for")
				require.LessOrEqual(t, consumed(i), certain[i]+doubtful[i], "more was spent than was asked for")
			}
			for _, h := range callers {
				for _, tokens := range h.leases { // by any token of the lease
					token := tokens[h.random.IntN(len(tokens))]
					require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
					m := send(t, nc, api.VerbAdjust, adjustBody(tokens[0], `{"tpm":-1}`), patience)
					require.Contains(t, []api.Code{"", api.CodeLeaseConflict}, codeOf(m), "it holds nothing any more: %s", m.Data)
				}
			}
			for i := range 2 {
				require.Eventually(t, func() bool { return nodes[0].unsettled.Load()+nodes[1].unsettled.Load() == 0 }, patience, tickle)
				require.GreaterOrEqual(t, consumed(i), int64(0), "P1: leases gave back more than was drawn for them")
				require.LessOrEqual(t, consumed(i), certain[i]+doubtful[i])
			}
		})
	}
}
