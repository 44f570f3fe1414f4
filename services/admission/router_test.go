package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// reply is a replier that keeps the outcome of an acquire.
type reply struct {
	levels   []result
	statuses []api.LimitStatus
	waitMs   int64
	done     chan struct{}
}

func (*reply) prepare(result) {}

func (r *reply) answer(res result) {
	r.levels = []result{res}
	close(r.done)
}

func (r *reply) admit(levels []*result) {
	for _, l := range levels {
		r.levels = append(r.levels, *l)
	}
	close(r.done)
}

func (r *reply) deny(statuses []api.LimitStatus, waitMs int64) {
	r.statuses, r.waitMs = statuses, waitMs
	close(r.done)
}

// routed acquires at a node's router, past the shell.
func (n *node) routed(w *world, entity string, tokens int64) *reply {
	r := &reply{done: make(chan struct{})}
	now := n.clock.Mono()
	n.router.acquire(new(spend), n.router.member(w.bucketKey(entity)), rpmAmount(tokens),
		asker{request: patient{}, received: now, deadline: now + patience, answerBy: now + patience}, r)
	<-r.done
	return r
}

// The router decides an acquire of one shard, of several shards, and of several levels.
func TestARouterDecidesAcquires(t *testing.T) {
	for name, c := range map[string]struct {
		setUp  func(t *testing.T, w *world)
		levels []string
	}{
		"one shard": {func(*testing.T, *world) {}, []string{"e"}},
		"four shards": {func(t *testing.T, w *world) {
			t.Helper()
			w.dividedBefore(t, 4)
		}, []string{"e"}},
		"a cascade": {func(t *testing.T, w *world) {
			t.Helper()
			w.lineage(t, "e", "parent")
		}, []string{"e", "parent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 40))
			c.setUp(t, w)
			n := w.node(t, Tuning{})
			admitted := n.routed(w, "e", 30)
			require.Len(t, admitted.levels, len(c.levels))
			for i, entity := range c.levels {
				require.NoError(t, admitted.levels[i].err)
				require.Equal(t, entity, admitted.levels[i].item.Key.Entity)
				require.EqualValues(t, 10, admitted.levels[i].statuses(nil)[0].Available)
			}
			denied := n.routed(w, "e", 11)
			require.Len(t, denied.statuses, len(c.levels))
			require.Positive(t, denied.waitMs)
			require.Equal(t, neverMs, n.routed(w, "e", 41).waitMs)
		})
	}
}
