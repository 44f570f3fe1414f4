package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Two nodes spend from a bucket that somebody divides and merges all the while, and
// keep every promise whatever is lost on the way: nothing is admitted over the
// limit (P1), what the shards hold at the end is admitted (P2), denials tell the
// truth (P4), and nothing is minted (P6).
func TestDividedBucketsKeepThePromises(t *testing.T) {
	for name, chances := range map[string][]fault.Chance{
		"throttled": {{Probability: .03, Fault: fault.Throttling()}},
		"lossy": {
			{Probability: .02, Fault: fault.Fault{Kind: fault.ReplyLost}},
			{Probability: .01, Fault: fault.InternalErrorAfter()},
			{Probability: .01, Fault: fault.InternalError()},
			{Probability: .02, Fault: fault.Throttling()},
			{Probability: .02, Operations: []string{"TransactWriteItems"}, Fault: fault.TransactionConflict()},
			{Probability: .01, Fault: fault.Fault{Kind: fault.Unreachable}},
		},
	} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
			t.Parallel()
			playDivided(t, seed, chances)
		})
	}
}

func playDivided(t *testing.T, seed uint64, chances []fault.Chance) {
	t.Helper()
	w := newWorld(t)
	w.forgets = true // the counters of merged shards
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", highCapacity), perDay("tpm", highCapacity*tpmPerRPM))
	for n := range uint64(2) {
		w.nodeWith(t, Tuning{StoreTimeout: 200 * time.Millisecond, Remember: 3 * stateBytes * (1 + int64(n)*100)}, fault.Options{
			Seed: seed + n, Latency: fault.Uniform(0, 2*time.Millisecond), Chances: chances,
		})
	}
	h := &history{time: new(manual)} // by which no node goes
	var wg, dividing sync.WaitGroup
	for n := range workers {
		nc := w.nats.Connect(t)
		wg.Go(func() { h.work(t, nc, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	stop := make(chan struct{})
	dividing.Go(func() { w.divideAtRandom(t, rand.New(rand.NewPCG(seed, 99)), stop) })
	wg.Wait()
	close(stop)
	dividing.Wait()
	h.checkDivided(t, w)
}

// divideAtRandom doubles and merges, up to eight shards, until it is stopped.
func (w *world) divideAtRandom(t *testing.T, random *rand.Rand, stop chan struct{}) {
	t.Helper()
	divider, wanted := w.divider(), 1
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
		}
		var tree shards.Tree
		var err error
		if up := random.IntN(3) > 0; up && wanted < 8 {
			tree, err = divider.Double(t.Context(), w.bucketKey("e"), wanted)
		} else {
			tree, err = divider.Shrink(t.Context(), w.bucketKey("e"), max(1, wanted/2))
		}
		switch {
		case err == nil:
			wanted = tree.Wanted()
		case !errors.Is(err, shards.ErrNoBucket):
			t.Errorf("divide: %v", err)
			return
		}
	}
}

func (h *history) checkDivided(t *testing.T, w *world) {
	t.Helper()
	tree := w.tree(t, "e")
	left := bucket.Floor(netOf(tree.Pool("rpm"), bucket.At(w.now()))) // a debit leaves a shard in debt while others hold something
	t.Logf("admitted %d, denied %d, failed %d, left %d on %d shards", h.admitted, h.denials, h.faults, left, len(tree))
	spent := h.admitted + h.charged - h.given
	require.LessOrEqual(t, h.admitted, highCapacity+1+h.given+h.givenUnknown, "P1: more was admitted than capacity, refill and credits")
	require.LessOrEqual(t, left, highCapacity+1-spent+h.givenUnknown, "P6: something was minted")
	require.NotZero(t, h.denials)

	apart := w.elsewhere(t) // a node that nothing happens to
	apart.node(t, Tuning{})
	nc := apart.nats.Connect(t)
	status := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4"}`)
	rest := max(0, min(status.Limits[0].Available, status.Limits[1].Available/tpmPerRPM))
	if status.Limits[0].Available < 0 || status.Limits[1].Available < 0 {
		return // every shard is in debt
	}
	reply := acquire(t, nc, fmt.Sprintf(`{"entity":"e","resource":"gpt-4","consume":{"rpm":%d,"tpm":%d}}`, rest, rest*tpmPerRPM))
	require.True(t, reply.Allowed, "P2: what all shards hold together is admitted")
}
