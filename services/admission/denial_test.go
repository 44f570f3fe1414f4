package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// standings are the ways in which a bucket may be short of what entity e asks: it is
// one shard or several, or a level of a cascade.
func standings() map[string]func(t *testing.T, w *world) (short string) {
	limit := func(capacity, amount, seconds int64) api.Limit {
		return api.Limit{Name: "rpm", Capacity: capacity, RefillAmount: amount, RefillPeriodSeconds: seconds}
	}
	divided := func(count int) func(t *testing.T, w *world) string {
		return func(t *testing.T, w *world) string {
			t.Helper()
			w.setLimits(t, own("e"), limit(9, 7, 13))
			n := w.node(t, Tuning{})
			require.True(t, admits(t, n.spend(w, "e", 0)))
			require.NoError(t, n.stop())
			w.divide(t, "e", count)
			return "e"
		}
	}
	cascade := func(child, parent api.Limit, short string) func(t *testing.T, w *world) string {
		return func(t *testing.T, w *world) string {
			t.Helper()
			w.lineage(t, "e", "parent", "root")
			w.setLimits(t, own("e"), child)
			w.setLimits(t, own("parent"), parent)
			w.setLimits(t, own("root"), perDay("rpm", 1000))
			return short
		}
	}
	return map[string]func(t *testing.T, w *world) string{
		"one shard":                 divided(1),
		"four shards":               divided(4),
		"the child of a cascade":    cascade(limit(9, 7, 13), limit(90, 70, 13), "e"),
		"the parent of a cascade":   cascade(limit(90, 70, 13), limit(9, 7, 13), "parent"),
		"either level of a cascade": cascade(limit(9, 7, 13), limit(9, 5, 11), ""),
	}
}

// drained acquires until there is nothing left, and returns the last denial.
func drained(t *testing.T, nc *nats.Conn) api.AcquireReply {
	t.Helper()
	for {
		if reply := acquire(t, nc, rpmOf("e", 1)); !reply.Allowed {
			return reply
		}
	}
}

// P4: retry_after is the least millisecond at which the same request passes. A
// millisecond before, a node denies it, and one millisecond is left; then it is
// admitted.
func TestRetryAfterIsEnoughAndNotTooMuch(t *testing.T) {
	seed := rand.Uint64()
	for name, setUp := range standings() {
		t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			w, m := newManualWorld(t)
			setUp(t, w)
			w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			for _, cost := range []int64{1, 1, 3, 9, 2, 5, 1} {
				m.pass(time.Duration(random.IntN(700)) * time.Millisecond)
				drained(t, nc)
				m.pass(time.Duration(random.IntN(300)) * time.Millisecond)
				denied := acquire(t, nc, rpmOf("e", cost))
				require.False(t, denied.Allowed)
				require.Positive(t, denied.RetryAfterMs)
				wait := int64(0)
				for _, l := range denied.Limits {
					require.Equal(t, l.Available < l.Requested, l.Exceeded)
					wait = max(wait, l.RetryAfterMs)
				}
				require.Equal(t, wait, denied.RetryAfterMs, "the last of the limits decides")

				m.pass(time.Duration(denied.RetryAfterMs-1) * time.Millisecond)
				early := acquire(t, nc, rpmOf("e", cost))
				require.False(t, early.Allowed, "%d ms were one too many for %d tokens", denied.RetryAfterMs, cost)
				require.EqualValues(t, 1, early.RetryAfterMs)
				m.pass(time.Millisecond)
				require.True(t, acquire(t, nc, rpmOf("e", cost)).Allowed, "%d ms were not enough for %d tokens", denied.RetryAfterMs, cost)
			}
		})
	}
}

// P2: what a node knows of a bucket denies for a second. A node that saw the bucket
// short does not notice before that it was filled by others; from then on it asks.
func TestADenialIsOfAStateOfTheLastSecond(t *testing.T) {
	for name, setUp := range standings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newManualWorld(t)
			short := setUp(t, w)
			n := w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			drained(t, nc)
			for _, entity := range []string{"e", "parent"} {
				if short == entity || short == "" {
					for _, b := range w.tree(t, entity) {
						w.hold(t, entity, b.Key.Shard, 9/int64(b.Level)+1)
					}
				}
			}
			m.pass(400 * time.Millisecond)
			before := n.faults.Total().Calls
			require.False(t, acquire(t, nc, rpmOf("e", 8)).Allowed, "the node goes by what it knows")
			require.Equal(t, before, n.faults.Total().Calls, "and asks nobody")
			m.pass(601 * time.Millisecond)
			require.True(t, acquire(t, nc, rpmOf("e", 8)).Allowed)
		})
	}
}
