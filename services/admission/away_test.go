package admission

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
)

// hangs makes every call of a node to the store hang.
func hangs(string, []byte) fault.Fault { return fault.Fault{Kind: fault.Hangs} }

// departures returns how often a node has left the queue group.
func (n *node) departures(t *testing.T) int {
	t.Helper()
	return int(n.value(t, "tidegate_admission_departures_total"))
}

func (n *node) onDuty(t *testing.T) bool {
	t.Helper()
	return n.value(t, "tidegate_admission_on_duty") == 1
}

// value returns a metric of a node without labels.
func (n *node) value(t *testing.T, name string) float64 {
	t.Helper()
	families, err := n.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue() + f.Metric[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// A node whose store hangs leaves the requests to the other node, and comes back.
func TestANodeWithoutStoreLeavesTheGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000))
	a, b := w.node(t, Tuning{StoreTimeout: 100 * time.Millisecond}), w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	const body = `{"entity":"e","resource":"r","consume":{"rpm":1}}`
	a.faults.Match(hangs)
	require.Eventually(t, func() bool { // the requests that it takes show that it hangs
		send(t, nc, api.VerbAcquire, body, 300*time.Millisecond)
		return !a.onDuty(t)
	}, patience, 10*time.Millisecond)
	require.Contains(t, a.serviceStatus().Warning, "the store does not answer")
	require.True(t, b.onDuty(t))
	for range 50 {
		require.True(t, acquire(t, nc, body).Allowed)
	}
	a.faults.Match(nil)
	require.Eventually(t, func() bool { return a.onDuty(t) }, patience, 10*time.Millisecond)
	require.NotContains(t, a.serviceStatus().Warning, "takes no requests")
	require.NoError(t, b.stop())
	require.True(t, acquire(t, nc, body).Allowed)
	require.Equal(t, 1, a.departures(t))
	require.NoError(t, a.stop())
}

// If the store hangs for all nodes, they stay and answer by the policy of the limits.
func TestNodesWithoutStoreStayIfNoOtherServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000))
	nodes := []*node{w.node(t, Tuning{StoreTimeout: 100 * time.Millisecond}), w.node(t, Tuning{StoreTimeout: 100 * time.Millisecond})}
	nc := w.nats.Connect(t)
	for _, n := range nodes {
		n.faults.Match(hangs)
	}
	silent := func(n *node) bool { return n.contact.Silence(n.clock.Mono()) > storePatience+3*time.Second }
	for !silent(nodes[0]) || !silent(nodes[1]) {
		reply := send(t, nc, api.VerbAcquire, `{"entity":"e","resource":"r","consume":{"rpm":1},"on_unavailable":"allow"}`, 300*time.Millisecond)
		require.Contains(t, string(reply.Data), `"degraded":true`)
	}
	require.True(t, nodes[0].onDuty(t) || nodes[1].onDuty(t))
	for _, n := range nodes {
		n.faults.Match(nil)
	}
	require.Eventually(t, func() bool { return nodes[0].onDuty(t) && nodes[1].onDuty(t) }, patience, 10*time.Millisecond)
}

// blockingLog blocks at the lines about refused requests until it is released, as a pipe
// that is not read does.
type blockingLog struct {
	slog.Handler

	once     sync.Once
	blocked  chan struct{}
	released chan struct{}
}

func (l *blockingLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *blockingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "answered" {
		l.once.Do(func() { close(l.blocked) })
		<-l.released
	}
	return nil
}

// A node whose log blocks takes no requests, and so leaves them to the other node.
func TestANodeThatBlocksLeavesTheGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000))
	log := &blockingLog{Handler: slog.DiscardHandler, blocked: make(chan struct{}), released: make(chan struct{})}
	release := sync.OnceFunc(func() { close(log.released) })
	t.Cleanup(release)
	blocks := *w
	blocks.log = log
	a, b := blocks.node(t, Tuning{}), w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.Eventually(t, func() bool {
		m := nats.NewMsg(api.Subject(api.DefaultNamespace, api.VerbAcquire))
		m.Reply = nc.NewInbox()
		m.Header.Set(api.HeaderTimeout, "nonsense") // it is refused on the subscription's goroutine
		require.NoError(t, nc.PublishMsg(m))
		select {
		case <-log.blocked:
			return true
		default:
			return false
		}
	}, patience, time.Millisecond)
	require.Eventually(t, func() bool { return !a.onDuty(t) }, patience, 10*time.Millisecond)
	for range 20 {
		require.True(t, acquire(t, nc, `{"entity":"e","resource":"r","consume":{"rpm":1}}`).Allowed)
	}
	release()
	require.Eventually(t, func() bool { return a.onDuty(t) }, patience, 10*time.Millisecond)
	require.NoError(t, b.stop())
	require.NoError(t, a.stop())
}

// A node leaves a NATS server that is about to shut down without losing a reply.
func TestANodeMovesFromAServerThatShutsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000))
	servers := natstest.StartCluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	drains := make(chan struct{}, 1)
	start := func(first int) *node {
		at := *w
		at.nats = servers[first]
		if first == 0 {
			at.drains = drains
		}
		at.reach = []nats.Option{func(o *nats.Options) error {
			o.Url, o.Servers, o.NoRandomize = "", append(urls[first:len(urls):len(urls)], urls[:first]...), true
			return nil
		}}
		return at.node(t, Tuning{})
	}
	a, b := start(0), start(1)
	require.Equal(t, urls[0], a.nats.ConnectedUrl())

	stop, asked := make(chan struct{}), sync.WaitGroup{}
	for i := range 4 {
		nc := servers[2].Connect(t)
		asked.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				reply, err := nc.Request(api.Subject(api.DefaultNamespace, api.VerbAcquire), []byte(fmt.Sprintf(`{"entity":"e%d","resource":"r","consume":{"rpm":1}}`, i)), patience)
				if err != nil || !strings.Contains(string(reply.Data), `"allowed":true`) {
					t.Errorf("request %d: %v %s", n, err, reply.Data)
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return a.duty.AnotherIsAble() }, patience, time.Millisecond)
	drains <- struct{}{}
	require.Eventually(t, func() bool { return a.onDuty(t) && a.nats.ConnectedUrl() != urls[0] }, patience, time.Millisecond)
	close(stop)
	asked.Wait()
	require.NoError(t, b.stop())
	require.Equal(t, 1, a.departures(t))
}
