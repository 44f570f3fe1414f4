package admission

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// P6 where callers hardly wait: the store takes about as long as they do, so that
// answers are due before, while and after it answers. What is admitted is spent at
// every level. What is refused as late (408) has spent nothing; what is refused in
// doubt (503) has spent its tokens once, or not at all.
func TestAcquiresOfCallersThatHardlyWait(t *testing.T) {
	for name, setUp := range map[string]func(t *testing.T, w *world) []string{
		"one shard":   func(*testing.T, *world) []string { return []string{"e"} },
		"four shards": func(t *testing.T, w *world) []string { t.Helper(); w.dividedBefore(t, 4); return []string{"e"} },
		"a cascade": func(t *testing.T, w *world) []string {
			t.Helper()
			w.lineage(t, "e", "parent", "root")
			return []string{"e", "parent", "root"}
		},
	} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000))
			levels := setUp(t, w)
			before := w.spentSoFar(t, levels)
			n := w.nodeWith(t, Tuning{}, fault.Options{Seed: seed, Latency: fault.Uniform(0, 12*time.Millisecond)})
			var mu sync.Mutex
			var admitted, doubtful int64
			var wg sync.WaitGroup
			for caller := range uint64(6) {
				nc := w.nats.Connect(t)
				random := rand.New(rand.NewPCG(seed, caller))
				wg.Go(func() {
					for range 60 {
						tokens := 1 + random.Int64N(5)
						m := send(t, nc, api.VerbAcquire, rpmOf("e", tokens), time.Duration(1+random.IntN(15))*time.Millisecond)
						mu.Lock()
						switch code := api.DecodeError(m.Data).Code; {
						case m.Header.Get(api.HeaderErrorCode) == "":
							var reply api.AcquireReply
							require.NoError(t, json.Unmarshal(m.Data, &reply))
							require.True(t, reply.Allowed)
							require.False(t, reply.Degraded)
							admitted += tokens
						case code == api.CodeUnavailable:
							doubtful += tokens
						default:
							require.Equal(t, api.CodeDeadlineExceeded, code, string(m.Data))
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			require.True(t, acquire(t, w.nats.Connect(t), rpmOf("e", 1)).Allowed, "it goes on")
			require.NoError(t, n.stop()) // what is taken back is back
			admitted++
			for entity, spent := range w.spentSoFar(t, levels) {
				spent -= before[entity]
				require.GreaterOrEqual(t, spent, admitted, "%s: something was admitted and not spent", entity)
				require.LessOrEqual(t, spent, admitted+doubtful, "%s: something was spent that was refused for certain, or spent twice", entity)
			}
			t.Logf("admitted %d, in doubt %d", admitted, doubtful)
		})
	}
}

// dividedBefore divides the bucket of e before any node of the test knows it.
func (w *world) dividedBefore(t *testing.T, count int) {
	t.Helper()
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 0)))
	require.NoError(t, n.stop())
	w.divide(t, "e", count)
}

// spentSoFar is what the buckets of entities have consumed, over all shards, in tokens.
func (w *world) spentSoFar(t *testing.T, entities []string) map[string]int64 {
	t.Helper()
	spent := map[string]int64{}
	for _, entity := range entities {
		spent[entity] = 0
		if w.item(t, entity, "gpt-4") == nil {
			continue
		}
		for _, b := range w.tree(t, entity) {
			spent[entity] += b.Find("rpm").Consumed / bucket.Milli
		}
	}
	return spent
}
