package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
)

// counting is a control plane whose requests wait until the test lets them go on.
type counting struct {
	began chan string // the namespace of each request that begins
	goOn  chan struct{}
}

func (*counting) Serves(v api.Verb) bool { return v == api.VerbLimitsGet }

func (c *counting) Serve(ctx context.Context, q config.AdminRequest) ([]byte, *api.Error) {
	c.began <- q.Namespace
	select {
	case <-c.goOn:
		return []byte(`{}`), nil
	case <-ctx.Done():
		return nil, api.Errorf(api.CodeDeadlineExceeded, "", "%v", ctx.Err())
	}
}

func (*counting) Check(context.Context) error { return nil }

// controlWorld is a node whose control plane waits for the test, and two tenants.
func controlWorld(t *testing.T, tuning Tuning) (*world, *node, *counting, *nats.Conn) {
	t.Helper()
	w := newWorld(t)
	c := &counting{began: make(chan string, 1000), goOn: make(chan struct{})}
	w.control = c
	for _, name := range []string{"tenant-a", "tenant-b"} {
		_, err := config.NewNamespaces(w.client, w.table).Ensure(t.Context(), name)
		require.NoError(t, err)
	}
	return w, w.node(t, tuning), c, w.nats.Connect(t)
}

// askControl sends a request of the control plane; its reply comes to the subscription.
func askControl(t *testing.T, nc *nats.Conn, namespace string, timeout time.Duration) *nats.Subscription {
	t.Helper()
	replies, err := nc.SubscribeSync(nats.NewInbox())
	require.NoError(t, err)
	m := nats.NewMsg(api.Subject(namespace, api.VerbLimitsGet))
	m.Reply = replies.Subject
	m.Header.Set(api.HeaderTimeout, api.FormatTimeout(timeout))
	require.NoError(t, nc.PublishMsg(m))
	return replies
}

func codeFrom(t *testing.T, replies *nats.Subscription) api.Code {
	t.Helper()
	m, err := replies.NextMsg(patience)
	require.NoError(t, err)
	return codeOf(m)
}

// Requests of the control plane run a few at a time, half of them of one namespace; the
// others wait for their turn, take no room of acquires, and are refused at once when too
// many wait. A tenant with few gets its turn before a tenant with many.
func TestControlCallsAreBoundedAndFair(t *testing.T) {
	const calls = 4
	w, n, c, nc := controlWorld(t, Tuning{ControlCalls: calls, ControlTimeout: patience})
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	var flood []*nats.Subscription
	for range calls/2 + waitingControls*calls {
		flood = append(flood, askControl(t, nc, "tenant-a", patience))
	}
	for range calls / 2 {
		require.Equal(t, "tenant-a", <-c.began)
	}
	waits := func(running, waiting int) {
		t.Helper()
		require.Eventually(t, func() bool { r, w := n.controls.counts(); return r == running && w == waiting }, patience, time.Millisecond)
	}
	waits(calls/2, waitingControls*calls)
	require.Zero(t, n.pending.Load(), "they take room of acquires")
	require.True(t, acquire(t, nc, one).Allowed)

	require.Equal(t, api.CodeOverloaded, codeFrom(t, askControl(t, nc, "tenant-a", patience)), "one too many")
	first := askControl(t, nc, "tenant-b", patience)
	require.Equal(t, "tenant-b", <-c.began, "another tenant has places of its own")
	second := askControl(t, nc, "tenant-b", patience)
	require.Equal(t, "tenant-b", <-c.began)
	third := askControl(t, nc, "tenant-b", patience)
	require.Equal(t, api.CodeOverloaded, codeFrom(t, flood[len(flood)-1]), "the newest of the flood leaves")
	waits(calls, waitingControls*calls)
	require.InDelta(t, 2, testutil.ToFloat64(n.Service.metrics.shed[scopeControl]), 0)

	close(c.goOn)
	for _, replies := range append(flood[:len(flood)-1], first, second, third) {
		require.Empty(t, codeFrom(t, replies))
	}
	waits(0, 0)
}

// A request whose turn does not come in its time is refused while it waits, and is not
// begun later. One that takes longer than the node allows is ended, however long its
// caller waits.
func TestControlCallsHaveTheirTime(t *testing.T) {
	_, n, c, nc := controlWorld(t, Tuning{ControlCalls: 1, ControlTimeout: 50 * time.Millisecond})
	n.controls.timeout = patience
	runs := askControl(t, nc, "tenant-a", patience)
	require.Equal(t, "tenant-a", <-c.began)
	late := askControl(t, nc, "tenant-b", 20*time.Millisecond)
	require.Equal(t, api.CodeOverloaded, codeFrom(t, late))
	_, waiting := n.controls.counts()
	require.Zero(t, waiting)
	c.goOn <- struct{}{}
	require.Empty(t, codeFrom(t, runs))

	n.controls.timeout = 50 * time.Millisecond
	require.Equal(t, api.CodeDeadlineExceeded, codeFrom(t, askControl(t, nc, "tenant-a", patience)))
	require.Equal(t, "tenant-a", <-c.began)
	require.Empty(t, c.began, "a refused request began")
}

// A node that stops answers the requests of the control plane that run, and those that
// wait.
func TestANodeThatStopsAnswersControlCalls(t *testing.T) {
	_, n, c, nc := controlWorld(t, Tuning{ControlCalls: 1, ControlTimeout: patience})
	var all []*nats.Subscription
	for range 3 {
		all = append(all, askControl(t, nc, "tenant-a", patience))
	}
	require.Equal(t, "tenant-a", <-c.began)
	require.Eventually(t, func() bool { _, waiting := n.controls.counts(); return waiting == 2 }, patience, time.Millisecond)
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	close(c.goOn)
	for _, replies := range all {
		require.Empty(t, codeFrom(t, replies))
	}
	require.NoError(t, <-stopped)
}

// While one tenant floods the node with status requests and the store hangs on all of
// them, another tenant's acquires and admin verbs are served as ever.
func TestAFloodOfStatusHoldsUpNobodyElse(t *testing.T) {
	const calls, flood = 4, 1000
	w := newWorld(t)
	n := w.node(t, Tuning{ControlCalls: calls, ControlTimeout: patience})
	nc := w.nats.Connect(t)
	for _, name := range []string{"tenant-a", "tenant-b"} {
		tenant(t, nc, name, perDay("rpm", 1<<30))
	}
	acquireIn(t, nc, "tenant-a")
	id := n.idOf(t, "tenant-a")
	n.faults.Match(func(op string, body []byte) fault.Fault {
		if (op == "Query" || op == "BatchGetItem") && strings.Contains(string(body), id) {
			return fault.Fault{Kind: fault.Hangs}
		}
		return fault.Fault{}
	})
	replies, err := nc.SubscribeSync(nats.NewInbox())
	require.NoError(t, err)
	for range flood {
		m := nats.NewMsg(api.Subject("tenant-a", api.VerbStatus))
		m.Reply, m.Data = replies.Subject, []byte(`{"entity":"api-key-123"}`)
		m.Header.Set(api.HeaderTimeout, api.FormatTimeout(patience))
		require.NoError(t, nc.PublishMsg(m))
	}
	shed := func() int { return int(testutil.ToFloat64(n.Service.metrics.shed[scopeControl])) }
	require.Eventually(t, func() bool { return shed() >= flood/2 }, patience, time.Millisecond)
	for i := range 50 {
		require.True(t, acquireIn(t, nc, "tenant-b").Allowed)
		_, refusal := in(t, nc, "tenant-b", api.VerbLimitsSet, fmt.Sprintf(`{"resource":"r%d","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":60}]}`, i))
		require.Nil(t, refusal)
		_, refusal = in(t, nc, "tenant-b", api.VerbStatus, `{"entity":"api-key-123"}`)
		require.Nil(t, refusal)
	}
	running, waiting := n.controls.counts()
	require.LessOrEqual(t, running, calls/2)
	require.LessOrEqual(t, waiting, waitingControls*calls)
	require.Zero(t, n.pending.Load())

	n.faults.Match(nil)
	codes := map[api.Code]int{}
	for range flood {
		codes[codeFrom(t, replies)]++
	}
	require.Equal(t, shed(), codes[api.CodeOverloaded], "each is answered")
	require.NotZero(t, codes[""], "what waited is served: %v", codes)
}

func (n *node) idOf(t *testing.T, name string) string {
	t.Helper()
	id, err := n.namespaces.Lookup(t.Context(), name, patience)
	require.NoError(t, err)
	return id
}

// A reply that is larger than the server takes is refused, with what makes it smaller.
func TestAReplyThatIsTooLargeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.nats = natstest.StartWith(t, &server.Options{JetStream: true, MaxPayload: 8 << 10})
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	spendEach(t, nc, "e", 100)
	e := refused(t, nc, api.VerbStatus, `{"entity":"e"}`, patience)
	require.Equal(t, api.CodeReplyTooLarge, e.Code)
	require.Equal(t, "limit", e.Field)
	require.Contains(t, e.Message, "8192")
	require.InDelta(t, 1, testutil.ToFloat64(n.Service.metrics.requests.WithLabelValues(string(api.VerbStatus), string(api.CodeReplyTooLarge))), 0)
	require.GreaterOrEqual(t, len(statusPages(t, nc, "e", 20)), 5)

	for _, verb := range []api.Verb{api.VerbCapacity, api.VerbLimitsList, api.VerbEntityList, api.VerbUsageList, api.VerbAuditList} {
		require.Equal(t, "limit", replyTooLarge(verb, 2, 1).Field)
	}
	require.Equal(t, "to_ms", replyTooLarge(api.VerbAuditVerify, 2, 1).Field)
	require.Empty(t, replyTooLarge(api.VerbLimitsSet, 2, 1).Field)
}

// Subscriptions that overlap would share their requests at random.
func TestEndpointsDoNotOverlap(t *testing.T) {
	endpoints := (&listener{}).endpoints()
	for _, v := range api.Verbs() {
		served := 0
		for _, e := range endpoints {
			admin := strings.HasSuffix(e.subject, ".admin.>") && strings.HasPrefix(string(v), "admin.")
			if e.subject == api.Subject("*", v) || admin {
				served++
			}
		}
		require.Equal(t, 1, served, v)
	}
}
