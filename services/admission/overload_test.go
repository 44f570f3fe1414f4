package admission

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/services/admission/fair"
)

// occupied holds all turns of a node.
type occupied struct {
	*node
	turns []*fair.Ticket
}

// occupy takes all turns of a node. Turns of that length seem to have ended before.
func (n *node) occupy(length time.Duration) *occupied {
	o := &occupied{node: n}
	now := n.clock.Mono()
	for len(o.turns) < turnLimits().Start {
		turn := fair.NewTicket(func() {})
		if len(o.turns) == 0 && n.gate.Try(&turn, "", now-length) {
			n.gate.Leave(&turn, now)
		}
		if n.gate.Try(&turn, "", now) {
			o.turns = append(o.turns, &turn)
		}
	}
	return o
}

// release ends one of the turns.
func (o *occupied) release() {
	last := len(o.turns) - 1
	o.gate.Leave(o.turns[last], o.clock.Mono())
	o.turns = o.turns[:last]
}

func (o *occupied) releaseAll() {
	for len(o.turns) > 0 {
		o.release()
	}
}

// waiting returns how many flights wait for their turn.
func (n *node) waiting() int {
	s := n.gate.Stats()
	return s.Waiting[fair.Settle] + s.Waiting[fair.Acquire]
}

func (n *node) shed(scope string) float64 { return testutil.ToFloat64(n.Service.metrics.shed[scope]) }

func oneOf(entity string) string { return strings.Replace(one, "api-key-123", entity, 1) }

// What would wait for the store for longer than its caller does is refused at once, costs
// the node no memory, and has spent nothing. The policy allow answers for a store that is
// away, not for too many requests.
func TestWhatCannotBeAnsweredInTimeIsRefusedAtOnce(t *testing.T) {
	const hasty = time.Second // a turn seems to take a minute now and then
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, oneOf("known"))
	full := n.occupy(2 * time.Minute)
	waits := fair.NewTicket(func() {})
	n.gate.Enter(&waits, w.ns, fair.Acquire, n.clock.Mono())

	open := strings.Replace(oneOf("new"), "{", `{"on_unavailable":"allow",`, 1)
	for _, body := range []string{oneOf("new"), open, oneOf("known")} {
		n.gate.Ended(fair.Call{Form: "read", Answered: true}, n.clock.Mono()) // the store is there
		require.Equal(t, api.CodeOverloaded, refused(t, nc, api.VerbAcquire, body, hasty).Code)
	}
	require.InDelta(t, 3, n.shed(scopeStore), 0)
	require.Nil(t, n.router.members.peek(w.bucketKey("new")), "a refused bucket is not remembered")
	require.Equal(t, 1, n.waiting(), "nothing waits but what waited before")

	for range 8 {
		n.gate.Ended(fair.Call{Form: "read"}, n.clock.Mono()) // it does not answer
	}
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAcquire, oneOf("new"), hasty).Code)
	require.Contains(t, string(send(t, nc, api.VerbAcquire, open, hasty).Data), `"degraded":true`)

	full.releaseAll()
	n.gate.Leave(&waits, n.clock.Mono())
	require.Nil(t, w.item(t, "new", "gpt-4"))
	require.True(t, acquire(t, nc, oneOf("new")).Allowed)
}

// A denial that needs no call of the store needs no turn.
func TestKnownDenialsWaitForNoTurn(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, one)
	full := n.occupy(time.Millisecond)
	defer full.releaseAll()
	known := &n.router.member(w.bucketKey("api-key-123")).writer.known
	seen := *known.seen.Load()
	seen.at = n.clock.Mono() // this moment, however slow the machine is
	known.seen.Store(&seen)
	require.False(t, acquire(t, nc, one).Allowed)
	require.Zero(t, n.waiting())
}

// A flight that waits for its turn leaves the queue when the callers of all its calls have
// given up, and the next acquire begins another.
func TestCallersThatGaveUpLeaveTheQueue(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, oneOf("other"))
	full := n.occupy(time.Millisecond)
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAcquire, one, 100*time.Millisecond).Code)
	require.Eventually(t, func() bool { return n.waiting() == 0 }, patience, tickle)
	full.releaseAll()
	require.True(t, acquire(t, nc, one).Allowed)
}

// Calls that arrive while their bucket waits share its turn.
func TestAllThatWaitShareATurn(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, one)
	full := n.occupy(time.Millisecond)
	before := n.faults.Total().Calls
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { acquire(t, nc, one) })
	}
	writer := &n.router.member(w.bucketKey("api-key-123")).writer
	require.Eventually(t, func() bool { return writer.unanswered.Load() == 20 }, patience, tickle)
	require.Equal(t, 1, n.waiting())
	full.release()
	wg.Wait()
	require.EqualValues(t, 1, n.faults.Total().Calls-before)
	full.releaseAll()
}

// recorded notes the keys of updates, in order.
type recorded struct {
	next http.RoundTripper

	mu    sync.Mutex
	order []string // guarded by mu
}

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".UpdateItem") {
		r.mu.Lock()
		for _, entity := range []string{"first", "second", "settled"} {
			if bytes.Contains(body, []byte("#"+entity+"#")) {
				r.order = append(r.order, entity)
			}
		}
		r.mu.Unlock()
	}
	return r.next.RoundTrip(req)
}

// A settlement goes before acquires of its namespace that wait longer, also where it joins
// an acquire of its bucket.
func TestSettlementsGoFirst(t *testing.T) {
	for _, joins := range []bool{false, true} {
		t.Run(fmt.Sprintf("joins=%t", joins), func(t *testing.T) {
			w := newWorld(t)
			calls := &recorded{next: w.next}
			w.next = calls
			rpmPerDay(t, w, 1000)
			n := w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			acquire(t, nc, oneOf("first"))
			acquire(t, nc, oneOf("second"))
			lease := acquire(t, nc, oneOf("settled")).Lease
			calls.order = nil // nothing is under way
			full := n.occupy(time.Millisecond)
			var wg sync.WaitGroup
			queue := func(length int, do func()) {
				wg.Go(do)
				require.Eventually(t, func() bool { return n.waiting() == length }, patience, tickle)
			}
			queue(1, func() { acquire(t, nc, oneOf("first")) })
			queue(2, func() { acquire(t, nc, oneOf("second")) })
			if joins {
				queue(3, func() { acquire(t, nc, oneOf("settled")) })
			}
			wg.Go(func() { ask[api.ReleaseReply](t, nc, api.VerbRelease, fmt.Sprintf(`{"lease":%q}`, lease)) })
			require.Eventually(t, func() bool { return n.gate.Stats().Waiting[fair.Settle] == 1 }, patience, tickle)
			full.release()
			wg.Wait()
			full.releaseAll()
			require.Equal(t, []string{"settled", "first", "second"}, calls.order)
		})
	}
}

// A node that stops waits for refunds that wait for their turn, although no request does.
func TestRefundsThatWaitForTheirTurnSurviveTheStop(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, one).Lease
	drawn := w.item(t, "api-key-123", "gpt-4").Limits[0].Drawn
	full := n.occupy(time.Millisecond)
	send(t, nc, api.VerbRelease, fmt.Sprintf(`{"lease":%q}`, lease), 200*time.Millisecond) // answered when its time is up
	require.Eventually(t, func() bool { return n.waiting() == 1 }, patience, tickle)
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	require.Eventually(t, func() bool {
		_, err := nc.Request(api.Subject(api.DefaultNamespace, api.VerbStatus), nil, patience)
		return errors.Is(err, nats.ErrNoResponders)
	}, patience, tickle)
	full.releaseAll()
	require.NoError(t, <-stopped)
	require.Less(t, w.item(t, "api-key-123", "gpt-4").Limits[0].Drawn, drawn)
}

// A namespace that fills the queue leaves room for another.
func TestANamespaceHasAShareOfTheQueue(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	n := w.node(t, Tuning{Queue: 20})
	nc := w.nats.Connect(t)
	tenant(t, nc, "other", perDay("rpm", 1000))
	acquire(t, nc, one)
	acquireIn(t, nc, "other")
	full := n.occupy(time.Millisecond)
	var wg sync.WaitGroup
	for i := range 16 { // 4/5
		wg.Go(func() { acquire(t, nc, oneOf("flood-"+strconv.Itoa(i))) })
	}
	require.Eventually(t, func() bool { return n.waiting() == 16 }, patience, tickle)
	require.Equal(t, api.CodeOverloaded, refused(t, nc, api.VerbAcquire, oneOf("flood-16"), patience).Code)
	require.InDelta(t, 1, n.shed(scopeNamespace), 0)
	wg.Go(func() { acquireIn(t, nc, "other") })
	require.Eventually(t, func() bool { return n.waiting() == 17 }, patience, tickle)
	full.releaseAll()
	wg.Wait()
	acquire(t, nc, oneOf("flood-16"))
}

// A caller that has its answer may come back: it does not find its own call in the way.
func TestAnsweredCallsTakeNoRoom(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			w := newWorld(t)
			rpmPerDay(t, w, 4)
			w.node(t, Tuning{Queue: bucketShare}) // a single call of a bucket
			nc := w.nats.Connect(t)
			acquire(t, nc, one)
			w.divide(t, "api-key-123", shards)
			for range 300 {
				acquire(t, nc, one)
			}
		})
	}
}

// The same, within the answer.
func TestAnAnsweredCallTakesNoRoomInTheFlight(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1)
	n := w.node(t, Tuning{Queue: bucketShare})
	acquire(t, w.nats.Connect(t), one)
	writer := &n.router.member(w.bucketKey("api-key-123")).writer
	again, ended := make(chan bool, 1), make(chan struct{})
	spend := operation{amounts: api.Amounts{{Name: "rpm", Tokens: 1}}}
	require.True(t, writer.submit(n.anybody().call(spend, func(shardResult) {
		again <- writer.submit(n.anybody().call(spend, func(shardResult) { close(ended) }))
	})))
	require.True(t, <-again)
	<-ended
}

// slow is a store that carries out few calls at a time, each in a few milliseconds.
type slow struct {
	next    http.RoundTripper
	servers chan struct{}
}

func (s slow) RoundTrip(req *http.Request) (*http.Response, error) {
	s.servers <- struct{}{}
	time.Sleep(2 * time.Millisecond)
	<-s.servers
	return s.next.RoundTrip(req)
}

// A namespace asks for thousands of new buckets at once. Each of its requests is answered,
// what is refused has spent nothing, and another namespace does not lose a reply.
func TestAFloodCostsAnotherTenantNoReply(t *testing.T) {
	const flood, others = 1000, 40
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	w.next = slow{next: w.next, servers: make(chan struct{}, 4)}
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc, other := w.nats.Connect(t), w.nats.Connect(t)
	tenant(t, other, "other", perDay("rpm", 1000))
	acquireIn(t, other, "other")

	const admitted = "admitted"
	outcomes := map[string][]string{} // entities by outcome
	inbox := nats.NewInbox() + "."
	answered := make(chan struct{}, flood)
	sub, err := nc.Subscribe(inbox+"*", func(m *nats.Msg) {
		outcome := admitted
		if m.Header.Get(api.HeaderErrorCode) != "" {
			outcome = string(api.DecodeError(m.Data).Code)
		}
		outcomes[outcome] = append(outcomes[outcome], strings.TrimPrefix(m.Subject, inbox))
		answered <- struct{}{}
	})
	require.NoError(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	for i := range flood {
		m := nats.NewMsg(api.Subject(api.DefaultNamespace, api.VerbAcquire))
		entity := "flood-" + strconv.Itoa(i)
		m.Reply, m.Data = inbox+entity, []byte(oneOf(entity))
		m.Header.Set(api.HeaderTimeout, "1000")
		require.NoError(t, nc.PublishMsg(m))
	}
	for range others {
		require.True(t, acquireIn(t, other, "other").Allowed)
	}
	for range flood {
		<-answered
	}
	require.Eventually(t, func() bool { return n.waiting() == 0 && n.gate.Stats().Running == 0 }, patience, tickle)
	for _, entity := range outcomes[admitted] {
		require.NotNil(t, w.item(t, entity, "gpt-4"))
	}
	for _, entity := range outcomes[string(api.CodeOverloaded)] {
		require.Nil(t, w.item(t, entity, "gpt-4"), "what is refused has spent nothing")
	}
}
