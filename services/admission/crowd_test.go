package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// crowd lets another operation arrive at a shard with each read of a bucket, as long as
// the first ones wait, and requires that they are decided all the same.
func (n *node) crowd(t *testing.T, w *writer, arrives func(), first ...operation) []shardResult {
	t.Helper()
	const most = 200
	var count, decided atomic.Int64
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		if op == "GetItem" && int(decided.Load()) < len(first) && count.Load() < most {
			count.Add(1)
			arrives()
		}
		return fault.Fault{}
	})
	results := make([]shardResult, len(first))
	var waiting sync.WaitGroup
	waiting.Add(len(first))
	arrives()
	for i, op := range first {
		w.submit(n.anybody().call(op, func(res shardResult) {
			results[i] = res
			decided.Add(1)
			waiting.Done()
		}))
	}
	waiting.Wait()
	n.faults.Match(nil)
	require.Less(t, count.Load(), int64(most), "others that arrive keep it from being decided")
	return results
}

// Settlements of what a bucket may not have need a look that is younger than they are.
// However quickly they follow each other, acquires beside them are decided.
func TestACrowdOfSettlementsHoldsUpNobody(t *testing.T) {
	gone := api.Amounts{{Name: "gone", Tokens: 1}}
	for name, settle := range map[string]func(n *node, m *member){
		"refunds": func(n *node, m *member) {
			refundAll([]subcall{{m, operation{amounts: api.Amounts{{Name: "gone", Tokens: -1}}}}}, n.anybody())
		},
		"debits": func(n *node, m *member) {
			m.writer.submit(n.anybody().call(operation{settle: true, amounts: gone}, func(shardResult) {}))
		},
	} {
		for shard := range 2 {
			t.Run(fmt.Sprintf("%s of shard %d", name, shard), func(t *testing.T) {
				t.Parallel()
				w := tpmWorld(t)
				n := w.node(t, Tuning{Queue: 1 << 20})
				acquire(t, w.nats.Connect(t), one)
				key := w.bucketKey("api-key-123")
				key.Resource, key.Shard = "gpt-4", shard
				m := n.router.member(key)
				res := n.crowd(t, &m.writer, func() { settle(n, m) }, operation{amounts: api.Amounts{{Name: "rpm", Tokens: 1}}, part: true})[0]
				require.NoError(t, res.err)
				require.Equal(t, []verdict{verdictCommit, verdictMoved}[shard], res.verdict, "there is no other shard")
			})
		}
	}
}

// anybody is a request that waits as long as tests do.
func (n *node) anybody() *request {
	now := n.clock.Mono()
	return &request{service: n.Service, received: now, deadline: now + patience}
}

// call is an operation of the request on a shard.
func (r *request) call(op operation, finish func(shardResult)) *call {
	return &call{operation: op, asker: r.asker(), caller: told(finish)}
}

// A look that has to be younger than its request waits for a read. Those that arrive
// meanwhile keep neither a denial nor the look from being answered.
func TestACrowdOfLooksHoldsUpNoDenial(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	acquire(t, w.nats.Connect(t), whole)
	of := &n.router.member(keys.Bucket{Namespace: w.ns, Entity: "api-key-123", Resource: "gpt-4"}).writer
	look := func() operation { return operation{peek: true, since: n.clock.Mono()} }
	results := n.crowd(t, of, func() { of.submit(n.anybody().call(look(), func(shardResult) {})) },
		operation{amounts: api.Amounts{{Name: "tpm", Tokens: 1}}}, look())
	require.Equal(t, verdictDeny, results[0].verdict)
	require.Equal(t, verdictShow, results[1].verdict)
}

// Settlements go on after their callers' time. There is room for so many only; beyond,
// they are refused before they begin, and counted once when they are repeated.
func TestSettlementsThatDoNotEndAreBounded(t *testing.T) {
	const room = 8
	for name, begin := range map[string]func(n *node) (end func()){
		"records of unknown outcome": func(n *node) func() {
			var back atomic.Bool
			n.leases.Records = &faultyRecords{Records: n.leases.Records, reads: fine, writes: func() error {
				if back.Load() {
					return nil
				}
				return errUnacknowledged
			}}
			return func() { back.Store(true) }
		},
		"refunds that fail": func(n *node) func() {
			always(n, fault.Fault{Kind: fault.Unreachable}, "UpdateItem", "GetItem")
			return func() { n.faults.Match(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tpmWorld(t)
			n := w.node(t, Tuning{Queue: room})
			nc := w.nats.Connect(t)
			leases := make([]string, room+4)
			for i := range leases {
				leases[i] = acquire(t, nc, fmt.Sprintf(`{"entity":"e%d","resource":"gpt-4","consume":{"tpm":100}}`, i)).Lease
			}
			end := begin(n)
			for i, lease := range leases {
				full := int64(min(i, room)) // those before hold their room, and no more
				require.Eventually(t, func() bool { return n.unsettled.Load() <= full }, patience, tickle)
				m := send(t, nc, api.VerbRelease, releaseBody(lease), 50*time.Millisecond)
				for codeOf(m) == api.CodeDeadlineExceeded { // it has not begun
					m = send(t, nc, api.VerbRelease, releaseBody(lease), 200*time.Millisecond)
				}
				if i < room {
					require.Contains(t, []api.Code{"", api.CodeUnavailable}, codeOf(m), string(m.Data))
				} else {
					require.Equal(t, api.CodeOverloaded, codeOf(m), string(m.Data))
				}
			}
			end()
			for _, lease := range leases {
				require.Eventually(t, func() bool {
					return codeOf(send(t, nc, api.VerbRelease, releaseBody(lease), patience)) == ""
				}, patience, tickle)
			}
			require.Eventually(t, func() bool { return n.unsettled.Load() == 0 }, patience, tickle)
			for i := range leases {
				require.Zero(t, w.item(t, fmt.Sprintf("e%d", i), "gpt-4").Find("tpm").Consumed)
			}
		})
	}
}

// codeOf is the code of a refusal, empty for another reply.
func codeOf(m *nats.Msg) api.Code {
	if m.Header.Get(api.HeaderErrorCode) == "" {
		return ""
	}
	return api.DecodeError(m.Data).Code
}

// Refunds of one shard are one sum, however many there are and however long it waits:
// they take the room of one settlement, and nothing is kept of callers that were answered.
func TestRefundsThatWaitAreOneSum(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	const leases = 40
	tokens := make([]string, leases)
	for i := range tokens {
		tokens[i] = acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":10}}`).Lease
	}
	always(n, fault.Throttling(), "UpdateItem")
	c := &n.router.member(keys.Bucket{Namespace: w.ns, Entity: "api-key-123", Resource: "gpt-4"}).writer
	for _, lease := range tokens {
		require.Eventually(t, func() bool {
			return codeOf(send(t, nc, api.VerbRelease, releaseBody(lease), 20*time.Millisecond)) == ""
		}, patience, tickle)
	}
	require.Eventually(t, func() bool { return n.unsettled.Load() == 1 }, patience, tickle)
	c.mu.Lock()
	waiters := 0
	for _, q := range append([]*call{c.refunds}, c.flight...) {
		if q != nil {
			waiters += len(q.waiters)
		}
	}
	c.mu.Unlock()
	require.Less(t, waiters, leases/2)
	n.faults.Match(nil)
	require.Eventually(t, func() bool { return w.consumed(t, "tpm") == 0 }, patience, tickle)
}
