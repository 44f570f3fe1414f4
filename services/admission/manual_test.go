package admission

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// manual is a time that passes when a test says so.
type manual struct{ elapsed atomic.Int64 } // nanoseconds since manualStart

func manualStart() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func (m *manual) now() time.Time { return manualStart().Add(time.Duration(m.elapsed.Load())) }

func (m *manual) instant() bucket.Instant { return bucket.At(m.now()) }

func (m *manual) pass(d time.Duration) { m.elapsed.Add(int64(d)) }

// clock is one whose wall time is ahead by so much.
func (m *manual) clock(ahead time.Duration) store.ClockSource {
	return func() store.ClockReading {
		elapsed := time.Duration(m.elapsed.Load())
		return store.ClockReading{Wall: manualStart().Add(elapsed + ahead), Mono: time.Hour + elapsed}
	}
}

// newManualWorld is a world on a manual time.
func newManualWorld(t *testing.T) (*world, *manual) {
	t.Helper()
	m := new(manual)
	return newWorldAt(t, &world{now: m.now, clock: func() store.ClockSource { return m.clock(0) }}), m
}

// spend acquires tokens of rpm at a node, past NATS.
func (n *node) spend(w *world, entity string, tokens int64) result {
	return n.do(w, entity, operation{amounts: api.Amounts{{Name: "rpm", Tokens: tokens}}})
}

// do asks a bucket.
func (n *node) do(w *world, entity string, op operation) result {
	return n.doAt(subcall{n.router.member(w.bucketKey(entity)), op})[0]
}

func (n *node) doAt(subcalls ...subcall) []result {
	now := n.clock.Mono()
	return askAll(subcalls, asker{request: &request{service: n.Service}, received: now, deadline: now + 5*time.Second, answerBy: now + 5*time.Second})
}

// give settles what an acquire spent, at any node, times so much per token spent:
// −1 gives back all of it.
func (n *node) give(w *world, entity string, spent result, amounts api.Amounts, factor int64) []result {
	var debits, refunds []subcall
	for _, part := range leaseLevels(&spent, amounts) {
		key := w.bucketKey(entity)
		key.Shard = part.Shard
		var settled api.Amounts
		for _, a := range part.Refund() {
			settled = append(settled, api.Amount{Name: a.Name, Tokens: -a.Tokens * factor})
		}
		switch {
		case len(settled) == 0:
		case factor < 0:
			refunds = append(refunds, subcall{n.router.member(key), operation{amounts: settled, settled: 1}})
		default:
			debits = append(debits, subcall{n.router.member(key), operation{settle: true, amounts: settled}})
		}
	}
	given := make([]result, len(refunds))
	r := &request{service: n.Service, received: n.clock.Mono(), deadline: n.clock.Mono() + 5*time.Second}
	awaitRefunds(refundAll(refunds, r), len(refunds), 5*time.Second, func(i int, res result) { given[i] = res })
	return append(given, n.doAt(debits...)...)
}

// admits reports whether a spend was admitted; a denial is the only other outcome.
func admits(t *testing.T, res result) bool {
	t.Helper()
	require.NoError(t, res.err)
	require.Contains(t, []verdict{verdictCommit, verdictDeny}, res.verdict)
	return res.verdict == verdictCommit
}
