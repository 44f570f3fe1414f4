package admission

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// at asks one node, whichever of the group NATS would choose.
func (n *node) at(t *testing.T, nc *nats.Conn, verb api.Verb, body string) *nats.Msg {
	t.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	require.NoError(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	require.NoError(t, nc.Flush())
	now := n.clock.Mono()
	message := &nats.Msg{Reply: inbox, Data: []byte(body)}
	r := &request{service: n.Service, message: message, body: message.Data, inbox: inbox, received: now, deadline: now + patience, control: n.controlWork(verb) != nil}
	n.requests.Add(1)
	if !r.control {
		n.pending.Add(1)
	}
	(&listener{Service: n.Service}).dispatch(r, api.Subject(api.DefaultNamespace, verb))
	m, err := sub.NextMsg(patience)
	require.NoError(t, err)
	return m
}

// acquireAt spends at one node.
func (n *node) acquireAt(t *testing.T, nc *nats.Conn, body string) api.AcquireReply {
	t.Helper()
	m := n.at(t, nc, api.VerbAcquire, body)
	require.Empty(t, m.Header.Get(api.HeaderErrorCode), "refused: %s", m.Data)
	var reply api.AcquireReply
	require.NoError(t, json.Unmarshal(m.Data, &reply), string(m.Data))
	return reply
}

// drain acquires one token after the other until it is denied, and says how many
// it got.
func (n *node) drain(t *testing.T, nc *nats.Conn, body string) int {
	t.Helper()
	for got := 0; ; got++ {
		if !n.acquireAt(t, nc, body).Allowed {
			return got
		}
	}
}

// A changed level binds the buckets it governs on every node: the node that
// serves the change tells the others, which have settings that are good for a
// minute yet.
func TestAChangeAtAnyLevelBindsOnEveryNode(t *testing.T) {
	w := newWorld(t)
	nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{})}
	nc := w.nats.Connect(t)
	levels := []api.LimitsTarget{ // each wins over those before it
		{System: true}, {Resource: "gpt-4"}, {Entity: "api-key-123"}, {Entity: "api-key-123", Resource: "gpt-4"},
	}
	w.setLimits(t, levels[0], perDay("rpm", 1000))
	bound := func(n *node, capacity int64) func() bool {
		return func() bool { return n.acquireAt(t, nc, one).Limits[0].Capacity == capacity }
	}
	for i, level := range levels {
		for j, n := range nodes {
			capacity := int64(100*(i+1) + j)
			body, err := json.Marshal(api.LimitsSetRequest{LimitsTarget: level, Limits: []api.Limit{perDay("rpm", capacity)}})
			require.NoError(t, err)
			m := n.at(t, nc, api.VerbLimitsSet, string(body))
			require.Empty(t, m.Header.Get(api.HeaderErrorCode), "refused: %s", m.Data)
			for k, n := range nodes {
				require.Eventually(t, bound(n, capacity), patience, time.Millisecond, "level %d set at node %d, seen at node %d", i, j, k)
			}
		}
	}
	for i := len(levels) - 1; i > 0; i-- { // and those after it hold again when it is gone
		body, err := json.Marshal(api.LimitsDeleteRequest{LimitsTarget: levels[i]})
		require.NoError(t, err)
		m := nodes[i%2].at(t, nc, api.VerbLimitsDelete, string(body))
		require.Empty(t, m.Header.Get(api.HeaderErrorCode), "refused: %s", m.Data)
		for _, n := range nodes {
			require.Eventually(t, bound(n, int64(100*i+1)), patience, time.Millisecond, "level %d deleted", i)
		}
	}
}

// liveWorld has a node whose settings are outdated whenever limits are set.
func liveWorld(t *testing.T) (n *node, nc *nats.Conn, set func(...api.Limit)) {
	t.Helper()
	w := newWorld(t)
	n = w.node(t, Tuning{})
	nc = w.nats.Connect(t)
	return n, nc, func(ls ...api.Limit) {
		w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, ls...)
		n.hear(t)
	}
}

// hear tells the node that the limits of the resource changed.
func (n *node) hear(t *testing.T) {
	t.Helper()
	change, err := json.Marshal(api.LimitsTarget{Resource: "gpt-4"})
	require.NoError(t, err)
	(&listener{Service: n.Service}).configChanged(&nats.Msg{Subject: api.ConfigSubject(api.DefaultNamespace), Data: change})
}

func spendOf(name string, tokens int) string {
	return fmt.Sprintf(`{"entity":"api-key-123","resource":"gpt-4","consume":{%q:%d}}`, name, tokens)
}

func TestALoweredLimitAdmitsNoMoreThanItsCapacity(t *testing.T) {
	n, nc, set := liveWorld(t)
	set(perDay("rpm", 1000))
	require.True(t, n.acquireAt(t, nc, one).Allowed)
	set(perDay("rpm", 5))
	require.Equal(t, 5, n.drain(t, nc, one))
}

func TestAnAddedLimitAdmitsItsCapacityAtOnce(t *testing.T) {
	n, nc, set := liveWorld(t)
	set(perDay("rpm", 1000))
	require.True(t, n.acquireAt(t, nc, one).Allowed)
	set(perDay("rpm", 1000), perDay("tpm", 7))
	require.Equal(t, 7, n.drain(t, nc, spendOf("tpm", 1)))
}

func TestARaisedLimitMintsNothing(t *testing.T) {
	n, nc, set := liveWorld(t)
	set(perDay("rpm", 5))
	require.Equal(t, 5, n.drain(t, nc, one))
	set(perDay("rpm", 1000))
	require.Zero(t, n.drain(t, nc, one), "a raised capacity fills at its rate")
}

func TestALimitRemovedAndAddedAgainMintsNothing(t *testing.T) {
	n, nc, set := liveWorld(t)
	set(perDay("rpm", 10), perDay("tpm", 10))
	require.Equal(t, 10, n.drain(t, nc, one))
	for range 3 {
		set(perDay("tpm", 10))
		n.acquireAt(t, nc, spendOf("tpm", 0)) // the item is synced to it
		set(perDay("rpm", 10), perDay("tpm", 10))
		require.Zero(t, n.drain(t, nc, one))
	}
}

// Two nodes of which one has not heard of the last change take turns at one
// bucket: the item follows the change, and no token appears.
func TestNodesWithDifferentSettingsMintNothing(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{})}
	nc := w.nats.Connect(t)
	const most = 40
	got, last := 0, int64(0)
	for range 60 {
		last = int64(1 + random.IntN(most))
		w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", last))
		nodes[random.IntN(2)].hear(t)
		for range 6 {
			if nodes[random.IntN(2)].acquireAt(t, nc, one).Allowed {
				got++
			}
		}
	}
	require.LessOrEqual(t, got, most, "seed %d: no more than the highest capacity that ever was", seed)
	for i, n := range nodes {
		n.hear(t)
		require.Equal(t, last, n.acquireAt(t, nc, one).Limits[0].Capacity, "seed %d: node %d follows the last change", seed, i)
	}
}
